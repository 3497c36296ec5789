// Who runs a task, and in which order. See Note [Who runs a task].
#include <atomic>
#include <thread>
#include <vector>

#include "device.h"

using namespace softnpu;
using test::OnCard;

class Scheduler : public OnCard {
 protected:
  static bool async() { return config().async; }
};

TEST_F(Scheduler, idle_stream_runs_a_task_on_the_submitting_thread) {
  Stream& stream = make_stream();
  std::thread::id runner;
  run(stream, [&] { runner = std::this_thread::get_id(); });
  if (!async()) {
    EXPECT_EQ(runner, std::this_thread::get_id());
  }
  stream.synchronize({});
  EXPECT_EQ(runner == std::this_thread::get_id(), !async());
  end(stream);
}

TEST_F(Scheduler, task_that_may_block_runs_elsewhere_and_holds_up_the_rest) {
  Stream& stream = make_stream();
  std::atomic<bool> ran{false};
  auto gate = hold(stream);
  run(stream, [&] { ran = true; });
  EXPECT_FALSE(ran);
  EXPECT_FALSE(stream.idle());
  gate->set_value();
  stream.synchronize({});
  EXPECT_TRUE(ran);
  EXPECT_TRUE(stream.idle());
  end(stream);
}

TEST_F(Scheduler, order_is_kept_across_inline_queue_and_worker) {
  Stream& stream = make_stream();
  std::vector<int> order;
  for (int i = 0; i < 200; ++i) {
    auto body = [&order, i] { order.push_back(i); };
    i % 7 == 3 ? run_blocking(stream, body) : run(stream, body);
    if (i % 50 == 49) stream.synchronize({});
  }
  stream.synchronize({});
  ASSERT_EQ(order.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[i], i);
  end(stream);
}

TEST_F(Scheduler, tasks_of_a_stream_never_overlap) {
  Stream& stream = make_stream();
  std::atomic<int> inside{0}, overlaps{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      aclrtSetDevice(0);
      for (int i = 0; i < 500; ++i) {
        auto body = [&] {
          if (++inside != 1) ++overlaps;
          ++done;
          --inside;
        };
        i % 10 ? run(stream, body) : run_blocking(stream, body);
        if (i % 100 == 0) stream.synchronize({});
      }
    });
  for (auto& thread : threads) thread.join();
  stream.synchronize({});
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(done, 2000);
  end(stream);
}

TEST_F(Scheduler, waiter_helps_with_what_is_queued) {
  if (async()) GTEST_SKIP() << "nobody helps in this mode";
  Stream& first = make_stream();
  Stream& second = make_stream();
  auto gate = hold(first);
  CompletionPtr completion = std::make_shared<Completion>(&first, false);
  first.record(completion);
  second.wait_for(completion);
  std::vector<std::thread::id> runners(50);
  for (auto& runner : runners) run(second, [&] { runner = std::this_thread::get_id(); });
  gate->set_value();
  second.synchronize({});
  for (auto& runner : runners) EXPECT_NE(runner, std::thread::id());
  end(first);
  end(second);
}

TEST_F(Scheduler, waiter_follows_a_chain_of_streams) {
  std::vector<Stream*> streams;
  std::vector<int> order;
  for (int i = 0; i < 40; ++i) streams.push_back(&make_stream());
  auto gate = hold(*streams[0]);
  CompletionPtr before;
  for (int i = 0; i < 40; ++i) {
    if (before) streams[i]->wait_for(before);
    run(*streams[i], [&order, i] { order.push_back(i); });
    before = std::make_shared<Completion>(streams[i], false);
    streams[i]->record(before);
  }
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate->set_value();
  });
  streams.back()->synchronize({});
  opener.join();
  ASSERT_EQ(order.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(order[i], i);
  for (Stream* stream : streams) end(*stream);
}

TEST_F(Scheduler, two_streams_that_take_turns_do_not_lock_up) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  auto gate = hold(first);
  int turns = 0;
  for (int i = 0; i < 300; ++i) {
    Stream& from = i % 2 ? second : first;
    Stream& to = i % 2 ? first : second;
    run(from, [&turns, i] { turns += turns == i; });
    auto completion = std::make_shared<Completion>(&from, false);
    from.record(completion);
    to.wait_for(completion);
  }
  gate->set_value();
  first.synchronize({});
  second.synchronize({});
  EXPECT_EQ(turns, 300);
  end(first);
  end(second);
}

TEST_F(Scheduler, task_may_submit_to_its_own_stream) {
  Stream& stream = make_stream();
  std::atomic<int> order{0};
  int first = 0, second = 0;
  run(stream, [&] {
    run(stream, [&] { second = ++order; });
    first = ++order;
  });
  stream.synchronize({});  // of the outer task
  stream.synchronize({});  // of what it submitted, perhaps after the first wait began
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
  end(stream);
}

TEST_F(Scheduler, full_queue_makes_the_submitter_wait) {
  Stream& stream = make_stream();
  std::atomic<int> done{0};
  auto gate = hold(stream);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gate->set_value();
  });
  for (int i = 0; i < 70000; ++i) run(stream, [&] { ++done; });
  EXPECT_GT(done, 0);
  opener.join();
  stream.synchronize({});
  EXPECT_EQ(done, 70000);
  end(stream);
}

TEST_F(Scheduler, every_task_is_released_once) {
  Stream& stream = make_stream();
  int released = 0;
  auto gate = hold(stream);
  for (int i = 0; i < 10; ++i) submit(&stream, new test::LambdaTask([] {}, false, &released));
  gate->set_value();
  stream.synchronize({});
  EXPECT_EQ(released, 10);
  EXPECT_THROW(submit(&released, new test::LambdaTask([] {}, false, &released)), Failure);
  EXPECT_EQ(released, 11);
  auto closed = hold(stream);
  submit(&stream, new test::LambdaTask([] {}, false, &released));
  stream.abandon(0, "", Deadline::after_milliseconds(0));
  EXPECT_EQ(released, 12);
  closed->set_value();
  end(stream);
}

TEST_F(Scheduler, worker_of_a_destroyed_stream_goes_away) {
  const auto threads = [] {
    int count = 0;
    for (FILE* file = popen(("ls /proc/" + std::to_string(getpid()) + "/task | wc -l").c_str(), "r"); file;) {
      if (fscanf(file, "%d", &count) != 1) count = -1;
      pclose(file);
      break;
    }
    return count;
  };
  const int before = threads();
  for (int i = 0; i < 100; ++i) {
    Stream& stream = make_stream();
    run_blocking(stream, [] {});
    end(stream);
  }
  for (int tries = 0; tries < 100 && threads() > before + 2; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_LE(threads(), before + 2);
}
