#include "runtime/trace.h"

#include "child.h"
#include "device.h"

using test::OnCard;

class Trace : public OnCard {};

TEST_F(Trace, counters_count) {
  void* memory = nullptr;
  char host[8] = {};
  const uint64_t tasks = softnpu_counter("tasks"), up = softnpu_counter("h2d_copies"),
                 down = softnpu_counter("d2h_copies"), syncs = softnpu_counter("synchronizations"),
                 allocations = softnpu_counter("allocations");
  ASSERT_OK(aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST));
  ASSERT_OK(aclrtMemcpy(memory, 8, host, 8, ACL_MEMCPY_HOST_TO_DEVICE));
  ASSERT_OK(aclrtMemsetAsync(memory, 8, 1, 8, nullptr));
  ASSERT_OK(aclrtSynchronizeStream(nullptr));
  ASSERT_OK(aclrtMemcpy(host, 8, memory, 8, ACL_MEMCPY_DEVICE_TO_HOST));
  ASSERT_OK(aclrtFree(memory));
  EXPECT_EQ(softnpu_counter("tasks") - tasks, 1u);
  EXPECT_EQ(softnpu_counter("h2d_copies") - up, 1u);
  EXPECT_EQ(softnpu_counter("d2h_copies") - down, 1u);
  EXPECT_EQ(softnpu_counter("synchronizations") - syncs, 1u);
  EXPECT_EQ(softnpu_counter("allocations") - allocations, 1u);
  EXPECT_EQ(softnpu_counter("nonsense"), UINT64_MAX);
}

CHILD(traced) {
  void* memory = nullptr;
  if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 8, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
  return aclrtMemsetAsync(memory, 8, 1, 8, nullptr) | aclrtSynchronizeStream(nullptr);
}

TEST_F(Trace, tasks_are_printed_when_asked_for) {
  test::Child child("traced", {"SOFTNPU_TRACE=1"});
  EXPECT_NE(child.errors().find("fill of 8 bytes"), std::string::npos);
  EXPECT_EQ(child.wait(), 0);
}
