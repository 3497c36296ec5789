// Initialisation, the current card of a thread, and forks. Tests that need an untouched process start one.
#include "runtime/device.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "acl/library.h"
#include "device_or_skip.h"
#include "ops/tensor.h"
#include "runtime/stream.h"

using namespace npu;
using testing::ExitedWithCode;

namespace {

// Exits with 0 if `check` holds, printing what it threw.
template <class Check>
[[noreturn]] void fresh(Check check) {
  bool good = false;
  try {
    good = check();
  } catch (const c10::Error& e) {
    fprintf(stderr, "%s\n", e.msg().c_str());
  }
  fflush(stderr);
  _exit(good ? 0 : 1);
}

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const c10::Error& e) {
    return e.msg();
  }
  return "";
}

int acl_device() {
  int32_t device = -1;
  return acl::api().aclrtGetDevice(&device) == 0 ? device : -1;
}

constexpr auto kForkMessage =
    "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start "
    "method";

}  // namespace

class Device : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
  }
  void TearDown() override {
    if (device_count() >= 2) set_device(0);
  }
};

// Its tests run in a process of their own, which has not used a card yet.
class FreshDevice : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_RUNTIME(); }
};

TEST_F(FreshDevice, questions_do_not_initialise) {
  EXPECT_EXIT(fresh([] {
                return device_count() > 1 && is_available() && !get_soc_name().empty() && !cann_version().empty() &&
                       get_device_properties(1).total_memory > 0 && current_device() == 0 && !is_initialized() &&
                       !has_primary_context(0) && acl_device() == -1;
              }),
              ExitedWithCode(0), "");
}

TEST_F(Device, properties_are_those_of_the_card) {
  const auto& p = get_device_properties(0);
  EXPECT_EQ(p.name, get_soc_name());
  EXPECT_GT(p.cube_core_num, 0);
  EXPECT_GT(p.vector_core_num, 0);
  EXPECT_EQ(p.uuid.size(), 36u);
  EXPECT_NE(p.uuid, get_device_properties(1).uuid);
  size_t free = 0, total = 0;
  memory_info(0, &free, &total);
  EXPECT_EQ(total, p.total_memory);
  EXPECT_LE(free, total);
}

TEST_F(FreshDevice, init_accepts_a_runtime_that_somebody_else_initialised) {
  EXPECT_EXIT(fresh([] {
                if (acl::api().aclInit(nullptr) != 0) return false;
                init();
                init();
                return is_initialized();
              }),
              ExitedWithCode(0), "");
}

TEST_F(FreshDevice, no_visible_card_is_an_error_that_names_the_variable) {
  EXPECT_EXIT(fresh([] {
                setenv("ASCEND_RT_VISIBLE_DEVICES", "none", 1);
                return device_count() == 0 && (init(), false);
              }),
              ExitedWithCode(1), "No NPU is visible.*ASCEND_RT_VISIBLE_DEVICES is 'none'");
}

TEST_F(FreshDevice, a_late_change_of_the_visible_devices_is_reported_once_and_ignored) {
  EXPECT_EXIT(fresh([] {
                const int before = device_count();
                init();
                setenv("ASCEND_RT_VISIBLE_DEVICES", "0", 1);
                return device_count() == before && device_count() == before;
              }),
              ExitedWithCode(0), "changed after the NPU was initialised: ASCEND_RT_VISIBLE_DEVICES is '0'");
}

TEST_F(Device, an_unknown_index_names_the_count) {
  const auto text = error_of([] { set_device(100); });
  EXPECT_NE(text.find("invalid device ordinal: npu:100"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(device_count()) + " NPUs, npu:0 to npu:"), std::string::npos) << text;
  EXPECT_NE(text.find("ASCEND_RT_VISIBLE_DEVICES"), std::string::npos) << text;
  EXPECT_EQ(current_device(), 0);
  EXPECT_NE(error_of([] { check_device_index(-1); }), "");
  EXPECT_NE(error_of([] { maybe_exchange_device(100); }), "");
}

TEST_F(Device, set_device_binds_at_once) {
  set_device(1);
  EXPECT_EQ(current_device(), 1);
  EXPECT_EQ(acl_device(), 1);
}

TEST_F(Device, each_thread_has_its_own_and_starts_at_card_0_without_a_context) {
  set_device(1);
  std::thread([] {
    EXPECT_EQ(current_device(), 0);
    EXPECT_EQ(acl_device(), -1);
    current_stream_handle();
    EXPECT_EQ(acl_device(), 0);
  }).join();
  EXPECT_EQ(current_device(), 1);
}

