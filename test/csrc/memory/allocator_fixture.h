// For tests of the device allocator on card 0: each starts with an empty cache, at every level of the task queue.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "device_or_skip.h"
#include "memory/caching_allocator.h"
#include "runtime/task_queue.h"

using namespace npu;
using caching_allocator::heap;

constexpr size_t kMiB = 1 << 20;

class CachingAllocator : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_DEVICES(2);
    set_device(0);
    set_current_stream(default_stream(0));
    task_queue::set_level(GetParam());
    caching_allocator::empty_cache();
    ASSERT_EQ(reserved(), 0) << "an earlier test has left memory behind";
    caching_allocator::get()->resetAccumulatedStats(0);
    caching_allocator::get()->resetPeakStats(0);
  }
  void TearDown() override {
    if (device_count() < 2) return;
    synchronize(0);
    synchronize(1);
    caching_allocator::set_memory_fraction(1.0, 0);
    caching_allocator::empty_cache();
    task_queue::set_level(0);
  }

  static c10::DataPtr allocate(size_t bytes) { return caching_allocator::get()->allocate(bytes); }
  static auto stats() { return caching_allocator::get()->getDeviceStats(0); }
  static int64_t reserved() { return stats().reserved_bytes[0].current; }
  static int64_t allocated() { return stats().allocated_bytes[0].current; }
  static size_t total_on_card() {
    size_t free = 0, total = 0;
    memory_info(0, &free, &total);
    return total;
  }
  // Leaves an error in the task queue.
  static void fail_a_task() {
    const auto ticket = task_queue::push([](void*) { throw std::runtime_error("a broken task"); }, nullptr, 0);
    while (!task_queue::is_done(ticket)) std::this_thread::yield();
  }
  static c10::MempoolId_t owner_of(const c10::DataPtr& ptr) {
    return static_cast<caching_allocator::Block*>(ptr.get_context())->pool->key().owner;
  }
  static std::string out_of_memory(size_t bytes) {
    try {
      allocate(bytes);
    } catch (const c10::OutOfMemoryError& error) {
      return error.what_without_backtrace();
    }
    return "";
  }
};
