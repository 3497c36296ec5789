// Events: records, waits, queries, times.
#include <atomic>
#include <chrono>

#include "library.h"

using test::Gate;
using test::OnDevice;

class Event : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (IsSkipped()) return;
    first_ = make_stream();
    second_ = make_stream();
    event_ = make_event();
  }
  void TearDown() override {
    if (!first_) return;
    ACL(aclrtDestroyStreamForce)(first_);
    ACL(aclrtDestroyStreamForce)(second_);
    ACL(aclrtDestroyEvent)(event_);
  }
  aclrtEventRecordedStatus recorded(aclrtEvent event) {
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    EXPECT_OK(ACL(aclrtQueryEventStatus)(event, &status));
    return status;
  }
  aclrtEventWaitStatus waited(aclrtEvent event) {
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;
    EXPECT_OK(ACL(aclrtQueryEventWaitStatus)(event, &status));
    return status;
  }
  aclrtStream first_ = nullptr, second_ = nullptr;
  aclrtEvent event_ = nullptr;
};

namespace {
void increment(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }
}  // namespace

TEST_F(Event, is_complete_when_the_work_before_it_is) {
  EXPECT_EQ(recorded(event_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  Gate gate(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  EXPECT_EQ(recorded(event_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(event_));
  EXPECT_EQ(recorded(event_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
}

TEST_F(Event, holds_up_the_stream_that_waits_and_no_other) {
  std::atomic<int> behind{0}, beside{0};
  aclrtStream third = make_stream();
  Gate gate(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(second_, event_));
  EXPECT_EQ(waited(event_), ACL_EVENT_WAIT_STATUS_NOT_READY);
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(second_, increment, &behind));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(third, increment, &beside));
  ASSERT_OK(ACL(aclrtSynchronizeStream)(third));
  EXPECT_EQ(beside, 1);
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(second_, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  EXPECT_EQ(behind, 0);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(second_));
  EXPECT_EQ(behind, 1);
  EXPECT_EQ(waited(event_), ACL_EVENT_WAIT_STATUS_COMPLETE);
  ASSERT_OK(ACL(aclrtDestroyStream)(third));
}

TEST_F(Event, wait_sees_the_record_made_before_it) {
  std::atomic<int> behind{0};
  Gate early(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  Gate late(first_);
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(second_, event_));
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));  // after the wait: not its business
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(second_, increment, &behind));
  early.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(second_));
  EXPECT_EQ(behind, 1);
  EXPECT_EQ(recorded(event_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  late.open();
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(event_));
}

TEST_F(Event, can_be_destroyed_while_a_stream_waits_for_it) {
  std::atomic<int> behind{0};
  aclrtEvent event = make_event();
  Gate gate(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event, first_));
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(second_, event));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(second_, increment, &behind));
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
  EXPECT_EQ(behind, 0);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(second_));
  EXPECT_EQ(behind, 1);
}

TEST_F(Event, forgets_its_record_when_reset) {
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(event_));
  ASSERT_OK(ACL(aclrtResetEvent)(event_, first_));
  EXPECT_EQ(recorded(event_), ACL_EVENT_RECORDED_STATUS_NOT_READY);
}

TEST_F(Event, chain_over_many_streams_keeps_its_order) {
  constexpr int kStreams = 24;
  std::vector<aclrtStream> streams;
  std::vector<aclrtEvent> events;
  static std::atomic<int> next;
  static std::atomic<bool> ordered;
  next = 0, ordered = true;
  Gate gate(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  aclrtEvent before = event_;
  for (long i = 0; i < kStreams; ++i) {
    streams.push_back(make_stream());
    events.push_back(make_event());
    ASSERT_OK(ACL(aclrtStreamWaitEvent)(streams[i], before));
    ASSERT_OK(ACL(aclrtLaunchHostFunc)(
        streams[i],
        [](void* number) {
          if (next++ != reinterpret_cast<long>(number)) ordered = false;
        },
        reinterpret_cast<void*>(i)));
    ASSERT_OK(ACL(aclrtRecordEvent)(events[i], streams[i]));
    before = events[i];
  }
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(before));
  EXPECT_TRUE(ordered);
  EXPECT_EQ(next, kStreams);
  for (aclrtStream stream : streams) ASSERT_OK(ACL(aclrtDestroyStream)(stream));
  for (aclrtEvent event : events) ASSERT_OK(ACL(aclrtDestroyEvent)(event));
}

