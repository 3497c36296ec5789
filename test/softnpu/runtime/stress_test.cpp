// Many threads, streams, events and allocations at once, results checked.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "device.h"
#include "runtime/capacity.h"

using namespace softnpu;
using test::OnCard;

class Stress : public OnCard {};

// Each thread adds to a number in device memory on a random stream of its own, with an event between changes of stream,
// so that the sum is right only if order, waits and visibility are.
TEST_F(Stress, sixty_four_streams_keep_their_promises) {
  constexpr int kThreads = 8, kStreams = 8, kSteps = 400;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      aclrtSetDevice(t % 2);
      std::mt19937 random(t);
      std::vector<Stream*> streams;
      for (int i = 0; i < kStreams; ++i) streams.push_back(Stream::create(current_context(), 0, 0));
      Event& event = Event::create(ACL_EVENT_SYNC);
      long number = 0;  // no lock: the streams' order protects it
      for (int i = 0; i < kSteps; ++i) {
        Stream& stream = *streams[random() % kStreams];
        stream.wait_for(event.current());
        auto body = [&number, i, &wrong] {
          if (number != i) ++wrong;
          ++number;
        };
        submit(&stream, new test::LambdaTask(body, random() % 8 == 0));
        event.record(stream);
        if (random() % 32 == 0) {
          void* memory = nullptr;
          if (aclrtMalloc(&memory, 4096 << random() % 6, ACL_MEM_MALLOC_HUGE_FIRST) != 0) ++wrong;
          if (aclrtMemsetAsync(memory, 4096, 1, 4096, &stream) != 0) ++wrong;
          event.record(stream);
          if (aclrtFree(memory) != 0) ++wrong;
        }
        if (random() % 64 == 0) stream.synchronize({});
      }
      if (aclrtSynchronizeEvent(&event) != 0 || number != kSteps) ++wrong;
      Event::destroy(&event);
      for (Stream* stream : streams) stream->destroy(Stream::Ending::drained);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(card_memory(0).used_here, 0u);
  EXPECT_EQ(card_memory(1).used_here, 0u);
}

TEST_F(Stress, aborts_in_the_middle_of_work_lose_no_waiter) {
  Stream& stream = make_stream();
  std::atomic<bool> stop{false};
  std::thread submitter([&] {
    aclrtSetDevice(0);
    while (!stop) {
      for (int i = 0; i < 20; ++i) submit(&stream, new test::LambdaTask([] {}, i % 4 == 0));
      aclrtSynchronizeStreamWithTimeout(&stream, 5000);
    }
  });
  for (int i = 0; i < 100; ++i) {
    aclrtDeviceTaskAbort(0, 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  submitter.join();
  aclrtSynchronizeStream(&stream);
  EXPECT_OK(aclrtSynchronizeStream(&stream));
  end(stream);
}

// Waiting for a card while its streams come and go: a waiter must not sleep on a stream that is gone.
TEST_F(Stress, frees_beside_dying_streams_come_back) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> makers;
  for (int t = 0; t < 3; ++t)
    makers.emplace_back([&] {
      aclrtSetDevice(0);
      while (!stop) {
        Stream* stream = Stream::create(current_context(), 0, 0);
        for (int i = 0; i < 3; ++i) submit(stream, new test::LambdaTask([] {}, true));
        stream->destroy(Stream::Ending::drained);
      }
    });
  for (int i = 0; i < 300; ++i) {
    void* memory = nullptr;
    ASSERT_OK(aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    ASSERT_OK(aclrtFree(memory));
  }
  stop = true;
  for (auto& maker : makers) maker.join();
}
