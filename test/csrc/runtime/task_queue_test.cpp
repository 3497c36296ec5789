#include "runtime/task_queue.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "acl/check.h"
#include "device_or_skip.h"
#include "runtime/gil.h"
#include "runtime/stream.h"

using namespace npu;
using namespace std::chrono_literals;

class TaskQueue : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
    task_queue::set_level(1);
  }
  void TearDown() override {
    if (device_count() >= 2) task_queue::set_level(0);
  }
};

namespace {

// Pushes a callable that outlives its run.
template <class Body>
task_queue::Ticket push(Body& body) {
  Body* payload = &body;
  return task_queue::push([](void* p) { (**static_cast<Body**>(p))(); }, &payload, sizeof(payload));
}

auto wait_for(std::promise<void>& gate) {
  return [future = gate.get_future().share()] { future.wait(); };
}

std::string drain_error() {
  try {
    task_queue::drain();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_F(TaskQueue, level_0_runs_at_once_on_the_calling_thread) {
  task_queue::set_level(0);
  std::thread::id ran_on;
  auto body = [&] { ran_on = std::this_thread::get_id(); };
  const auto ticket = push(body);
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_TRUE(task_queue::is_done(ticket));
  EXPECT_FALSE(task_queue::in_task());
}

TEST_F(TaskQueue, levels_out_of_range_are_refused) {
  EXPECT_THROW(task_queue::set_level(3), c10::ValueError);
  EXPECT_THROW(task_queue::set_level(-1), c10::ValueError);
  EXPECT_EQ(task_queue::level(), 1);
}

TEST_F(TaskQueue, push_returns_before_the_task_has_run) {
  std::promise<void> gate;
  auto body = wait_for(gate);
  const auto ticket = push(body);
  EXPECT_FALSE(task_queue::is_done(ticket));
  gate.set_value();
  task_queue::wait(ticket);
  EXPECT_TRUE(task_queue::is_done(ticket));
}

TEST_F(TaskQueue, tasks_run_in_order) {
  std::vector<int> order;
  std::atomic<bool> consumer{true};
  struct Task {
    std::vector<int>* order;
    std::atomic<bool>* consumer;
    int number;
  };
  for (int i = 0; i < 5000; i++) {  // several times around the ring
    const Task task{&order, &consumer, i};
    task_queue::push(
        [](void* p) {
          const auto* t = static_cast<Task*>(p);
          t->order->push_back(t->number);
          if (!task_queue::in_task()) *t->consumer = false;
        },
        &task, sizeof(task));
  }
  task_queue::drain();
  ASSERT_EQ(order.size(), 5000u);
  for (int i = 0; i < 5000; i++) ASSERT_EQ(order[i], i);
  EXPECT_TRUE(consumer);
}

TEST_F(TaskQueue, payloads_of_any_size_are_copied) {
  std::atomic<uint64_t> sum{0};
  for (size_t words : {2u, 10u, 60u, 61u, 1000u, 100000u}) {
    std::vector<uint64_t> payload(words, 1);
    payload[0] = reinterpret_cast<uint64_t>(&sum);
    payload[1] = words;
    task_queue::push(
        [](void* p) {
          auto* w = static_cast<uint64_t*>(p);
          uint64_t ones = 0;
          for (uint64_t i = 2; i < w[1]; i++) ones += w[i];
          *reinterpret_cast<std::atomic<uint64_t>*>(w[0]) += ones;
        },
        payload.data(), words * 8);
    std::memset(payload.data(), 0, words * 8);
  }
  task_queue::drain();
  EXPECT_EQ(sum, 8u + 58 + 59 + 998 + 99998);
}

TEST_F(TaskQueue, card_and_stream_at_push_are_current_in_the_task) {
  struct Seen {
    c10::DeviceIndex device = -1;
    c10::StreamId stream = -1;
    aclrtStream handle = nullptr;
  } seen[3];
  const Stream streams[3] = {default_stream(0), stream_from_pool(0, 1), stream_from_pool(0, 0)};
  for (int i = 0; i < 3; i++) {
    DeviceGuard guard(streams[i].device_index());
    set_current_stream(streams[i]);
    Seen* to = &seen[i];
    task_queue::push(
        [](void* p) {
          auto* s = *static_cast<Seen**>(p);
          *s = {current_device(), current_stream().id(), current_stream_handle()};
        },
        &to, sizeof(to));
  }
  set_current_stream(default_stream(0));
  set_current_stream(default_stream(1));
  task_queue::drain();
  for (int i = 0; i < 3; i++) {
    EXPECT_EQ(seen[i].device, streams[i].device_index());
    EXPECT_EQ(seen[i].stream, streams[i].id());
    EXPECT_EQ(seen[i].handle, streams[i].handle());
  }
}

TEST_F(TaskQueue, a_full_ring_holds_the_producer_back) {
  std::promise<void> gate;
  auto blocker = wait_for(gate);
  push(blocker);
  std::atomic<int> ran{0}, pushed{0};
  auto count = [&] { ran++; };
  std::thread producer([&] {
    for (; pushed < 3000; pushed++) push(count);
  });
  std::this_thread::sleep_for(100ms);
  EXPECT_LT(pushed, 2000);
  EXPECT_EQ(ran, 0);
  gate.set_value();
  producer.join();
  task_queue::drain();
  EXPECT_EQ(ran, 3000);
}

TEST_F(TaskQueue, an_error_is_raised_once_and_later_tasks_run) {
  std::atomic<int> ran{0};
  auto fails = [] { TORCH_CHECK(false, "the first"); };
  auto fails_too = [] { TORCH_CHECK(false, "the second"); };
  auto works = [&] { ran++; };
  push(works);
  task_queue::drain();
  task_queue::push_keeping_errors([](void* p) { (**static_cast<decltype(fails)**>(p))(); }, std::array{&fails}.data(),
                                  sizeof(void*));
  task_queue::push_keeping_errors([](void* p) { (**static_cast<decltype(fails_too)**>(p))(); },
                                  std::array{&fails_too}.data(), sizeof(void*));
  task_queue::push_keeping_errors([](void* p) { (**static_cast<decltype(works)**>(p))(); }, std::array{&works}.data(),
                                  sizeof(void*));
  EXPECT_NE(drain_error().find("the first"), std::string::npos);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(drain_error(), "");
}

TEST_F(TaskQueue, the_next_push_raises_an_error_too) {
  auto fails = [] { throw std::runtime_error("broken"); };
  const auto ticket = push(fails);
  while (!task_queue::is_done(ticket)) std::this_thread::yield();
  auto works = [] {};
  EXPECT_THROW(push(works), std::runtime_error);
  push(works);
  EXPECT_EQ(drain_error(), "");
}

TEST_F(TaskQueue, a_task_may_push) {
  std::vector<int> order;
  auto inner = [&] { order.push_back(1); };
  auto outer = [&] {
    push(inner);  // runs at once: waiting for itself would never end
    task_queue::drain();
    order.push_back(2);
  };
  push(outer);
  task_queue::drain();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(TaskQueue, many_producers_lose_nothing_and_keep_their_own_order) {
  constexpr int kThreads = 8, kEach = 2000;
  std::vector<int> last(kThreads, -1);
  std::atomic<int> wrong{0};
  struct Task {
    std::vector<int>* last;
    std::atomic<int>* wrong;
    int thread, number;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; i++) {
        const Task task{&last, &wrong, t, i};
        task_queue::push(
            [](void* p) {
              const auto* k = static_cast<Task*>(p);
              if ((*k->last)[k->thread] != k->number - 1) (*k->wrong)++;
              (*k->last)[k->thread] = k->number;
            },
            &task, sizeof(task));
        if (i % 500 == 0) task_queue::drain();
      }
    });
  for (auto& thread : threads) thread.join();
  task_queue::drain();
  EXPECT_EQ(wrong, 0);
  for (int t = 0; t < kThreads; t++) EXPECT_EQ(last[t], kEach - 1);
}

// Note [Who runs a queued task] in task_queue.cpp: after the first waits the consumer leaves tasks to those who wait.
TEST_F(TaskQueue, a_thread_that_waits_runs_the_tasks_itself) {
  int mine = 0;
  auto body = [&, me = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == me && task_queue::in_task()) mine++;
  };
  for (int i = 0; i < 1000; i++) {
    push(body);
    task_queue::drain();
    ASSERT_FALSE(task_queue::in_task());
  }
  EXPECT_GT(mine, 0);
}

TEST_F(TaskQueue, a_thread_that_asks_until_a_ticket_is_done_runs_it_itself) {
  int mine = 0;
  auto body = [&, me = std::this_thread::get_id()] { mine += std::this_thread::get_id() == me; };
  for (int i = 0; i < 1000; i++) {
    const auto ticket = push(body);
    while (!task_queue::try_finish(ticket)) std::this_thread::yield();
    ASSERT_TRUE(task_queue::is_done(ticket));
  }
  EXPECT_GT(mine, 0);
}

TEST_F(TaskQueue, a_thread_that_ran_others_tasks_has_its_card_and_stream_back) {
  const Stream own = stream_from_pool(0, 0), other = stream_from_pool(0, 1);
  const auto stream_of_1 = current_stream(1).id();
  set_current_stream(own);
  int mine = 0, wrong = 0;
  auto body = [&, me = std::this_thread::get_id()] {
    mine += std::this_thread::get_id() == me;
    wrong += current_device() != 1 || !(current_stream() == other) || current_stream_handle() != other.handle();
  };
  for (int i = 0; i < 1000; i++) {
    std::thread([&] {
      set_device(1);
      set_current_stream(other);
      push(body);
    }).join();
    task_queue::drain();
    ASSERT_EQ(current_device(), 0);
    ASSERT_EQ(current_stream(), own);
    ASSERT_EQ(current_stream(1).id(), stream_of_1);
    ASSERT_EQ(current_stream_handle(), own.handle());
  }
  set_current_stream(default_stream(0));
  EXPECT_GT(mine, 0);
  EXPECT_EQ(wrong, 0);
}

TEST_F(TaskQueue, an_error_of_a_task_that_the_waiting_thread_runs_is_an_asynchronous_one) {
  int mine = 0;
  auto fails = [&, me = std::this_thread::get_id()] {
    mine += std::this_thread::get_id() == me;
    acl::throw_acl_error(ACL_ERROR_RT_CONTEXT_NULL, "aclnnAdd", __FILE__, __LINE__);
  };
  for (int i = 0; i < 300; i++) {
    push(fails);
    const auto text = drain_error();
    ASSERT_NE(text.find("launched asynchronously"), std::string::npos) << text;
  }
  EXPECT_GT(mine, 0);
  try {
    acl::throw_acl_error(ACL_ERROR_RT_CONTEXT_NULL, "aclnnAdd", __FILE__, __LINE__);
  } catch (const std::exception& e) {  // the thread's own errors are not
    EXPECT_EQ(std::string(e.what()).find("launched asynchronously"), std::string::npos);
  }
}

TEST_F(TaskQueue, what_is_pushed_after_waits_runs_without_another_call) {
  auto nothing = [] {};
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 50; i++) {
      push(nothing);
      task_queue::drain();
    }
    std::promise<void> ran;
    auto body = [&] { ran.set_value(); };
    push(body);
    ASSERT_EQ(ran.get_future().wait_for(60s), std::future_status::ready);
    if (round % 2) std::this_thread::sleep_for(3ms);  // long enough for the consumer to sleep
  }
}

