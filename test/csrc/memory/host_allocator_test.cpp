// Pinned host memory.
#include "memory/host_allocator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "device_or_skip.h"
#include "stream_work.h"

using namespace npu;

namespace {

class HostAllocator : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICE();
    set_device(0);
    task_queue::set_level(GetParam());
  }
  void TearDown() override {
    if (device_count() == 0) return;
    synchronize(0);
    host_allocator::get()->empty_cache();
    task_queue::set_level(0);
  }
  static c10::DataPtr allocate(size_t bytes) { return host_allocator::get()->allocate(bytes); }
};
INSTANTIATE_TEST_SUITE_P(Level, HostAllocator, testing::Values(0, 1, 2));

}  // namespace

TEST_P(HostAllocator, is_torchs_for_the_device) {
  EXPECT_EQ(at::getHostAllocator(c10::DeviceType::PrivateUse1), host_allocator::get());
}

TEST_P(HostAllocator, gives_memory_that_the_host_can_use) {
  const auto ptr = allocate(1000);
  std::memset(ptr.get(), 1, 1000);
  EXPECT_EQ(ptr.device().type(), c10::DeviceType::CPU);
}

TEST_P(HostAllocator, knows_its_memory_as_pinned) {
  const auto ptr = allocate(1000);
  auto* const bytes = static_cast<char*>(ptr.get());
  EXPECT_TRUE(host_allocator::is_pinned(bytes));
  EXPECT_TRUE(host_allocator::is_pinned(bytes + 999));
  EXPECT_FALSE(host_allocator::is_pinned(bytes - 1));
  int local = 0;
  EXPECT_FALSE(host_allocator::is_pinned(&local));
  EXPECT_FALSE(host_allocator::is_pinned(nullptr));
}

TEST_P(HostAllocator, forgets_memory_that_was_returned) {
  auto ptr = allocate(1000);
  void* const address = ptr.get();
  ptr.clear();
  host_allocator::get()->empty_cache();
  EXPECT_FALSE(host_allocator::is_pinned(address));
  EXPECT_EQ(host_allocator::get()->get_stats().allocated_bytes.current, 0);
}

TEST_P(HostAllocator, memory_is_reused) {
  void* const address = allocate(1000).get();
  EXPECT_EQ(allocate(1000).get(), address);
}

TEST_P(HostAllocator, memory_that_a_stream_uses_waits_for_it) {
  const auto stream = stream_from_pool();
  Gate gate;
  auto ptr = allocate(1000);
  void* const address = ptr.get();
  gate.hold(stream);
  EXPECT_TRUE(host_allocator::get()->record_event(address, ptr.get_context(), stream));
  ptr.clear();
  EXPECT_NE(allocate(1000).get(), address);
  gate.open();
  stream.synchronize();
  const auto first = allocate(1000), second = allocate(1000);
  EXPECT_TRUE(first.get() == address || second.get() == address);
}

TEST_P(HostAllocator, does_not_take_foreign_memory_for_its_own) {
  char bytes[16];
  EXPECT_FALSE(host_allocator::get()->record_event(bytes, nullptr, current_stream()));
}