TEST_F(Device, exchange_returns_the_card_before) {
  EXPECT_EQ(exchange_device(1), 0);
  EXPECT_EQ(exchange_device(0), 1);
  EXPECT_EQ(maybe_exchange_device(1), 0);
  EXPECT_EQ(exchange_device(-1), -1);
  EXPECT_EQ(maybe_exchange_device(-1), -1);
  EXPECT_EQ(current_device(), 1);
}

TEST_F(FreshDevice, maybe_exchange_opens_no_card_but_its_use_does) {
  EXPECT_EXIT(fresh([] {
                set_device(0);
                if (maybe_exchange_device(1) != 0 || current_device() != 1) return false;
                if (has_primary_context(1) || acl_device() != 0) return false;
                current_stream_handle();
                return has_primary_context(1) && acl_device() == 1;
              }),
              ExitedWithCode(0), "");
}

TEST_F(Device, a_guard_binds_and_restores) {
  {
    DeviceGuard guard(1);
    EXPECT_EQ(current_device(), 1);
    EXPECT_EQ(acl_device(), 1);
  }
  EXPECT_EQ(current_device(), 0);
  EXPECT_EQ(acl_device(), 0);
}

TEST_F(FreshDevice, leaving_a_guard_opens_no_card) {
  EXPECT_EXIT(fresh([] {
                {
                  DeviceGuard guard(1);
                }
                {
                  ops::CardGuard guard(c10::Device(c10::DeviceType::PrivateUse1, 1));
                }
                return current_device() == 0 && acl_device() == 1 && !has_primary_context(0) && has_primary_context(1);
              }),
              ExitedWithCode(0), "");
}

TEST_F(Device, a_guard_binds_a_card_that_is_current_already) {
  std::thread([] {
    EXPECT_EQ(acl_device(), -1);
    DeviceGuard guard(0);
    EXPECT_EQ(acl_device(), 0);
  }).join();
  std::thread([] {
    ops::CardGuard guard(c10::Device(c10::DeviceType::PrivateUse1, 0));
    EXPECT_EQ(acl_device(), 0);
  }).join();
}

TEST_F(FreshDevice, a_guard_of_no_card_changes_nothing) {
  EXPECT_EXIT(fresh([] {
                DeviceGuard guard(-1);
                ops::CardGuard no_card(c10::Device(c10::DeviceType::CPU)), undefined{at::Tensor()};
                return current_device() == 0 && !is_initialized();
              }),
              ExitedWithCode(0), "");
}

TEST_F(Device, a_child_forked_after_init_may_not_use_a_card_and_the_parent_goes_on) {
  current_stream_handle();
  const pid_t child = fork();
  if (child == 0) {
    const bool good = is_in_bad_fork() && !is_usable() && device_count() > 1 &&
                      error_of([] { init(); }) == kForkMessage && error_of([] { set_device(0); }) == kForkMessage &&
                      error_of([] { current_stream_handle(); }) == kForkMessage &&
                      error_of([] { current_stream().synchronize(); }) == kForkMessage;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(is_in_bad_fork());
  synchronize();
}

TEST_F(FreshDevice, a_child_forked_after_questions_only_may_use_the_cards) {
  EXPECT_EXIT(fresh([] {
                if (device_count() < 2 || get_device_properties(0).name.empty()) return false;
                const pid_t child = fork();
                if (child == 0) fresh([] { return set_device(1), acl_device() == 1; });
                int status = -1;
                return waitpid(child, &status, 0) == child && status == 0;
              }),
              ExitedWithCode(0), "");
}

TEST_F(Device, synchronize_takes_any_card_and_refuses_unknown_ones) {
  synchronize();
  synchronize(1);
  EXPECT_NE(error_of([] { synchronize(100); }).find("invalid device ordinal"), std::string::npos);
}

TEST_F(FreshDevice, finalize_is_short_and_for_good) {
  EXPECT_EXIT(fresh([] {
                finalize();  // nothing to do yet
                set_device(1);
                current_stream_handle();
                const auto begin = std::chrono::steady_clock::now();
                finalize();
                finalize();
                if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(5)) return false;
                return !is_usable() && error_of([] { init(); }).find("already shut down") != std::string::npos;
              }),
              ExitedWithCode(0), "");
}