TEST_F(TaskQueue, one_waiting_thread_takes_over_from_another) {
  for (int round = 0; round < 50; round++) {
    std::promise<void> gate;
    auto blocker = wait_for(gate);
    std::atomic<int> ran{0};
    auto count = [&] { ran++; };
    const auto first = push(blocker);
    const auto second = push(count), third = push(count);
    std::thread a([&] { task_queue::wait(first); }), b([&] { task_queue::wait(third); }),
        c([&] { task_queue::wait(second); });
    if (round % 2) std::this_thread::sleep_for(1ms);  // they sleep by then
    gate.set_value();
    a.join(), b.join(), c.join();
    ASSERT_EQ(ran, 2);
  }
}

TEST_F(TaskQueue, many_threads_that_push_and_wait_keep_the_order_of_all) {
  constexpr int kThreads = 8, kEach = 1000;
  std::atomic<int> inside{0}, wrong{0};
  uint64_t ran = 0;  // plain: tasks never run beside each other
  auto body = [&] {
    if (inside++ != 0) wrong++;
    ran++;
    inside--;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; i++) {
        const auto ticket = push(body);
        if (i % (t + 1) == 0) task_queue::wait(ticket);
        if (i % 7 == t) task_queue::try_finish(ticket);
      }
    });
  for (auto& thread : threads) thread.join();
  task_queue::drain();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ran, uint64_t{kThreads} * kEach);
}

