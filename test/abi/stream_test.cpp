// Streams: order, queries, waiting, endings.
#include <atomic>
#include <chrono>
#include <vector>

#include "library.h"

using test::Gate;
using test::OnDevice;

class Stream : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped()) stream_ = make_stream();
  }
  void TearDown() override {
    if (stream_) ACL(aclrtDestroyStreamForce)(stream_);
  }
  aclrtStreamStatus query() {
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    EXPECT_OK(ACL(aclrtStreamQuery)(stream_, &status));
    return status;
  }
  aclrtStream stream_ = nullptr;
};

namespace {

std::vector<int> g_order;
template <int kNumber>
void append(void*) {
  g_order.push_back(kNumber);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_F(Stream, runs_in_order) {
  g_order.clear();
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, append<1>, nullptr));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, append<2>, nullptr));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, append<3>, nullptr));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(g_order, (std::vector<int>{1, 2, 3}));
}

TEST_F(Stream, query_says_not_ready_while_work_is_pending) {
  EXPECT_EQ(query(), ACL_STREAM_STATUS_COMPLETE);
  Gate gate(stream_);
  EXPECT_EQ(query(), ACL_STREAM_STATUS_NOT_READY);
  ASSERT_TRUE(gate.reached());
  EXPECT_EQ(query(), ACL_STREAM_STATUS_NOT_READY);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(query(), ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(Stream, launching_behind_slow_work_returns_at_once) {
  Gate gate(stream_);
  void* memory = make_memory(1 << 20);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(ACL(aclrtMemsetAsync)(memory, 1 << 20, 1, 1 << 20, stream_));
  EXPECT_LT(milliseconds_since(start), 500);
  EXPECT_EQ(query(), ACL_STREAM_STATUS_NOT_READY);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  unsigned char last = 0;
  ASSERT_OK(ACL(aclrtMemcpy)(&last, 1, static_cast<char*>(memory) + (1 << 20) - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(last, 1);
  ASSERT_OK(ACL(aclrtFree)(memory));
}

TEST_F(Stream, synchronise_with_timeout_gives_up_in_time) {
  Gate gate(stream_);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, 50), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_GE(milliseconds_since(start), 45);
  EXPECT_LT(milliseconds_since(start), 2000);
  EXPECT_EQ(ACL(aclrtSynchronizeDeviceWithTimeout)(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate.open();
  EXPECT_OK(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, 5000));
  EXPECT_OK(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, -1));
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, -2), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Stream, device_synchronise_waits_for_every_stream) {
  aclrtStream other = make_stream();
  std::atomic<int> done{0};
  const auto slow = [](void* data) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++*static_cast<std::atomic<int>*>(data);
  };
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, slow, &done));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(other, slow, &done));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(nullptr, slow, &done));
  ASSERT_OK(ACL(aclrtSynchronizeDevice)());
  EXPECT_EQ(done, 3);
  ASSERT_OK(ACL(aclrtDestroyStream)(other));
}

TEST_F(Stream, null_is_the_default_stream) {
  std::atomic<int> done{0};
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(nullptr, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(nullptr));
  EXPECT_EQ(done, 1);
}

TEST_F(Stream, destroy_lets_the_work_finish) {
  std::atomic<int> done{0};
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(
      stream_,
      [](void* data) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ++*static_cast<std::atomic<int>*>(data);
      },
      &done));
  ASSERT_OK(ACL(aclrtDestroyStream)(stream_));
  EXPECT_EQ(done, 1);
  stream_ = nullptr;
}

TEST_F(Stream, forced_destroy_drops_what_has_not_begun) {
  std::atomic<int> done{0};
  auto gate = std::make_unique<Gate>(stream_);
  ASSERT_TRUE(gate->reached());
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate->open();
  });
  ASSERT_OK(ACL(aclrtDestroyStreamForce)(stream_));
  opener.join();
  EXPECT_EQ(done, 0);
  stream_ = nullptr;
}

