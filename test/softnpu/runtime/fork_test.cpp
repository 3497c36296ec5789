#include "runtime/fork.h"

#include "child.h"
#include "device.h"

namespace {

// Runs `body` in a forked child and gives its exit code.
template <class Body>
int in_fork(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

CHILD(fork_before_use) {
  uint32_t count = 0;
  if (aclInit(nullptr) != 0 || aclrtGetDeviceCount(&count) != 0 || !aclrtGetSocName()) return 1;
  const int code = in_fork([] {
    void* memory = nullptr;
    char in = 5, out = 0;
    if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
    if (aclrtMemcpy(memory, 1, &in, 1, ACL_MEMCPY_HOST_TO_DEVICE) != 0) return 2;
    if (aclrtMemcpy(&out, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST) != 0) return 3;
    return out == 5 ? 0 : 4;
  });
  test::tell(std::to_string(code));
  return 0;
}

TEST(Fork, before_the_first_device_use_gives_a_normal_process) {
  test::Child child("fork_before_use");
  EXPECT_EQ(child.hear(), "0");
}

CHILD(fork_after_use) {
  void* memory = nullptr;
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
  if (aclrtCreateStream(&stream) != 0 || aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC) != 0) return 2;
  if (aclrtMemset(memory, 1 << 20, 7, 1 << 20) != 0) return 3;
  const int code = in_fork([=] {
    int32_t device = 0;
    uint32_t count = 0;
    void* other = nullptr;
    aclrtStreamStatus status;
    char byte = 0;
    if (aclrtGetDevice(&device) == 0 || aclrtSetDevice(0) == 0 || aclrtSetDevice(1) == 0) return 1;
    const char* text = aclGetRecentErrMsg();
    if (!text || !strstr(text, "forked")) return 2;
    if (aclrtMalloc(&other, 10, ACL_MEM_MALLOC_HUGE_FIRST) == 0 || aclrtGetDeviceCount(&count) == 0) return 3;
    if (aclrtMemset(memory, 10, 0, 10) == 0 || aclrtStreamQuery(stream, &status) == 0) return 4;
    if (aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST) == 0) return 5;
    if (aclrtSynchronizeStream(stream) == 0 || aclrtRecordEvent(event, stream) == 0) return 6;
    // What destructors do succeeds and does nothing.
    if (aclrtFree(memory) != 0 || aclrtDestroyStream(stream) != 0 || aclrtDestroyEvent(event) != 0) return 7;
    if (aclrtResetDevice(0) != 0 || aclFinalize() != 0) return 8;
    return in_fork([] { return aclrtSetDevice(0) != 0 ? 0 : 1; });
  });
  test::tell("child " + std::to_string(code));
  // The parent's world is as it was.
  std::vector<char> host(1 << 20);
  if (aclrtMemcpy(host.data(), host.size(), memory, host.size(), ACL_MEMCPY_DEVICE_TO_HOST) != 0) return 4;
  const bool same = host == std::vector<char>(1 << 20, 7);
  test::tell(std::string("parent ") + (same && aclrtSynchronizeStream(stream) == 0 ? "unchanged" : "changed"));
  return 0;
}

TEST(Fork, after_use_cuts_the_child_off_and_leaves_the_parent_alone) {
  test::Child child("fork_after_use");
  EXPECT_EQ(child.hear(), "child 0");
  EXPECT_EQ(child.hear(), "parent unchanged");
  EXPECT_EQ(child.wait(), 0);
}

// A forked child must not keep the memory or the lock of a parent that is gone.
CHILD(orphan) {
  void* memory = nullptr;
  if (aclrtSetDevice(5) != 0 || aclrtMalloc(&memory, 128 << 20, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
  const pid_t pid = fork();
  if (pid == 0) {
    sleep(20);
    _exit(0);
  }
  test::tell(std::to_string(pid));
  test::ask();
  return 0;
}

TEST(Fork, child_does_not_keep_the_parents_bytes) {
  test::Child child("orphan");
  const pid_t grandchild = std::stoi(child.hear());
  child.kill(SIGKILL);
  child.wait();
  size_t free = 0, total = 0;
  ASSERT_OK(aclrtSetDevice(5));
  // The grandchild lets go when it first runs, which may be after its parent's death.
  for (int tries = 0; tries < 200 && (free == 0 || free < total - (1 << 20)); ++tries) {
    if (tries > 0) usleep(50000);
    ASSERT_OK(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  }
  EXPECT_GE(free, total - (1 << 20));
  kill(grandchild, SIGKILL);
  ASSERT_OK(aclrtSetDevice(0));
}

// Asking about memory opens the parent's record; the child must have one of its own.
CHILD(fork_after_question) {
  aclrtUtilizationInfo info;
  if (aclInit(nullptr) != 0 || aclrtGetDeviceUtilizationRate(0, &info) != 0) return 1;
  const int code = in_fork([] {
    void* memory = nullptr;
    if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 64 << 20, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
    return aclrtFree(memory);
  });
  test::tell(std::to_string(code) + " " + std::to_string(aclrtGetDeviceUtilizationRate(0, &info)));
  return 0;
}

TEST(Fork, after_a_question_about_memory_gives_a_normal_process) {
  test::Child child("fork_after_question");
  EXPECT_EQ(child.hear(), "0 0");
}