TEST_F(Event, times_are_those_of_the_stream_not_of_the_call) {
  aclrtEvent start = make_event(ACL_EVENT_TIME_LINE), end = make_event(ACL_EVENT_TIME_LINE);
  ASSERT_OK(ACL(aclrtRecordEvent)(start, first_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(
      first_, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }, nullptr));
  ASSERT_OK(ACL(aclrtRecordEvent)(end, first_));
  float milliseconds = 0;
  EXPECT_EQ(ACL(aclrtEventElapsedTime)(&milliseconds, start, end), ACL_ERROR_RT_EVENT_NOT_COMPLETE);
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(end));
  ASSERT_OK(ACL(aclrtEventElapsedTime)(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 59);
  EXPECT_LT(milliseconds, 2000);
  uint64_t from = 0, to = 0;
  ASSERT_OK(ACL(aclrtEventGetTimestamp)(start, &from));
  ASSERT_OK(ACL(aclrtEventGetTimestamp)(end, &to));
  EXPECT_NEAR(static_cast<double>(to - from) / 1000, milliseconds, 0.01);
  EXPECT_EQ(ACL(aclrtEventElapsedTime)(&milliseconds, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
  ASSERT_OK(ACL(aclrtDestroyEvent)(start));
  ASSERT_OK(ACL(aclrtDestroyEvent)(end));
}

TEST_F(Event, without_timing_or_record_has_no_time) {
  float milliseconds = 0;
  aclrtEvent timed = make_event(ACL_EVENT_TIME_LINE);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  ASSERT_OK(ACL(aclrtSynchronizeEvent)(event_));
  EXPECT_EQ(ACL(aclrtEventElapsedTime)(&milliseconds, event_, event_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  EXPECT_EQ(ACL(aclrtEventElapsedTime)(&milliseconds, timed, timed), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  ASSERT_OK(ACL(aclrtDestroyEvent)(timed));
}

TEST_F(Event, takes_every_flag_and_refuses_unknown_ones) {
  for (uint32_t flag : {ACL_EVENT_SYNC, ACL_EVENT_CAPTURE_STREAM_PROGRESS, ACL_EVENT_TIME_LINE, ACL_EVENT_DEFAULT,
                        ACL_EVENT_EXTERNAL, ACL_EVENT_IPC}) {
    aclrtEvent event = nullptr;
    ASSERT_OK(ACL(aclrtCreateEventWithFlag)(&event, flag));
    ASSERT_OK(ACL(aclrtRecordEvent)(event, first_));
    ASSERT_OK(ACL(aclrtSynchronizeEvent)(event));
    ASSERT_OK(ACL(aclrtDestroyEvent)(event));
  }
  aclrtEvent event = nullptr;
  EXPECT_EQ(ACL(aclrtCreateEventExWithFlag)(&event, 0x80000000u), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Event, orders_streams_of_two_devices) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  std::atomic<int> behind{0};
  Gate gate(first_);
  ASSERT_OK(ACL(aclrtRecordEvent)(event_, first_));
  ASSERT_OK(ACL(aclrtSetDevice)(1));
  aclrtStream peer = make_stream();
  ASSERT_OK(ACL(aclrtStreamWaitEvent)(peer, event_));
  ASSERT_OK(ACL(aclrtLaunchHostFunc)(peer, increment, &behind));
  EXPECT_EQ(ACL(aclrtSynchronizeStreamWithTimeout)(peer, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate.open();
  ASSERT_OK(ACL(aclrtSynchronizeStream)(peer));
  EXPECT_EQ(behind, 1);
  ASSERT_OK(ACL(aclrtDestroyStream)(peer));
  ASSERT_OK(ACL(aclrtSetDevice)(0));
}
