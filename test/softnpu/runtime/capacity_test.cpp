#include "runtime/capacity.h"

#include <vector>

#include "child.h"
#include "device.h"
#include "runtime/host_memory_limit.h"

using namespace softnpu;
using test::OnCard;

namespace {
constexpr size_t MB = size_t{1} << 20;
}

class Capacity : public OnCard {};

// Allocates until the card is full, says how much it got, and keeps it until it is told to end.
CHILD(take_all) {
  if (aclrtSetDevice(0) != 0) return 1;
  size_t taken = 0;
  int code = 0;
  for (void* memory = nullptr; (code = aclrtMalloc(&memory, 16 * MB, ACL_MEM_MALLOC_HUGE_FIRST)) == 0;)
    taken += 16 * MB;
  test::tell(std::to_string(taken / MB) + " " + std::to_string(code));
  test::ask();
  return 0;
}

TEST_F(Capacity, one_card_is_shared_by_processes_and_comes_back_after_a_kill) {
  const CardMemory before = card_memory(0);
  ASSERT_LE(before.total, size_t{4096} * MB) << "set SOFTNPU_MEMORY: this test fills the card";
  std::vector<std::unique_ptr<test::Child>> children;
  size_t sum = 0;
  std::vector<size_t> parts;
  for (int i = 0; i < 4; ++i) children.push_back(std::make_unique<test::Child>("take_all"));
  for (auto& child : children) {
    size_t taken = 0;
    int code = 0;
    const std::string line = child->hear();
    ASSERT_EQ(sscanf(line.c_str(), "%zu %d", &taken, &code), 2) << line;
    EXPECT_EQ(code, ACL_ERROR_RT_MEMORY_ALLOCATION);
    parts.push_back(taken);
    sum += taken;
  }
  EXPECT_EQ(sum * MB, before.free / (16 * MB) * (16 * MB));
  EXPECT_LT(card_memory(0).free, 16 * MB);
  const size_t victim = static_cast<size_t>(std::max_element(parts.begin(), parts.end()) - parts.begin());
  children[victim]->kill(SIGKILL);
  EXPECT_EQ(children[victim]->wait(), -SIGKILL);
  EXPECT_GE(card_memory(0).free, parts[victim] * MB);
  for (auto& child : children) {
    if (child == children[victim]) continue;
    child->say("end");
    EXPECT_EQ(child->wait(), 0);
  }
  EXPECT_EQ(card_memory(0).free, before.free);
}

// A card as large as the host allows: says how much of it is free before and after the process has filled 512 MiB of
// its own.
CHILD(fill_the_host) {
  if (aclrtSetDevice(0) != 0) return 1;
  const size_t before = card_memory(0).free;
  const std::vector<char> filled(512 * MB, 1);
  test::tell(std::to_string(before) + " " + std::to_string(card_memory(0).free - filled[7] + 1));
  return 0;
}

TEST_F(Capacity, what_is_free_does_not_follow_the_host) {
  test::Child child("fill_the_host", {"SOFTNPU_MEMORY=1T", "SOFTNPU_POOL=host"});
  size_t before = 0, after = 0;
  const std::string line = child.hear();
  ASSERT_EQ(sscanf(line.c_str(), "%zu %zu", &before, &after), 2) << line;
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(before, after);
}

// Takes 16 MiB, says what it knows of the card, and keeps them until it is told to end.
CHILD(take_some) {
  if (aclrtSetDevice(1) != 0) return 1;
  void* memory = nullptr;
  if (aclrtMalloc(&memory, 16 * MB, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 2;
  test::tell(std::to_string(card_memory(1).used / MB));
  test::ask();
  return 0;
}

TEST_F(Capacity, processes_of_another_pool_are_not_seen) {
  std::vector<std::unique_ptr<test::Child>> children;
  const char* const pools[] = {"SOFTNPU_POOL=", "SOFTNPU_POOL=job-1", "SOFTNPU_POOL=job-2", "SOFTNPU_POOL=job-1"};
  const char* const seen[] = {"16", "16", "16", "32"};
  for (int i = 0; i < 4; ++i) {
    children.push_back(std::make_unique<test::Child>("take_some", std::vector<std::string>{pools[i]}));
    EXPECT_EQ(children.back()->hear(), seen[i]) << pools[i];
  }
  for (auto& child : children) {
    child->say("end");
    EXPECT_EQ(child->wait(), 0);
  }
}

TEST_F(Capacity, refusal_tells_the_numbers) {
  void* memory = nullptr;
  const size_t total = card_total() / MB;
  ASSERT_EQ(aclrtMalloc(&memory, (total + 1) * MB, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  const std::string text = test::message();
  EXPECT_NE(text.find(std::to_string(total + 1) + ".00 MiB wanted"), std::string::npos) << text;
  EXPECT_NE(text.find("of " + std::to_string(total) + ".00 MiB"), std::string::npos) << text;
}

TEST_F(Capacity, refusal_charges_nothing) {
  const size_t before = card_memory(0).used_here;
  void* memory = nullptr;
  for (int i = 0; i < 3; ++i) aclrtMalloc(&memory, card_total() + MB, ACL_MEM_MALLOC_HUGE_FIRST);
  EXPECT_EQ(card_memory(0).used_here, before);
}

TEST_F(Capacity, cards_are_counted_apart) {
  void* memory = nullptr;
  const size_t first = card_memory(0).used, second = card_memory(1).used;
  ASSERT_OK(aclrtSetDevice(1));
  ASSERT_OK(aclrtMalloc(&memory, 32 * MB, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT_EQ(card_memory(0).used, first);
  EXPECT_EQ(card_memory(1).used, second + 32 * MB);
  ASSERT_OK(aclrtFree(memory));
  ASSERT_OK(aclrtSetDevice(0));
}

TEST_F(Capacity, no_card_is_larger_than_what_the_host_can_give) { EXPECT_LT(card_total(), read_host_memory().limit); }

CHILD(report_total) {
  test::tell(std::to_string(card_total()));
  return 0;
}

TEST_F(Capacity, absurd_wish_is_cut_down_to_the_host) {
  test::Child child("report_total", {"SOFTNPU_MEMORY=900T"});
  EXPECT_LT(std::stoull(child.hear()), read_host_memory().limit);
}

// Card 3 seen as device 0 uses card 3's memory.
CHILD(use_visible_device) {
  void* memory = nullptr;
  if (aclrtSetDevice(0) != 0 || aclrtMalloc(&memory, 64 * MB, ACL_MEM_MALLOC_HUGE_FIRST) != 0) return 1;
  aclrtPtrAttributes attributes;
  aclrtPointerGetAttributes(memory, &attributes);
  int32_t logical = -1;
  aclrtGetLogicDevIdByUserDevId(0, &logical);
  test::tell(std::to_string(attributes.location.id) + " " + std::to_string(logical));
  test::ask();
  return 0;
}

TEST_F(Capacity, visible_devices_name_physical_cards) {
  const size_t before = card_memory(3).used;
  test::Child child("use_visible_device", {"ASCEND_RT_VISIBLE_DEVICES=3,1"});
  ASSERT_EQ(child.hear(), "0 3");
  EXPECT_EQ(card_memory(3).used, before + 64 * MB);
  child.say("end");
  EXPECT_EQ(child.wait(), 0);
}
