#include "acl/check.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "acl/library.h"
#include "device_or_skip.h"

using namespace npu;

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) parts.push_back(line);
  return parts;
}

// Stands for a runtime function, so that NPU_CHECK sees a call.
int aclrtFake(int code) { return code; }

std::string message_of(int code) {
  try {
    NPU_CHECK(aclrtFake(code));
  } catch (const c10::Error& e) {
    return e.msg();
  }
  return "";
}

}  // namespace

TEST(Check, success_does_nothing) { EXPECT_EQ(message_of(0), ""); }

TEST(Check, codes_have_names) {
  EXPECT_STREQ(acl::code_name(107002), "ACL_ERROR_RT_CONTEXT_NULL");
  EXPECT_STREQ(acl::code_name(161002), "ACLNN_ERR_PARAM_INVALID");
  EXPECT_STREQ(acl::code_name(1), "unknown code");
}

TEST(Check, the_error_says_what_to_do_then_the_code_and_ends_in_the_plugin_s_line) {
  const auto text = lines(message_of(ACL_ERROR_RT_CONTEXT_NULL));
  ASSERT_GE(text.size(), 3u);
  EXPECT_EQ(text.front(), "This thread has no NPU selected. Call torch.npu.set_device() in it first.");
  EXPECT_EQ(text[1], "aclrtFake returned 107002 (ACL_ERROR_RT_CONTEXT_NULL)");
  const std::regex line(R"(\[ERROR\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d )"
                        R"(\(PID:\d+, Device:-?\d+, RankID:-1\) ERR00100 PTA call acl api failed)");
  EXPECT_TRUE(std::regex_match(text.back(), line)) << text.back();
}

TEST(Check, a_call_without_arguments_has_its_name) {
  const auto second_line = [](const char* expression) {
    try {
      acl::throw_acl_error(507015, expression, __FILE__, __LINE__);
    } catch (const c10::Error& e) {
      return lines(e.msg())[1];
    }
  };
  for (const char* expression :
       {"api.aclrtFake()", "acl::api().aclrtFake()", "acl::api().aclrtFake(stream(), 1)", "aclrtFake"})
    EXPECT_EQ(second_line(expression), "aclrtFake returned 507015 (ACL_ERROR_RT_AICORE_EXCEPTION)") << expression;
}

TEST(Check, the_vendor_code_reaches_python) {
  try {
    NPU_CHECK(aclrtFake(507015));
    FAIL();
  } catch (const c10::AcceleratorError& e) {
    EXPECT_EQ(e.get_error_code(), 507015);
  }
}

TEST(Check, out_of_memory_is_torch_s_own_error) {
  EXPECT_THROW(NPU_CHECK(aclrtFake(ACL_ERROR_RT_MEMORY_ALLOCATION)), c10::OutOfMemoryError);
  EXPECT_NE(message_of(ACL_ERROR_RT_MEMORY_ALLOCATION).find("ERR00006 PTA memory error"), std::string::npos);
}

TEST(Check, compact_output_keeps_the_first_two_lines) {
  setenv("TORCH_NPU_COMPACT_ERROR_OUTPUT", "1", 1);
  EXPECT_EQ(lines(message_of(ACL_ERROR_RT_CONTEXT_NULL)).size(), 2u);
  unsetenv("TORCH_NPU_COMPACT_ERROR_OUTPUT");
}

TEST(Check, an_asynchronous_error_says_that_the_stack_is_a_later_one) {
  {
    const acl::AsynchronousErrors asynchronous;
    EXPECT_NE(message_of(ACL_ERROR_RT_CONTEXT_NULL).find("ASCEND_LAUNCH_BLOCKING=1"), std::string::npos);
  }
  EXPECT_EQ(message_of(ACL_ERROR_RT_CONTEXT_NULL).find("ASCEND_LAUNCH_BLOCKING"), std::string::npos);
  EXPECT_NE(message_of(507015).find("ASCEND_LAUNCH_BLOCKING=1"), std::string::npos)
      << "a kernel fails after its launch";
}

TEST(Check, the_runtime_s_own_words_are_part_of_it) {
  SKIP_WITHOUT_DEVICE();
  try {
    NPU_CHECK(acl::api().aclrtSetDevice(1000));
    FAIL();
  } catch (const c10::Error& e) {
    const auto text = lines(e.msg());
    EXPECT_EQ(text[1].find("aclrtSetDevice returned 107001"), 0u) << e.msg();
    EXPECT_GE(text.size(), 4u) << "no words of the runtime in: " << e.msg();
  }
}
