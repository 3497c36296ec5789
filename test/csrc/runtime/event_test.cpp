// Events at every level of the task queue.
#include "runtime/event.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "device_or_skip.h"
#include "stream_work.h"

using namespace npu;

class Events : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
    task_queue::set_level(GetParam());
  }
  void TearDown() override {
    if (device_count() < 2) return;
    synchronize(0);
    synchronize(1);
    task_queue::set_level(0);
  }
};
INSTANTIATE_TEST_SUITE_P(Level, Events, testing::Values(0, 1, 2));

namespace {

template <class Error, class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& e) {
    return e.msg();
  }
  return "";
}

}  // namespace

TEST_P(Events, one_never_recorded_is_done_and_blocks_nobody) {
  Event event;
  EXPECT_FALSE(event.is_created());
  EXPECT_TRUE(event.query());
  event.synchronize();
  event.block(default_stream());
  EXPECT_FALSE(event.is_created());
  EXPECT_EQ(event.device_index(), -1);
}

TEST_P(Events, is_done_when_the_work_before_it_is) {
  const auto stream = stream_from_pool();
  Gate gate;
  gate.hold(stream);
  Event event;
  event.record(stream);
  EXPECT_TRUE(event.was_recorded());
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(Events, a_wait_sees_the_record_made_before_it) {
  const auto producer = stream_from_pool(), consumer = stream_from_pool();
  Gate gate;
  gate.hold(producer);
  Event event;
  event.record(producer);
  event.block(consumer);
  Mark mark;
  mark.put(consumer);
  task_queue::drain();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(mark.reached());
  gate.open();
  consumer.synchronize();
  EXPECT_TRUE(mark.reached());
}

TEST_P(Events, a_wait_is_not_moved_by_a_later_record) {
  const auto first = stream_from_pool(), second = stream_from_pool(), consumer = stream_from_pool();
  Event event;
  event.record(first);
  event.block(consumer);
  Gate gate;
  gate.hold(second);
  event.record(second);
  Mark mark;
  mark.put(consumer);
  consumer.synchronize();
  EXPECT_TRUE(mark.reached());
  EXPECT_FALSE(event.query());
}

TEST_P(Events, works_across_cards) {
  const auto here = stream_from_pool(0, 0), there = stream_from_pool(0, 1);
  Gate gate;
  gate.hold(here);
  Event event;
  event.record(here);
  event.block(there);
  Mark mark;
  mark.put(there);
  task_queue::drain();
  EXPECT_FALSE(there.query());
  gate.open();
  there.synchronize();
  EXPECT_TRUE(mark.reached());
  EXPECT_EQ(event.device_index(), 0);
}

TEST_P(Events, belongs_to_the_card_of_its_first_record) {
  Event event;
  event.record(default_stream(0));
  EXPECT_EQ(error_of<c10::Error>([&] { event.record(default_stream(1)); }),
            "Event device 0 does not match recording stream's device 1.");
}

TEST_P(Events, record_once_keeps_the_first_record) {
  Event event;
  event.record_once(default_stream());
  Gate gate;
  const auto stream = stream_from_pool();
  gate.hold(stream);
  event.record_once(stream);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(Events, elapsed_time_is_that_of_the_work_between) {
  const auto stream = stream_from_pool();
  Event begin(true), end(true);
  begin.record(stream);
  push_callback(stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr);
  end.record(stream);
  end.synchronize();
  EXPECT_GE(begin.elapsed_time(end), 45.f);
  EXPECT_LT(begin.elapsed_time(end), 5000.f);
  EXPECT_GE(end.recorded_time(), begin.recorded_time() + 45'000);
}

TEST_P(Events, elapsed_time_fails_in_torch_s_words) {
  Event begin(true), end(true), plain;
  EXPECT_EQ(error_of<c10::ValueError>([&] { begin.elapsed_time(plain); }),
            "Both events must be created with argument 'enable_timing=True'.");
  EXPECT_EQ(error_of<c10::ValueError>([&] { begin.elapsed_time(end); }),
            "Both events must be recorded before calculating elapsed time.");
  const auto stream = stream_from_pool();
  begin.record(stream);
  Gate gate;
  gate.hold(stream);
  end.record(stream);
  EXPECT_EQ(error_of<c10::Error>([&] { begin.elapsed_time(end); }),
            "Both events must be completed before calculating elapsed time.");
}

TEST_P(Events, acl_events_are_reused) {
  aclrtEvent handle = nullptr;
  {
    Event event;
    event.record(default_stream());
    handle = event.handle();
  }
  Event timed(true);
  timed.record(default_stream());
  EXPECT_NE(timed.handle(), handle) << "another kind";
  Event event;
  event.record(default_stream());
  EXPECT_EQ(event.handle(), handle);
}

TEST_P(Events, a_reused_one_knows_nothing_of_its_past) {
  const auto stream = stream_from_pool();
  Gate gate;
  gate.hold(stream);
  {
    Event event;
    event.record(stream);
  }
  Event event;
  EXPECT_TRUE(event.query());
  event.record(default_stream());
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(Events, can_be_moved) {
  Event event;
  event.record(default_stream());
  const auto handle = event.handle();
  Event other(std::move(event));
  EXPECT_EQ(other.handle(), handle);
  EXPECT_TRUE(other.was_recorded());
  EXPECT_FALSE(event.is_created());
  EXPECT_TRUE(event.query());
  event = std::move(other);
  EXPECT_EQ(event.handle(), handle);
  event.synchronize();
}

TEST_P(Events, a_record_is_cheap) {
  Event event;
  const auto stream = default_stream();
  event.record(stream);
  synchronize();
  double best = 1e9;  // microseconds per record, best of several, because the machine may be busy
  for (int round = 0; round < 20; round++) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; i++) event.record(stream);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / 100);
    synchronize();
  }
  RecordProperty("microseconds_per_record", std::to_string(best));
  EXPECT_LT(best, 5.0);
}
