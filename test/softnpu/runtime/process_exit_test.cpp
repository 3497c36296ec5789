#include "runtime/process_exit.h"

#include <chrono>
#include <thread>

#include "child.h"
#include "device.h"

using namespace softnpu;

namespace {

// A library's static object that tasks use, as kernels use torch.
struct Library {
  ~Library() { alive = false; }
  std::atomic<bool> alive{true};
} g_library;

Stream& busy_stream(std::function<void()> first) {
  aclrtSetDevice(0);
  Stream& stream = *Stream::create(current_context(), 0, 0);
  submit(&stream, new test::LambdaTask(std::move(first), true));
  for (int i = 0; i < 10000; ++i)
    submit(&stream, new test::LambdaTask(
                        [] {
                          if (!g_library.alive) _exit(7);
                        },
                        false));
  return stream;
}

double seconds_until_exit(test::Child& child, int* code) {
  const auto start = std::chrono::steady_clock::now();
  *code = child.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

CHILD(exit_with_queue) {
  busy_stream([] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  return 3;
}

TEST(ProcessExit, ten_thousand_queued_tasks_do_not_matter) {
  test::Child child("exit_with_queue");
  int code = 0;
  EXPECT_LT(seconds_until_exit(child, &code), 60);  // the tasks would take a thousand
  EXPECT_EQ(code, 3);
}

CHILD(exit_with_stuck_task) {
  busy_stream([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return 5;
}

TEST(ProcessExit, task_that_never_ends_is_given_up) {
  test::Child child("exit_with_stuck_task");
  int code = 0;
  EXPECT_LT(seconds_until_exit(child, &code), 30);  // the task would take sixty
  EXPECT_EQ(code, 5);
}

CHILD(wait_for_signal) {
  busy_stream([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
  test::tell("ready");
  test::ask();
  return 0;
}

TEST(ProcessExit, sigterm_and_sigint_end_it_at_once) {
  for (int signal : {SIGTERM, SIGINT}) {
    test::Child child("wait_for_signal");
    ASSERT_EQ(child.hear(), "ready");
    child.kill(signal);
    int code = 0;
    EXPECT_LT(seconds_until_exit(child, &code), 30);
    EXPECT_EQ(code, -signal);
  }
}

CHILD(finalize_with_stuck_task) {
  aclInit(nullptr);
  busy_stream([] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
  const int code = aclFinalize();
  test::tell(std::to_string(code));
  return 0;
}

TEST(ProcessExit, finalize_gives_up_on_a_stuck_task) {
  test::Child child("finalize_with_stuck_task");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(child.hear(), "0");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

CHILD(use_after_exit_began) {
  static struct AtExit {
    ~AtExit() {
      // Destroyed after softnpu's handler ran: calls answer, nothing hangs.
      void* memory = nullptr;
      aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
      aclrtMemsetAsync(memory, 4096, 0, 4096, nullptr);
      aclrtSynchronizeDevice();
      aclrtFree(memory);
    }
  } at_exit;
  busy_stream([] {});
  return 4;
}

TEST(ProcessExit, calls_from_destructors_are_harmless) {
  test::Child child("use_after_exit_began");
  int code = 0;
  EXPECT_LT(seconds_until_exit(child, &code), 30);
  EXPECT_EQ(code, 4);
}
