// Which provider is loaded, and what is said when it cannot be. Each case runs in a process of its own, because a
// provider is chosen once. NPU_FAKES is a folder with stand-ins for CANN installations; see CMakeLists.txt.
#include "acl/library.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

using namespace npu;
using testing::ExitedWithCode;

namespace {

std::string fake(const char* name) { return std::string(NPU_FAKES) + "/" + name; }

// Runs `expected` with only these variables set, and exits with 0 if it holds; prints why_unavailable().
template <class Check>
[[noreturn]] void in_environment(std::initializer_list<std::pair<const char*, std::string>> variables, Check check) {
  for (const char* name :
       {"TORCH_NPU_RUNTIME", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH"})
    unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  const bool good = check();
  fprintf(stderr, "%s\n", acl::why_unavailable().c_str());
  _exit(good ? 0 : 1);
}

bool unavailable_and_api_throws() {
  if (acl::available()) return false;
  try {
    acl::api();
  } catch (const c10::Error& e) {
    return e.msg() == acl::why_unavailable();
  }
  return false;
}

bool is_softnpu() { return acl::available() && acl::provider() == acl::Provider::softnpu; }
bool is_cann() { return acl::available() && acl::provider() == acl::Provider::cann; }

}  // namespace

TEST(Library, softnpu_is_the_default_without_cann) {
  EXPECT_EXIT(in_environment({}, is_softnpu), ExitedWithCode(0), "");
}

TEST(Library, cann_is_taken_where_its_variable_points_to_it) {
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}}, is_cann), ExitedWithCode(0), "");
  EXPECT_EXIT(in_environment({{"ASCEND_TOOLKIT_HOME", fake("cann")}}, is_cann), ExitedWithCode(0), "");
}

TEST(Library, forcing_softnpu_wins_over_an_installed_cann) {
  EXPECT_EXIT(in_environment({{"TORCH_NPU_RUNTIME", "soft"}, {"ASCEND_HOME_PATH", fake("cann")}}, is_softnpu),
              ExitedWithCode(0), "");
}

TEST(Library, a_folder_with_softnpu_in_it_is_not_cann) {
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", NPU_SOFTNPU}}, is_softnpu), ExitedWithCode(0), "");
  EXPECT_EXIT(
      in_environment({{"TORCH_NPU_RUNTIME", "cann"}, {"ASCEND_HOME_PATH", NPU_SOFTNPU}}, unavailable_and_api_throws),
      ExitedWithCode(0), "set_env.sh");
}

TEST(Library, a_forced_cann_that_is_missing_names_the_places_and_the_cure) {
  EXPECT_EXIT(in_environment({{"TORCH_NPU_RUNTIME", "cann"}}, unavailable_and_api_throws), ExitedWithCode(0),
              "libascendcl.so was not found.*set_env.sh.*ASCEND_HOME_PATH and ASCEND_TOOLKIT_HOME are not set");
  EXPECT_EXIT(in_environment({{"TORCH_NPU_RUNTIME", "cann"}, {"ASCEND_HOME_PATH", "/no/such/folder"}},
                             unavailable_and_api_throws),
              ExitedWithCode(0), "Searched: /no/such/folder/lib64");
}

TEST(Library, a_cann_that_was_asked_for_and_is_gone_is_not_replaced_silently) {
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", "/no/such/folder"}}, unavailable_and_api_throws), ExitedWithCode(0),
              "TORCH_NPU_RUNTIME=soft.*Searched: /no/such/folder/lib64");
}

TEST(Library, a_cann_that_does_not_load_says_why) {
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("broken")}}, unavailable_and_api_throws), ExitedWithCode(0),
              "libascendcl.so could not be loaded.*driver.*broken/lib64/libascendcl.so");
}

TEST(Library, a_cann_that_is_too_old_names_the_missing_function) {
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("old")}}, unavailable_and_api_throws), ExitedWithCode(0),
              "lacks aclInit");
}

TEST(Library, an_unknown_runtime_name_is_refused) {
  EXPECT_EXIT(in_environment({{"TORCH_NPU_RUNTIME", "cuda"}}, unavailable_and_api_throws), ExitedWithCode(0),
              "TORCH_NPU_RUNTIME=cuda names no runtime");
}

TEST(Library, optional_functions_may_be_absent) {
  const auto check = [] { return !acl::api().aclrtStreamGetId && acl::api().aclrtMalloc; };
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}}, check), ExitedWithCode(0), "");
}

TEST(Library, operators_are_looked_up_in_order_and_loaded_at_the_first_question) {
  const auto check = [] {
    const auto loaded = [] {
      void* handle = dlopen((fake("cann") + "/lib64/libopapi.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
      return handle != nullptr;
    };
    const auto& api = acl::api();
    if (loaded() || api.CanUsePTACache) return false;
    const auto call = [](const char* name) { return reinterpret_cast<int (*)()>(acl::op_symbol(name))(); };
    return call("aclnnEverywhere") == 1 && call("aclnnOnlyInTheFirst") == 1 && call("aclnnOnlyInTheLast") == 2 &&
           !acl::op_symbol("aclnnNowhere") && loaded() && api.CanUsePTACache;
  };
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}}, check), ExitedWithCode(0), "");
}

TEST(Library, custom_operators_come_before_those_of_cann) {
  const auto check = [] { return reinterpret_cast<int (*)()>(acl::op_symbol("aclnnEverywhere"))() == 3; };
  const auto custom = "/none:" + fake("custom");
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}, {"ASCEND_CUSTOM_OPP_PATH", custom}}, check),
              ExitedWithCode(0), "");
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}, {"ASCEND_OPP_PATH", fake("opp")}}, check),
              ExitedWithCode(0), "");
}

TEST(Library, a_missing_hccl_library_is_an_error_of_its_own) {
  const auto check = [] {
    try {
      acl::hccl_symbol("HcclAllReduce");
    } catch (const c10::Error& e) {
      return e.msg().find("libhccl.so could not be loaded") != std::string::npos;
    }
    return false;
  };
  EXPECT_EXIT(in_environment({{"ASCEND_HOME_PATH", fake("cann")}}, check), ExitedWithCode(0), "");
}
