#include "acl/config.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cstdlib>

using namespace npu;

namespace {

// Sets a variable (or unsets it, for nullptr) for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

using Strings = std::vector<std::string>;

}  // namespace

TEST(Config, a_flag_is_any_integer_but_zero) {
  for (const auto& [text, on] :
       {std::pair{"1", true}, {"2", true}, {"-1", true}, {"0", false}, {"yes", false}, {"", false}}) {
    Variable variable("ASCEND_LAUNCH_BLOCKING", text);
    EXPECT_EQ(config::launch_blocking(), on) << text;
  }
  Variable variable("ASCEND_LAUNCH_BLOCKING", nullptr);
  EXPECT_FALSE(config::launch_blocking());
}

TEST(Config, an_empty_list_of_devices_is_not_an_absent_one) {
  Variable variable("ASCEND_RT_VISIBLE_DEVICES", "");
  EXPECT_EQ(config::visible_devices(), "");
  Variable absent("ASCEND_RT_VISIBLE_DEVICES", nullptr);
  EXPECT_EQ(config::visible_devices(), std::nullopt);
}

TEST(Config, both_homes_are_given_once_and_in_order) {
  Variable home("ASCEND_HOME_PATH", "/a"), toolkit("ASCEND_TOOLKIT_HOME", "/b");
  EXPECT_EQ(config::cann_homes(), (Strings{"/a", "/b"}));
  Variable same("ASCEND_TOOLKIT_HOME", "/a");
  EXPECT_EQ(config::cann_homes(), Strings{"/a"});
  Variable empty("ASCEND_HOME_PATH", "");
  EXPECT_EQ(config::cann_homes(), Strings{"/a"});
}

TEST(Config, custom_paths_are_a_colon_list) {
  Variable opp("ASCEND_OPP_PATH", nullptr), custom("ASCEND_CUSTOM_OPP_PATH", "/a::/b/c:");
  EXPECT_EQ(config::custom_operator_paths(), (Strings{"/a", "/b/c"}));
}

TEST(Config, a_task_queue_level_out_of_range_is_ignored) {
  for (const char* level : {"0", "1", "2"}) {
    Variable variable("TASK_QUEUE_ENABLE", level);
    EXPECT_EQ(config::task_queue_level(), atoi(level));
  }
  Variable variable("TASK_QUEUE_ENABLE", "7");
  EXPECT_EQ(config::task_queue_level(), std::nullopt);
}

TEST(Config, times_out_only_for_positive_numbers) {
  Variable stream("ACL_STREAM_TIMEOUT", "250"), device("ACL_DEVICE_SYNC_TIMEOUT", "3");
  EXPECT_EQ(config::stream_timeout_ms(), 250);
  EXPECT_EQ(config::device_timeout_ms(), 3000);
  Variable never("ACL_STREAM_TIMEOUT", "0"), nonsense("ACL_DEVICE_SYNC_TIMEOUT", "soon");
  EXPECT_EQ(config::stream_timeout_ms(), -1);
  EXPECT_EQ(config::device_timeout_ms(), -1);
}