TEST_F(Stream, abort_drops_the_work_and_is_reported_once) {
  std::atomic<int> done{0};
  Gate gate(stream_);
  ASSERT_TRUE(gate.reached());
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done));
  EXPECT_EQ(ACL(aclrtDeviceTaskAbort)(0, 20), ACL_ERROR_RT_WAIT_TIMEOUT);
  gate.open();
  ASSERT_OK(ACL(aclrtDeviceTaskAbort)(0, 5000));
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_DEVICE_TASK_ABORT);
  EXPECT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(done, 0);
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done));
  EXPECT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(done, 1);
}

TEST_F(Stream, of_another_device_is_refused) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_OK(ACL(aclrtSetDevice)(1));
  EXPECT_EQ(ACL(aclrtLaunchHostFunc)(stream_, [](void*) {}, nullptr), ACL_ERROR_RT_STREAM_CONTEXT);
  ASSERT_OK(ACL(aclrtSetDevice)(0));
}

TEST_F(Stream, priorities_and_flags_are_checked) {
  aclrtStream stream = nullptr;
  for (uint32_t priority : {0u, 7u}) {
    ASSERT_OK(ACL(aclrtCreateStreamWithConfig)(&stream, priority, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
    ASSERT_OK(ACL(aclrtDestroyStream)(stream));
  }
  EXPECT_EQ(ACL(aclrtCreateStreamWithConfig)(&stream, 8, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtCreateStreamWithConfig)(&stream, 0, 0x80000000u), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtCreateStream)(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(ACL(aclrtSetStreamFailureMode)(stream_, 2), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Stream, ids_differ) {
  aclrtStream other = make_stream();
  int32_t first = -1, second = -1;
  ASSERT_OK(ACL(aclrtStreamGetId)(stream_, &first));
  ASSERT_OK(ACL(aclrtStreamGetId)(other, &second));
  EXPECT_NE(first, second);
  ASSERT_OK(ACL(aclrtDestroyStream)(other));
}

TEST_F(Stream, waits_for_a_value_in_memory) {
  aclrtStream writer = make_stream();
  void* flag = make_memory(8);
  ASSERT_OK(ACL(aclrtMemset)(flag, 8, 0, 8));
  std::atomic<int> passed{0};
  ASSERT_OK(ACL(aclrtValueWait)(flag, 7, ACL_STREAM_WAIT_VALUE_EQ, stream_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &passed));
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(passed, 0);
  ASSERT_OK(ACL(aclrtValueWrite)(flag, 7, 0, writer));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(passed, 1);
  ASSERT_OK(ACL(aclrtFree)(flag));
  ASSERT_OK(ACL(aclrtDestroyStream)(writer));
}

TEST_F(Stream, is_never_captured) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
  aclmdlRI model = &status;
  ASSERT_OK(ACL(aclmdlRICaptureGetInfo)(stream_, &status, &model));
  EXPECT_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
}

TEST_F(Stream, core_limits_fall_back_from_stream_to_device) {
  uint32_t all = 0, value = 0;
  ASSERT_OK(ACL(aclrtGetStreamResLimit)(stream_, ACL_RT_DEV_RES_CUBE_CORE, &all));
  ASSERT_GT(all, 2u);
  ASSERT_OK(ACL(aclrtSetDeviceResLimit)(0, ACL_RT_DEV_RES_CUBE_CORE, all - 1));
  ASSERT_OK(ACL(aclrtSetStreamResLimit)(stream_, ACL_RT_DEV_RES_CUBE_CORE, 1));
  ASSERT_OK(ACL(aclrtUseStreamResInCurrentThread)(stream_));
  ASSERT_OK(ACL(aclrtGetResInCurrentThread)(ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, 1u);
  ASSERT_OK(ACL(aclrtUnuseStreamResInCurrentThread)(stream_));
  ASSERT_OK(ACL(aclrtResetStreamResLimit)(stream_));
  ASSERT_OK(ACL(aclrtGetStreamResLimit)(stream_, ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, all - 1);
  ASSERT_OK(ACL(aclrtResetDeviceResLimit)(0));
  ASSERT_OK(ACL(aclrtGetDeviceResLimit)(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, all);
  EXPECT_EQ(ACL(aclrtSetDeviceResLimit)(0, ACL_RT_DEV_RES_CUBE_CORE, all + 1), ACL_ERROR_RT_PARAM_INVALID);
}
