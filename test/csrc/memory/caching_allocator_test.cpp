// The device allocator on a card: reuse, streams, limits, running out of memory, statistics, private pools.
#include "memory/caching_allocator.h"

#include <c10/core/StreamGuard.h>

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "memory/allocator_config.h"
#include "memory/allocator_fixture.h"
#include "memory/memory_pool.h"
#include "stream_work.h"

INSTANTIATE_TEST_SUITE_P(Level, CachingAllocator, testing::Values(0, 1, 2));

TEST_P(CachingAllocator, is_torchs_allocator_of_the_device) {
  EXPECT_EQ(c10::GetAllocator(c10::DeviceType::PrivateUse1), caching_allocator::get());
  EXPECT_EQ(c10::getDeviceAllocator(c10::DeviceType::PrivateUse1), caching_allocator::get());
  EXPECT_STREQ(caching_allocator::backend_name(), "native");
  EXPECT_TRUE(caching_allocator::get()->initialized());
}

TEST_P(CachingAllocator, nothing_is_a_null_pointer_on_the_current_card) {
  DeviceGuard guard(1);
  const auto ptr = allocate(0);
  EXPECT_EQ(ptr.get(), nullptr);
  EXPECT_EQ(ptr.device(), c10::Device(c10::DeviceType::PrivateUse1, 1));
}

TEST_P(CachingAllocator, memory_is_on_the_current_card) {
  DeviceGuard guard(1);
  const auto ptr = allocate(1000);
  EXPECT_EQ(ptr.device().index(), 1);
  EXPECT_EQ(heap(1).find(static_cast<char*>(ptr.get()) + 999), ptr.get_context());
  EXPECT_EQ(heap(0).find(ptr.get()), nullptr);
}

TEST_P(CachingAllocator, a_freed_block_is_reused_without_the_driver) {
  for (const size_t bytes : {size_t{100}, kMiB, 3 * kMiB, 30 * kMiB}) {
    void* const address = allocate(bytes).get();
    const auto calls = stats().num_device_alloc;
    EXPECT_EQ(allocate(bytes).get(), address) << bytes;
    EXPECT_EQ(stats().num_device_alloc, calls);
  }
}

TEST_P(CachingAllocator, small_tensors_share_a_segment) {
  std::vector<c10::DataPtr> ptrs;
  for (int i = 0; i < 4096; ++i) ptrs.push_back(allocate(512));
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
  ptrs.push_back(allocate(1));
  EXPECT_EQ(reserved(), static_cast<int64_t>(4 * kMiB));
}

TEST_P(CachingAllocator, small_blocks_merge_before_another_segment_is_asked_for) {
  std::vector<c10::DataPtr> ptrs;
  for (int i = 0; i < 4096; ++i) ptrs.push_back(allocate(512));
  ptrs.clear();
  ptrs.push_back(allocate(kMiB));
  ptrs.push_back(allocate(kMiB));
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
}

TEST_P(CachingAllocator, a_block_is_reused_on_its_own_stream_only) {
  const auto other = stream_from_pool();
  void* address = nullptr;
  {
    const auto ptr = allocate(100);
    address = ptr.get();
  }
  {
    c10::StreamGuard guard(other);
    EXPECT_NE(allocate(100).get(), address);
  }
  EXPECT_EQ(allocate(100).get(), address);
}

TEST_P(CachingAllocator, a_block_that_another_stream_uses_waits_for_it) {
  const auto other = stream_from_pool();
  Gate gate;
  auto ptr = allocate(100);
  void* const address = ptr.get();
  gate.hold(other);
  caching_allocator::record_stream(ptr, other);
  caching_allocator::record_stream(ptr, other);  // once is enough
  ptr.clear();
  EXPECT_EQ(stats().allocation[0].current, 0);
  EXPECT_EQ(stats().active[0].current, 1);
  const auto while_busy = allocate(100);
  EXPECT_NE(while_busy.get(), address);

  gate.open();
  other.synchronize();
  const auto after = allocate(100);
  EXPECT_EQ(after.get(), address);
  EXPECT_EQ(stats().active[0].current, 2);
}

TEST_P(CachingAllocator, a_block_waits_for_every_stream_that_uses_it) {
  const auto first = stream_from_pool(), second = stream_from_pool();
  Gate first_gate, second_gate;
  auto ptr = allocate(100);
  void* const address = ptr.get();
  first_gate.hold(first);
  second_gate.hold(second);
  caching_allocator::record_stream(ptr, first);
  caching_allocator::record_stream(ptr, second);
  ptr.clear();
  first_gate.open();
  first.synchronize();
  EXPECT_NE(allocate(100).get(), address);
  second_gate.open();
  second.synchronize();
  EXPECT_EQ(allocate(100).get(), address);
}

