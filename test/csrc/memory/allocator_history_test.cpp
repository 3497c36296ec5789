// The ring of allocator actions behind torch.npu.memory._record_memory_history().
#include "memory/allocator_history.h"

#include <gtest/gtest.h>

using namespace npu::caching_allocator;

namespace {

int g_gathered = 0;
struct Trace : c10::GatheredContext {};
std::shared_ptr<c10::GatheredContext> gather() {
  ++g_gathered;
  return std::make_shared<Trace>();
}

HistorySettings settings(size_t max_entries, RecordContext when = RecordContext::ALL) {
  HistorySettings settings;
  settings.enabled = true;
  settings.gather = gather;
  settings.max_entries = max_entries;
  settings.when = when;
  return settings;
}

void add(AllocatorHistory& history, size_t address, TraceEntry::Action action = TraceEntry::ALLOC) {
  history.add(action, reinterpret_cast<void*>(address), 512, 3, {0, 0}, std::make_shared<Trace>());
}

std::vector<size_t> addresses(const AllocatorHistory& history) {
  std::vector<size_t> addresses;
  for (const auto& entry : history.entries()) addresses.push_back(entry.addr_);
  return addresses;
}

using Addresses = std::vector<size_t>;

}  // namespace

TEST(AllocatorHistory, is_off_at_first) {
  AllocatorHistory history(0);
  EXPECT_FALSE(history.records());
  EXPECT_EQ(history.gather(RecordContext::STATE), nullptr);
  add(history, 1);
  EXPECT_TRUE(history.entries().empty());
}

TEST(AllocatorHistory, keeps_the_last_entries_in_order) {
  AllocatorHistory history(0);
  history.configure(settings(3), false);
  for (size_t i = 1; i <= 5; ++i) add(history, i);
  EXPECT_EQ(addresses(history), (Addresses{3, 4, 5}));
  history.configure(settings(4), false);
  add(history, 6);
  add(history, 7);
  EXPECT_EQ(addresses(history), (Addresses{4, 5, 6, 7}));
  history.configure(settings(2), false);
  EXPECT_EQ(addresses(history), (Addresses{6, 7}));
  history.configure(settings(2), true);
  EXPECT_EQ(addresses(history), Addresses{});
}

TEST(AllocatorHistory, skips_what_is_not_wanted) {
  AllocatorHistory history(0);
  auto wanted = settings(10);
  wanted.skip = {TraceEntry::FREE_REQUESTED};
  history.configure(wanted, false);
  add(history, 1);
  add(history, 2, TraceEntry::FREE_REQUESTED);
  add(history, 3, TraceEntry::FREE_COMPLETED);
  EXPECT_EQ(addresses(history), (Addresses{1, 3}));
}

TEST(AllocatorHistory, takes_stack_traces_where_they_are_wanted_only) {
  AllocatorHistory history(0);
  history.configure(settings(10, RecordContext::STATE), false);
  g_gathered = 0;
  EXPECT_NE(history.gather(RecordContext::STATE), nullptr);
  EXPECT_EQ(history.gather(RecordContext::ALL), nullptr);
  EXPECT_EQ(g_gathered, 1);
  add(history, 1);
  EXPECT_EQ(history.entries()[0].context_, nullptr) << "traces of live memory only";
  history.configure(settings(10, RecordContext::ALLOC), true);
  add(history, 1);
  EXPECT_NE(history.entries()[0].context_, nullptr);
}

TEST(AllocatorHistory, entries_carry_the_users_metadata) {
  AllocatorHistory history(0);
  history.configure(settings(10), false);
  set_user_metadata("step 7");
  add(history, 1);
  set_user_metadata("");
  add(history, 2);
  EXPECT_EQ(history.entries()[0].user_metadata_, "step 7");
  EXPECT_EQ(history.entries()[1].user_metadata_, "");
}
