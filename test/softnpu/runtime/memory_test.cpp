#include "runtime/memory.h"

#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "child.h"
#include "device.h"
#include "runtime/window.h"

using namespace softnpu;
using test::OnCard;

class MemoryTest : public OnCard {};

TEST_F(MemoryTest, kernels_see_the_bytes_at_a_constant_distance) {
  char* address = static_cast<char*>(allocate(0, 10000));
  EXPECT_TRUE(is_device_address(address));
  EXPECT_EQ(card_of(address), 0);
  memset(kernel_address(address), 9, 10000);
  char byte = 0;
  ASSERT_OK(aclrtMemcpy(&byte, 1, address + 9999, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 9);
  deallocate(address);
}

TEST_F(MemoryTest, foreign_addresses_have_no_card) {
  int something = 0;
  EXPECT_EQ(card_of(&something), -1);
  EXPECT_EQ(card_of(nullptr), -1);
  EXPECT_FALSE(is_device_address(nullptr));
}

TEST_F(MemoryTest, check_knows_ends_cards_and_deaths) {
  char* address = static_cast<char*>(allocate(0, 1000));
  EXPECT_NO_THROW(check_allocated(address, 1000, -1, "x"));
  EXPECT_NO_THROW(check_allocated(address, 1000, 0, "x"));
  EXPECT_NO_THROW(check_allocated(address + 999, 1, 0, "x"));
  EXPECT_THROW(check_allocated(address, 1025, -1, "x"), Failure);
  EXPECT_THROW(check_allocated(address, SIZE_MAX, -1, "x"), Failure);
  EXPECT_THROW(check_allocated(address, 10, 1, "x"), Failure);
  EXPECT_THROW(check_allocated(&address, 1, -1, "x"), Failure);
  deallocate(address);
  try {
    check_allocated(address, 1, -1, "self");
    FAIL() << "freed memory passed";
  } catch (const Failure& f) {
    EXPECT_EQ(f.code, ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_NE(f.text.find("self"), std::string::npos);
  }
}

TEST_F(MemoryTest, freed_addresses_and_pages_come_again_as_zeros) {
  void* first = allocate(0, 5 << 20);
  memset(kernel_address(first), 1, 5 << 20);
  deallocate(first);
  void* second = allocate(0, 5 << 20);
  EXPECT_EQ(first, second);
  EXPECT_EQ(kernel_address(second)[12345], 0);
  deallocate(second);
}

// softnpu's own kindness: nothing says that CANN waits, and SOFTNPU_STRICT refuses it.
TEST_F(MemoryTest, freeing_while_a_stream_still_uses_it_is_safe) {
  Stream& stream = make_stream();
  void* memory = allocate(0, 8 << 20);
  const auto gate = hold(stream);
  ASSERT_OK(aclrtMemsetAsync(memory, 8 << 20, 1, 8 << 20, &stream));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate->set_value();
  });
  EXPECT_OK(aclrtFree(memory));
  opener.join();
  end(stream);
}

TEST_F(MemoryTest, one_allocation_may_be_larger_than_a_granule) {
  char* address = static_cast<char*>(allocate(0, 3 * kGranule / 2));
  memset(kernel_address(address), 1, 3 * kGranule / 2);
  EXPECT_EQ(card_of(address + kGranule), 0);
  deallocate(address);
}

TEST_F(MemoryTest, cards_do_not_share_granules) {
  ASSERT_OK(aclrtSetDevice(1));
  void* second = allocate(1, 4096);
  void* first = allocate(0, 4096);
  EXPECT_EQ(card_of(first), 0);
  EXPECT_EQ(card_of(second), 1);
  deallocate(first);
  deallocate(second);
  ASSERT_OK(aclrtSetDevice(0));
}

TEST_F(MemoryTest, many_small_allocations_do_not_exhaust_mappings) {
  std::vector<void*> memory;
  for (int i = 0; i < 500; ++i) memory.push_back(allocate(0, 100));
  for (size_t i = 0; i < memory.size(); i += 2) deallocate(memory[i]);
  for (size_t i = 1; i < memory.size(); i += 2) deallocate(memory[i]);
}

// A window as small as the limits: granules go from card to card.
CHILD(small_window) {
  const rlimit limit{size_t{1600} << 20, size_t{1600} << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  if (aclrtSetDevice(0) != 0) {
    test::tell(aclGetRecentErrMsg());
    return 2;
  }
  const size_t bytes = g_window.size * 3 / 4;
  for (int card = 0; card < 3; ++card) {
    void* memory = nullptr;
    if (aclrtSetDevice(card) != 0 || aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST) != 0) {
      test::tell(aclGetRecentErrMsg());
      return 3;
    }
    if (aclrtFree(memory) != 0) return 4;
  }
  test::tell("ok");
  return 0;
}

TEST(Window, shrinks_under_an_address_space_limit_and_serves_all_cards) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space without limit";
#endif
  test::Child child("small_window", {"SOFTNPU_MEMORY=4G"});
  EXPECT_EQ(child.hear(), "ok");
  EXPECT_EQ(child.wait(), 0);
}

CHILD(strange_memory) {
  if (aclrtSetDevice(0) != 0) return 1;
  void* memory = allocate(0, 4096);
  return static_cast<unsigned char>(*kernel_address(memory)) == 0xff ? 0 : 2;
}

TEST(HostileMemory, is_filled_with_a_pattern) {
  EXPECT_EQ(test::Child("strange_memory", {"SOFTNPU_HOSTILE=1"}).wait(), 0);
}

// A kernel that writes behind its tensor, in a block of a whole number of pages and in one that leaves some of its
// last.
CHILD(stray_writes) {
  if (aclrtSetDevice(0) != 0) return 1;
  for (const size_t bytes : {size_t{2} << 20, size_t{100}}) {
    void* memory = allocate(0, bytes);
    const size_t usable = (bytes + 31) / 32 * 32;
    if (aclrtSynchronizeDevice() != 0) return 2;
    kernel_address(memory)[usable + 3] = 1;
    test::tell(aclrtSynchronizeDevice() != 0 ? aclGetRecentErrMsg() : "not found");
    if (aclrtSynchronizeDevice() != 0) return 3;  // said once
    kernel_address(memory)[usable] = 1;
    test::tell(aclrtFree(memory) != 0 ? aclGetRecentErrMsg() : "not found");
    if (aclrtFree(memory) != 0) return 4;
  }
  return 0;
}

TEST(StrictMemory, writes_behind_an_allocation_are_found) {
  test::Child child("stray_writes", {"SOFTNPU_STRICT=calls"});
  for (const char* function : {"aclrtSynchronizeDevice", "aclrtFree", "aclrtSynchronizeDevice", "aclrtFree"}) {
    const std::string text = child.hear();
    EXPECT_NE(text.find(function), std::string::npos) << text;
    EXPECT_NE(text.find("devPtr"), std::string::npos) << text;
    EXPECT_NE(text.find(function == std::string("aclrtFree") ? "up to 1 bytes" : "up to 4 bytes"), std::string::npos)
        << text;
  }
  EXPECT_EQ(child.wait(), 0);
}