TEST_P(CachingAllocator, the_blocks_own_stream_needs_no_record) {
  Gate gate;
  auto ptr = allocate(100);
  void* const address = ptr.get();
  gate.hold(current_stream());
  caching_allocator::record_stream(ptr, current_stream());
  ptr.clear();
  EXPECT_EQ(allocate(100).get(), address);
}

TEST_P(CachingAllocator, record_stream_sees_memory_behind_another_owner) {
  const auto other = stream_from_pool();
  auto owned = allocate(100);
  void* const address = owned.get();
  c10::DataPtr view(address, owned.device());
  Gate gate;
  gate.hold(other);
  caching_allocator::record_stream(view, other);
  owned.clear();
  EXPECT_NE(allocate(100).get(), address);
}

TEST_P(CachingAllocator, empty_cache_returns_what_no_block_uses) {
  auto kept = allocate(100);
  allocate(40 * kMiB).clear();
  EXPECT_EQ(reserved(), static_cast<int64_t>(42 * kMiB));
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kMiB));
  kept.clear();
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), 0);
  EXPECT_EQ(stats().num_device_free, 2);
}

TEST_P(CachingAllocator, empty_cache_waits_for_blocks_that_other_streams_use) {
  const auto other = stream_from_pool();
  Gate gate;
  auto ptr = allocate(100);
  gate.hold(other);
  caching_allocator::record_stream(ptr, other);
  ptr.clear();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  caching_allocator::empty_cache();
  opener.join();
  EXPECT_EQ(reserved(), 0);
}

TEST_P(CachingAllocator, memory_is_not_returned_while_work_on_it_runs) {
  Gate gate;
  gate.hold(current_stream());
  allocate(40 * kMiB).clear();  // the stream still works on it
  Mark mark;
  mark.put(current_stream());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  caching_allocator::empty_cache();
  EXPECT_TRUE(mark.reached());
  opener.join();
}

TEST_P(CachingAllocator, the_error_of_an_earlier_task_is_not_lost_in_a_free) {
  if (GetParam() == 0) GTEST_SKIP() << "errors are raised at once";
  const auto other = stream_from_pool();
  auto ptr = allocate(100);
  void* const address = ptr.get();
  caching_allocator::record_stream(ptr, other);
  fail_a_task();
  ptr.clear();  // records an event, which raises the error
  EXPECT_THROW(task_queue::drain(), std::runtime_error);
  other.synchronize();
  EXPECT_EQ(allocate(100).get(), address);
}

TEST_P(CachingAllocator, the_error_of_an_earlier_task_does_not_keep_memory_from_the_driver) {
  if (GetParam() == 0) GTEST_SKIP() << "errors are raised at once";
  allocate(40 * kMiB).clear();
  fail_a_task();
  EXPECT_THROW(caching_allocator::empty_cache(), std::runtime_error);
  EXPECT_EQ(reserved(), 0);
}

TEST_P(CachingAllocator, past_its_fraction_a_process_is_out_of_memory) {
  const double fraction = 0.5;
  const auto limit = static_cast<size_t>(fraction * static_cast<double>(total_on_card()));
  caching_allocator::set_memory_fraction(fraction, 0);
  EXPECT_EQ(caching_allocator::get_memory_fraction(0), fraction);
  const std::string error = out_of_memory(limit + 4 * kMiB);
  EXPECT_NE(error.find("NPU out of memory. Tried to allocate"), std::string::npos) << error;
  EXPECT_NE(error.find("allowed for this process"), std::string::npos) << error;
  EXPECT_NE(error.find("set_per_process_memory_fraction"), std::string::npos) << error;
  EXPECT_EQ(stats().num_ooms, 1);
  EXPECT_NE(allocate(100).get(), nullptr) << "the process goes on";
}

TEST_P(CachingAllocator, cached_memory_is_flushed_before_giving_up) {
  // With room for 60 MiB, two blocks of 20 and one of 50 do not fit together.
  const auto total = static_cast<double>(total_on_card());
  caching_allocator::set_memory_fraction(60.0 * kMiB / total, 0);
  {
    const auto a = allocate(20 * kMiB), b = allocate(20 * kMiB);
  }
  EXPECT_EQ(reserved(), static_cast<int64_t>(40 * kMiB));
  EXPECT_NE(allocate(50 * kMiB).get(), nullptr);
  EXPECT_EQ(reserved(), static_cast<int64_t>(50 * kMiB));
  EXPECT_EQ(stats().num_alloc_retries, 1);
  EXPECT_EQ(stats().num_ooms, 0);
}

