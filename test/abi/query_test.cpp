// Names, versions, attributes, options; and the honest refusals.
#include <cstring>

#include "library.h"

TEST(Query, soc_has_a_name) {
  const char* name = ACL(aclrtGetSocName)();
  ASSERT_NE(name, nullptr);
  EXPECT_EQ(strncmp(name, "Ascend", 6), 0) << name;
}

TEST(Query, versions_are_numbers_with_dots) {
  aclCANNPackageVersion version = {};
  ASSERT_OK(ACL(aclsysGetCANNVersion)(ACL_PKG_NAME_CANN, &version));
  EXPECT_TRUE(version.version[0] >= '0' && version.version[0] <= '9' && strchr(version.version, '.'))
      << version.version;
  EXPECT_EQ(version.version[0], version.majorVersion[0]);
  char package[] = "toolkit", text[ACL_PKG_VERSION_MAX_SIZE] = {};
  ASSERT_OK(ACL(aclsysGetVersionStr)(package, text));
  EXPECT_STREQ(text, version.version);
  EXPECT_EQ(ACL(aclsysGetCANNVersion)(static_cast<aclCANNPackageName>(99), &version), ACL_ERROR_INVALID_PARAM);
}

TEST(Query, device_numbers_are_positive) {
  if (test::device_count() == 0) GTEST_SKIP() << "no device";
  for (aclrtDevAttr attribute : {ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_CUBE_CORE_NUM, ACL_DEV_ATTR_VECTOR_CORE_NUM,
                                 ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, ACL_DEV_ATTR_L2_CACHE_SIZE}) {
    int64_t value = 0;
    ASSERT_OK(ACL(aclrtGetDeviceInfo)(0, attribute, &value));
    EXPECT_GT(value, 0) << attribute;
  }
  int64_t value = 0;
  ASSERT_OK(ACL(aclGetDeviceCapability)(0, ACL_DEVICE_INFO_AI_CORE_NUM, &value));
  EXPECT_GT(value, 0);
  EXPECT_EQ(ACL(aclrtGetDeviceInfo)(9999, ACL_DEV_ATTR_AICORE_CORE_NUM, &value), ACL_ERROR_RT_INVALID_DEVICEID);
}

TEST(Query, attributes_of_the_list_can_be_read) {
  const aclCannAttr* list = nullptr;
  size_t count = 0;
  ASSERT_OK(ACL(aclGetCannAttributeList)(&list, &count));
  ASSERT_GT(count, 0u);
  for (size_t i = 0; i < count; ++i) {
    int32_t value = -1;
    EXPECT_OK(ACL(aclGetCannAttribute)(list[i], &value));
    EXPECT_TRUE(value == 0 || value == 1);
  }
}

TEST(Query, compile_option_keeps_its_text) {
  ASSERT_OK(ACL(aclSetCompileopt)(ACL_OP_JIT_COMPILE, "enable"));
  ASSERT_EQ(ACL(aclGetCompileoptSize)(ACL_OP_JIT_COMPILE), 7);
  char text[7];
  ASSERT_OK(ACL(aclGetCompileopt)(ACL_OP_JIT_COMPILE, text, sizeof text));
  EXPECT_STREQ(text, "enable");
  EXPECT_EQ(ACL(aclGetCompileopt)(ACL_OP_JIT_COMPILE, text, 6), ACL_ERROR_INVALID_PARAM);
  ASSERT_OK(ACL(aclSetCompileopt)(ACL_OP_JIT_COMPILE, "disable"));
}

TEST(Query, system_parameter_is_unset_until_it_is_set) {
  int64_t value = 9;
  EXPECT_EQ(ACL(aclrtGetSysParamOpt)(ACL_OPT_STRONG_CONSISTENCY, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET);
  ASSERT_OK(ACL(aclrtSetSysParamOpt)(ACL_OPT_DETERMINISTIC, 1));
  ASSERT_OK(ACL(aclrtGetSysParamOpt)(ACL_OPT_DETERMINISTIC, &value));
  EXPECT_EQ(value, 1);
  for (int64_t level : {3, 2, 1, 0}) EXPECT_OK(ACL(aclrtSetSysParamOpt)(ACL_OPT_DETERMINISTIC, level));
  EXPECT_EQ(ACL(aclrtSetSysParamOpt)(static_cast<aclSysParamOpt>(77), 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtSetSysParamOpt)(ACL_OPT_DETERMINISTIC, 5), ACL_ERROR_RT_PARAM_INVALID);
}

TEST(Query, refusals_say_what_is_missing) {
  EXPECT_EQ(ACL(aclprofFinalize)(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  const std::string text = test::message();
  EXPECT_NE(text.find("aclprofFinalize"), std::string::npos) << text;
  EXPECT_NE(text.find("hardware profiler"), std::string::npos) << text;
  EXPECT_EQ(ACL(aclprofCreateConfig)(nullptr, 0, ACL_AICORE_NONE, nullptr, 0), nullptr);
  EXPECT_EQ(ACL(acltdtGetDatasetSize)(nullptr), 0u);
  EXPECT_EQ(ACL(rtKernelLaunch)(nullptr, 0, nullptr, 0, nullptr, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}
