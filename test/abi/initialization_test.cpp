// aclInit, aclFinalize and the thread's error message.
#include <cstring>

#include "library.h"

TEST(Initialization, second_init_says_so) {
  EXPECT_EQ(ACL(aclInit)(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_NE(test::message(), "");
}

TEST(Initialization, missing_config_file_is_an_error) {
  EXPECT_EQ(ACL(aclInit)("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
}

TEST(Initialization, finalize_can_be_followed_by_init) {
  ASSERT_OK(ACL(aclFinalize)());
  EXPECT_EQ(ACL(aclFinalize)(), ACL_ERROR_REPEAT_FINALIZE);
  EXPECT_OK(ACL(aclInit)(nullptr));
}

TEST(ErrorMessage, names_function_and_argument_and_is_given_once) {
  test::message();
  EXPECT_EQ(ACL(aclrtGetDeviceCount)(nullptr), ACL_ERROR_INVALID_PARAM);
  const char* text = ACL(aclGetRecentErrMsg)();
  ASSERT_NE(text, nullptr);
  EXPECT_NE(strstr(text, "aclrtGetDeviceCount"), nullptr) << text;
  EXPECT_NE(strstr(text, "count"), nullptr) << text;
  EXPECT_EQ(ACL(aclGetRecentErrMsg)(), nullptr);
}

TEST(ErrorMessage, belongs_to_the_thread) {
  test::message();
  EXPECT_NE(ACL(aclrtSetDevice)(-1), 0);
  std::thread([] { EXPECT_EQ(test::message(), ""); }).join();
  EXPECT_NE(test::message(), "");
}

TEST(ErrorMessage, last_code_is_peeked_and_taken) {
  EXPECT_EQ(ACL(aclrtSetDevice)(-1), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(ACL(aclrtPeekAtLastError)(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(ACL(aclrtGetLastError)(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(ACL(aclrtGetLastError)(ACL_RT_THREAD_LEVEL), 0);
}