TEST_P(CachingAllocator, memory_that_other_streams_use_is_waited_for_before_giving_up) {
  const auto total = static_cast<double>(total_on_card());
  caching_allocator::set_memory_fraction(60.0 * kMiB / total, 0);
  const auto other = stream_from_pool();
  Gate gate;
  auto ptr = allocate(40 * kMiB);
  gate.hold(other);
  caching_allocator::record_stream(ptr, other);
  ptr.clear();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  EXPECT_NE(allocate(50 * kMiB).get(), nullptr);
  opener.join();
}

TEST_P(CachingAllocator, running_out_of_memory_names_the_numbers) {
  const auto kept = allocate(3 * kMiB);
  const size_t total = total_on_card();
  const std::string error = out_of_memory(total + kMiB);
  using c10::CachingAllocator::format_size;
  EXPECT_NE(error.find("Tried to allocate " + format_size(total + kMiB)), std::string::npos) << error;
  EXPECT_NE(error.find("NPU 0 has a total capacity of " + format_size(total) + " of which "), std::string::npos)
      << error;
  EXPECT_NE(error.find("3.00 MiB is allocated by PyTorch, and 17.00 MiB is reserved by PyTorch but unallocated."),
            std::string::npos)
      << error;
}

TEST_P(CachingAllocator, absurd_sizes_are_out_of_memory) {
  EXPECT_NE(out_of_memory(size_t{1} << 62).find("more than 1EB"), std::string::npos);
}

TEST_P(CachingAllocator, garbage_is_collected_above_the_threshold_oldest_first) {
  const auto total = static_cast<double>(total_on_card());
  caching_allocator::set_memory_fraction(200.0 * kMiB / total, 0);
  caching_allocator::settings::set("garbage_collection_threshold:0.9");
  auto older = allocate(40 * kMiB), younger = allocate(44 * kMiB);
  void* const address = younger.get();
  older.clear();
  const auto used = allocate(42 * kMiB);
  younger.clear();
  const auto more = allocate(60 * kMiB);  // 126 + 60 MiB are over 180 MiB
  EXPECT_EQ(reserved(), static_cast<int64_t>((44 + 42 + 60) * kMiB));
  EXPECT_EQ(stats().num_alloc_retries, 0);
  EXPECT_EQ(allocate(44 * kMiB).get(), address);
  caching_allocator::settings::set("");
}

TEST_P(CachingAllocator, statistics_agree_with_the_snapshot) {
  const auto other = stream_from_pool();
  std::vector<c10::DataPtr> ptrs;
  unsigned random = 1;
  for (int i = 0; i < 300; ++i) {
    random = random * 1664525 + 1013904223;
    ptrs.push_back(allocate(1 + random % (i % 3 == 0 ? 4 * kMiB : 20000)));
    if (i % 5 == 0) caching_allocator::record_stream(ptrs.back(), other);
    if (i % 2 == 0) ptrs[random % ptrs.size()].clear();
  }
  int64_t reserved_bytes = 0, allocated_bytes = 0, active = 0, split_blocks = 0, segments = 0;
  for (const auto& segment : heap(0).segments({0, 0})) {
    ++segments;
    reserved_bytes += segment.total_size;
    allocated_bytes += segment.allocated_size;
    size_t size = 0;
    for (const auto& block : segment.blocks) {
      size += block.size;
      active += block.active;
      split_blocks += !block.active && segment.blocks.size() > 1;
    }
    EXPECT_EQ(size, segment.total_size);
  }
  const auto now = stats();
  EXPECT_EQ(now.segment[0].current, segments);
  EXPECT_EQ(now.reserved_bytes[0].current, reserved_bytes);
  EXPECT_EQ(now.allocated_bytes[0].current, allocated_bytes);
  EXPECT_EQ(now.active[0].current, active);
  EXPECT_EQ(now.inactive_split[0].current, split_blocks);
  ptrs.clear();
  EXPECT_EQ(allocated(), 0);
}

TEST_P(CachingAllocator, threads_share_a_card) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      set_device(0);
      set_current_stream(t % 2 == 0 ? default_stream(0) : stream_from_pool());
      std::vector<c10::DataPtr> ptrs(16);
      unsigned random = t;
      for (int i = 0; i < 5000; ++i) {
        random = random * 1664525 + 1013904223;
        ptrs[random % 16] = allocate(1 + (random >> 8) % (random % 7 == 0 ? 2 * kMiB : 5000));
        if (i % 500 == 0) caching_allocator::empty_cache();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allocated(), 0);
  caching_allocator::empty_cache();
  EXPECT_EQ(reserved(), 0);
}

