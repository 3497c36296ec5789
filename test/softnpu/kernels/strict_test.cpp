// SOFTNPU_STRICT=1 (the environment of this program): phase one refuses what the chip is known to refuse.
#include "operators.h"

extern "C" {
int aclnnExpm1GetWorkspaceSize(const aclTensor*, const aclTensor*, uint64_t*, aclOpExecutor**);
int aclnnCastGetWorkspaceSize(const aclTensor*, aclDataType, const aclTensor*, uint64_t*, aclOpExecutor**);
}

class Strict : public test::OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!getenv("SOFTNPU_STRICT")) GTEST_SKIP() << "SOFTNPU_STRICT is not set";
  }
  bool chip_has_bfloat16() const { return !strstr(ACL(aclrtGetSocName)(), "910A"); }
  uint64_t workspace_ = 0;
  aclOpExecutor* executor_ = nullptr;
};

TEST_F(Strict, memory_of_a_queued_operator_cannot_be_freed) {
  aclrtStream stream = make_stream();
  auto a = test::floats({1, 2});
  void* memory = make_memory(8);
  const int64_t size = 2;
  aclTensor* out = ACL(aclCreateTensor)(&size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &size, 1, memory);
  {
    test::Gate gate(stream);
    ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(a.handle, out, &workspace_, &executor_));
    ASSERT_OK(ACL(aclnnAbs)(nullptr, 0, executor_, stream));
    EXPECT_NE(ACL(aclrtFree)(memory), 0);
    EXPECT_NE(test::message().find("aclnnAbs"), std::string::npos) << test::message();
    gate.open();
    ASSERT_OK(ACL(aclrtSynchronizeStream)(stream));
  }
  EXPECT_OK(ACL(aclrtFree)(memory));
  ACL(aclDestroyTensor)(out);
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
}

TEST_F(Strict, descriptors_live_until_phase_two) {
  aclrtStream stream = make_stream();
  auto a = test::floats({-1, 2}), out = test::floats({0, 0});
  const int64_t size = 2;
  aclTensor* gone = ACL(aclCreateTensor)(&size, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &size, 1, a.memory());
  ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(gone, out.handle, &workspace_, &executor_));
  ACL(aclDestroyTensor)(gone);
  EXPECT_EQ(ACL(aclnnAbs)(nullptr, 0, executor_, stream), ACLNN_ERR_PARAM_INVALID);
  const std::string text = test::message();
  EXPECT_NE(text.find("argument 'self' was destroyed before phase two"), std::string::npos) << text;
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  ASSERT_OK(ACL(aclnnAbsGetWorkspaceSize)(a.handle, out.handle, &workspace_, &executor_));
  ASSERT_OK(ACL(aclnnAbs)(nullptr, 0, executor_, stream));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream));
  EXPECT_EQ(out.read(), (std::vector<float>{1, 2}));
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
}

TEST_F(Strict, float64_is_refused_by_name) {
  test::DeviceTensor<double> x({2}, ACL_DOUBLE, {1, 2}), out({2}, ACL_DOUBLE, {0, 0});
  EXPECT_EQ(ACL(aclnnExpm1GetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_), ACLNN_ERR_PARAM_INVALID);
  const std::string text = test::message();
  for (const char* part :
       {"aclnnExpm1", "'self'", "float64", ACL(aclrtGetSocName)(), "compute in float32", "SOFTNPU_STRICT"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

TEST_F(Strict, operators_known_to_take_float64_take_it) {
  test::DeviceTensor<double> x({2}, ACL_DOUBLE, {1, 2});
  auto out = test::floats({0, 0});
  ASSERT_OK(ACL(aclnnCastGetWorkspaceSize)(x.handle, ACL_FLOAT, out.handle, &workspace_, &executor_));
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
}

TEST_F(Strict, an_argument_takes_the_types_that_the_device_lists) {
  test::DeviceTensor<int32_t> x({2}, ACL_INT32, {1, 2});
  auto out = test::floats({0, 0});
  EXPECT_EQ(ACL(aclnnExpm1GetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_), ACLNN_ERR_PARAM_INVALID);
  auto y = test::floats({1, 2});
  ASSERT_OK(ACL(aclnnExpm1GetWorkspaceSize)(y.handle, out.handle, &workspace_, &executor_));
  ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
}

TEST_F(Strict, bfloat16_depends_on_the_chip) {
  test::DeviceTensor<uint16_t> x({2}, ACL_BF16, {0, 0}), out({2}, ACL_BF16, {0, 0});
  const int code = ACL(aclnnExpm1GetWorkspaceSize)(x.handle, out.handle, &workspace_, &executor_);
  EXPECT_EQ(code, chip_has_bfloat16() ? 0 : ACLNN_ERR_PARAM_INVALID) << test::message();
  if (code == 0) {
    ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  }
}

TEST_F(Strict, a_type_given_as_a_number_counts_too) {
  auto x = test::floats({1, 2});
  test::DeviceTensor<uint16_t> out({2}, ACL_BF16, {0, 0});
  const int code = ACL(aclnnCastGetWorkspaceSize)(x.handle, ACL_BF16, out.handle, &workspace_, &executor_);
  EXPECT_EQ(code, chip_has_bfloat16() ? 0 : ACLNN_ERR_PARAM_INVALID) << test::message();
  if (code == 0) {
    ASSERT_OK(ACL(aclDestroyAclOpExecutor)(executor_));
  }
}
