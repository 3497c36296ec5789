#include "runtime/fault.h"

#include <sys/resource.h>

#include "child.h"
#include "device.h"

namespace {

void* device_memory() {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  void* memory = nullptr;
  if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 4096, ACL_MEM_MALLOC_HUGE_FIRST) != 0) _exit(1);
  return memory;
}

void own_handler(int, siginfo_t*, void*) { _exit(42); }

}  // namespace

CHILD(read_device_memory) { return *static_cast<volatile char*>(device_memory()); }
CHILD(write_device_memory) {
  *static_cast<volatile char*>(device_memory()) = 1;
  return 0;
}
CHILD(read_null) {
  device_memory();
  volatile uintptr_t address = 16;
  return *reinterpret_cast<volatile char*>(address);
}
CHILD(read_device_memory_with_handler) {
  struct sigaction action = {};
  action.sa_sigaction = own_handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  return *static_cast<volatile char*>(device_memory());
}
CHILD(killed_by_segv) {
  device_memory();
  raise(SIGSEGV);
  return 0;
}

TEST(Fault, host_access_dies_with_one_sentence) {
  for (const char* access : {"read_device_memory", "write_device_memory"}) {
    test::Child child(access);
    const std::string errors = child.errors();
    EXPECT_NE(child.wait(), 0);
    EXPECT_NE(errors.find("softnpu: host code touched device memory at 0x"), std::string::npos) << errors;
    EXPECT_NE(errors.find("tensor.cpu()"), std::string::npos) << errors;
  }
}

TEST(Fault, other_faults_are_left_alone) {
  test::Child child("read_null");
  const std::string errors = child.errors();
  EXPECT_NE(child.wait(), 0);
  EXPECT_EQ(errors.find("softnpu: host code"), std::string::npos) << errors;
}

TEST(Fault, earlier_handler_still_gets_its_turn) {
  test::Child child("read_device_memory_with_handler");
  EXPECT_NE(child.errors().find("softnpu: host code touched device memory"), std::string::npos);
  EXPECT_EQ(child.wait(), 42);
}

TEST(Fault, signal_sent_by_hand_still_kills) {
  test::Child child("killed_by_segv");
  EXPECT_NE(child.wait(), 0);
}