TEST_P(CachingAllocator, a_clone_is_copied_on_the_device) {
  const auto from = allocate(4096);
  std::vector<char> bytes(4096, 'x'), back(4096);
  const auto& api = acl::api();
  DeviceGuard guard(0);
  NPU_CHECK(api.aclrtMemcpy(from.get(), 4096, bytes.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE));
  const auto to = caching_allocator::get()->clone(from.get(), 4096);
  current_stream().synchronize();
  NPU_CHECK(api.aclrtMemcpy(back.data(), 4096, to.get(), 4096, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(back, bytes);
  EXPECT_FALSE(caching_allocator::get()->is_simple_data_ptr(to));  // Note [Lazy clones]
}

TEST_P(CachingAllocator, raw_memory_is_returned_by_its_address) {
  void* const address = caching_allocator::raw_alloc(100, stream_from_pool());
  EXPECT_EQ(allocated(), 512);
  EXPECT_THROW(caching_allocator::raw_delete(static_cast<char*>(address) + 1), c10::ValueError);
  caching_allocator::raw_delete(address);
  EXPECT_EQ(allocated(), 0);
  EXPECT_THROW(caching_allocator::raw_delete(address), c10::ValueError);
}

TEST_P(CachingAllocator, history_has_every_action) {
  caching_allocator::HistorySettings settings;
  settings.enabled = true;
  settings.max_entries = 100;
  caching_allocator::record_history(settings, true);
  void* const address = allocate(100).get();
  caching_allocator::empty_cache();
  using Action = caching_allocator::TraceEntry::Action;
  std::vector<Action> actions;
  for (const auto& entry : heap(0).history()) {
    actions.push_back(entry.action_);
    if (entry.action_ == Action::ALLOC) {
      EXPECT_EQ(entry.addr_, reinterpret_cast<size_t>(address));
      EXPECT_EQ(entry.size_, 100u);
    }
  }
  EXPECT_EQ(actions, (std::vector<Action>{Action::SEGMENT_ALLOC, Action::ALLOC, Action::FREE_REQUESTED,
                                          Action::FREE_COMPLETED, Action::SEGMENT_FREE, Action::SNAPSHOT}));
  caching_allocator::record_history({}, true);
}

TEST_P(CachingAllocator, a_private_pool_has_segments_of_its_own) {
  const auto outside = allocate(100);
  c10::MempoolId_t id;
  {
    caching_allocator::MemoryPool pool({}, true);
    id = pool.id();
    caching_allocator::begin_allocate_current_thread_to_pool(0, id);
    EXPECT_EQ(pool.use_count(), 2);
    auto inside = allocate(100);
    EXPECT_EQ(owner_of(inside), id);
    std::thread([&] {
      set_device(0);
      EXPECT_EQ(owner_of(allocate(100)), (c10::MempoolId_t{0, 0})) << "another thread is not routed";
    }).join();
    heap(0).end_allocate_to_pool(id);
    heap(0).release_pool(id);
    EXPECT_EQ(heap(0).segments(id).size(), 1u);
    EXPECT_EQ(stats().reserved_bytes_by_private_pools.at(id)[0].current, static_cast<int64_t>(2 * kMiB));
    inside.clear();
    EXPECT_EQ(owner_of(allocate(100)), (c10::MempoolId_t{0, 0})) << "free memory of the pool is for the pool";
  }
  EXPECT_TRUE(heap(0).segments(id).empty()) << "gone with the pool";
}

TEST_P(CachingAllocator, a_pool_may_lend_when_memory_is_short) {
  const auto total = static_cast<double>(total_on_card());
  caching_allocator::set_memory_fraction(60.0 * kMiB / total, 0);
  for (const bool lends : {false, true}) {
    caching_allocator::ArenaOptions options;
    options.use_on_oom = lends;
    caching_allocator::MemoryPool pool(options, true);
    caching_allocator::begin_allocate_current_thread_to_pool(0, pool.id());
    allocate(50 * kMiB).clear();
    heap(0).end_allocate_to_pool(pool.id());
    heap(0).release_pool(pool.id());
    EXPECT_EQ(out_of_memory(40 * kMiB).empty(), lends);
  }
}

TEST_P(CachingAllocator, a_forked_child_leaves_the_parents_memory_alone) {
  auto ptr = allocate(4096);
  std::vector<char> bytes(4096, 'p'), back(4096);
  DeviceGuard guard(0);
  NPU_CHECK(acl::api().aclrtMemcpy(ptr.get(), 4096, bytes.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE));
  const pid_t child = fork();
  if (child == 0) {
    ptr.clear();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  NPU_CHECK(acl::api().aclrtMemcpy(back.data(), 4096, ptr.get(), 4096, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(back, bytes);
}