TEST_F(TaskQueue, waiting_gives_up_the_gil) {
  static std::atomic<int> released;
  released = 0;
  set_without_gil([](void (*wait)(void*), void* argument) {
    released++;
    wait(argument);
  });
  std::promise<void> gate;
  auto body = wait_for(gate);
  push(body);
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    gate.set_value();
  });
  task_queue::drain();
  opener.join();
  set_without_gil(nullptr);
  EXPECT_EQ(released, 1);
}

TEST_F(TaskQueue, a_forked_child_neither_waits_nor_pushes) {
  std::promise<void> gate;
  auto body = wait_for(gate);
  push(body);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    task_queue::drain();
    bool refused = false;
    try {
      push(body);
    } catch (const c10::Error&) {
      refused = true;
    }
    task_queue::stop();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  gate.set_value();
  task_queue::drain();
}

TEST_F(TaskQueue, stop_finishes_what_was_pushed) {
  EXPECT_EXIT(
      {
        task_queue::set_level(1);
        std::atomic<int> ran{0};
        auto slow = [&] {
          std::this_thread::sleep_for(1ms);
          ran++;
        };
        for (int i = 0; i < 100; i++) push(slow);
        task_queue::stop();
        const bool all = ran == 100;
        push(slow);  // from now on at once
        _exit(all && ran == 101 && task_queue::level() == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(TaskQueue, stop_does_not_wait_for_ever) {
  EXPECT_EXIT(
      {
        alarm(20);
        task_queue::set_level(1);
        std::promise<void> never;
        auto stuck = wait_for(never);
        push(stuck);
        task_queue::stop();
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(TaskQueue, stop_does_not_wait_for_a_thread_that_is_stuck_in_a_task) {
  const auto process = [] {
    alarm(20);
    task_queue::set_level(1);
    auto nothing = [] {};
    for (int i = 0; i < 100; i++) push(nothing), task_queue::drain();
    std::promise<void> never, inside;
    auto stuck = [&, future = never.get_future().share()] {
      inside.set_value();
      future.wait();
    };
    push(stuck);
    std::thread([&] { task_queue::drain(); }).detach();
    inside.get_future().wait();
    task_queue::stop();
    _exit(0);
  };
  EXPECT_EXIT(process(), testing::ExitedWithCode(0), "");
}

// Its tests run in a process of their own, which has not asked for the level yet.
class FreshTaskQueue : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_RUNTIME(); }
};

TEST_F(FreshTaskQueue, the_environment_sets_the_level_and_blocking_turns_it_off) {
  EXPECT_EXIT((setenv("TASK_QUEUE_ENABLE", "2", 1), _exit(task_queue::level() == 2 ? 0 : 1)),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT((setenv("TASK_QUEUE_ENABLE", "2", 1), setenv("ASCEND_LAUNCH_BLOCKING", "1", 1), task_queue::set_level(1),
               _exit(task_queue::level() == 0 && task_queue::launch_blocking() ? 0 : 1)),
              testing::ExitedWithCode(0), "");
}

TEST_F(FreshTaskQueue, softnpu_needs_none_by_default) {
  if (acl::provider() != acl::Provider::softnpu) GTEST_SKIP() << "not softnpu";
  EXPECT_EXIT((unsetenv("TASK_QUEUE_ENABLE"), _exit(task_queue::level())), testing::ExitedWithCode(0), "");
}
