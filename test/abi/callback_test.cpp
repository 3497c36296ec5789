// User functions in stream order.
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "library.h"

using test::Gate;
using test::OnDevice;

class Callback : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped()) stream_ = make_stream();
  }
  void TearDown() override {
    if (stream_) ACL(aclrtDestroyStreamForce)(stream_);
  }
  static uint64_t self() { return static_cast<uint64_t>(pthread_self()); }
  aclrtStream stream_ = nullptr;
};

namespace {

struct Log {
  std::atomic<int> calls{0};
  pthread_t thread{};
};

void note(void* data) {
  Log* log = static_cast<Log*>(data);
  log->thread = pthread_self();
  ++log->calls;
}

}  // namespace

TEST_F(Callback, host_function_sees_the_copies_before_it) {
  void* pinned = nullptr;
  ASSERT_OK(ACL(aclrtMallocHost)(&pinned, 4));
  void* memory = make_memory(4);
  ASSERT_OK(ACL(aclrtMemsetAsync)(memory, 4, 5, 4, stream_));
  ASSERT_OK(ACL(aclrtMemcpyAsync)(pinned, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, [](void* data) { ++*static_cast<char*>(data); }, pinned));
  ASSERT_OK(ACL(aclrtMemcpyAsync)(memory, 4, pinned, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  char result = 0;
  ASSERT_OK(ACL(aclrtMemcpy)(&result, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(result, 6);
  ASSERT_OK(ACL(aclrtFree)(memory));
  ASSERT_OK(ACL(aclrtFreeHost)(pinned));
}

TEST_F(Callback, host_function_is_not_run_by_the_thread_that_launches_it) {
  Log log;
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, note, &log));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(log.calls, 1);
  EXPECT_FALSE(pthread_equal(log.thread, pthread_self()));
}

TEST_F(Callback, runs_in_the_thread_that_subscribed_and_blocks_its_stream) {
  Log log, after;
  ASSERT_OK(ACL(aclrtSubscribeReport)(self(), stream_));
  ASSERT_OK(ACL(aclrtLaunchCallback)(note, &log, ACL_CALLBACK_BLOCK, stream_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, note, &after));
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(stream_, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(after.calls, 0);
  ASSERT_OK(ACL(aclrtProcessReport)(5000));
  EXPECT_EQ(log.calls, 1);
  EXPECT_TRUE(pthread_equal(log.thread, pthread_self()));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(after.calls, 1);
  ASSERT_OK(ACL(aclrtUnSubscribeReport)(self(), stream_));
}

TEST_F(Callback, that_does_not_block_lets_the_stream_go_on) {
  Log log, after;
  ASSERT_OK(ACL(aclrtSubscribeReport)(self(), stream_));
  ASSERT_OK(ACL(aclrtLaunchCallback)(note, &log, ACL_CALLBACK_NO_BLOCK, stream_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(stream_, note, &after));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(after.calls, 1);
  EXPECT_EQ(log.calls, 0);
  ASSERT_OK(ACL(aclrtProcessReport)(5000));
  EXPECT_EQ(log.calls, 1);
  ASSERT_OK(ACL(aclrtUnSubscribeReport)(self(), stream_));
}

TEST_F(Callback, subscription_errors) {
  EXPECT_EQ(ACL(aclrtLaunchCallback)(note, nullptr, ACL_CALLBACK_BLOCK, stream_), ACL_ERROR_RT_STREAM_NO_CB_REG);
  EXPECT_EQ(ACL(aclrtProcessReport)(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  ASSERT_OK(ACL(aclrtSubscribeReport)(self(), stream_));
  EXPECT_EQ(ACL(aclrtSubscribeReport)(self(), stream_), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  EXPECT_EQ(ACL(aclrtProcessReport)(10), ACL_ERROR_RT_REPORT_TIMEOUT);
  EXPECT_EQ(ACL(aclrtUnSubscribeReport)(self() + 1, stream_), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  ASSERT_OK(ACL(aclrtUnSubscribeReport)(self(), stream_));
  EXPECT_EQ(ACL(aclrtLaunchHostFunc)(stream_, nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Callback, waiting_for_its_own_stream_is_an_error_not_a_hang) {
  struct Shared {
    aclrtStream stream;
    std::atomic<int> code{-1};
  } shared{stream_};
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(
      stream_,
      [](void* data) {
        auto* s = static_cast<Shared*>(data);
        s->code = ACL(aclrtSynchronizeStream)(s->stream);
      },
      &shared));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  EXPECT_EQ(shared.code, ACL_ERROR_RT_STREAM_NOT_COMPLETE);
}

TEST_F(Callback, may_launch_work_on_another_stream) {
  struct Shared {
    aclrtStream other;
    Log log;
    std::atomic<int> code{-1};
  } shared;
  shared.other = make_stream();
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(
      stream_,
      [](void* data) {
        auto* s = static_cast<Shared*>(data);
        s->code = ACL(aclrtLaunchHostFunc)(s->other, note, &s->log);
      },
      &shared));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(stream_));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(shared.other));
  EXPECT_EQ(shared.code, 0);
  EXPECT_EQ(shared.log.calls, 1);
  ASSERT_OK(ACL(aclrtDestroyStream)(shared.other));
}
