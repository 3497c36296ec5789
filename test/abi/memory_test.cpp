// Device memory: allocation, capacity, information.
#include <vector>

#include "library.h"

using test::OnDevice;
class Memory : public OnDevice {};

TEST_F(Memory, every_policy_gives_aligned_memory_that_keeps_its_bytes) {
  for (int policy : std::initializer_list<int>{ACL_MEM_MALLOC_HUGE_FIRST, ACL_MEM_MALLOC_HUGE_ONLY,
                                               ACL_MEM_MALLOC_NORMAL_ONLY, ACL_MEM_MALLOC_HUGE_FIRST_P2P,
                                               ACL_MEM_MALLOC_HUGE_ONLY_P2P, ACL_MEM_MALLOC_NORMAL_ONLY_P2P,
                                               ACL_MEM_MALLOC_HUGE_FIRST | ACL_MEM_TYPE_HIGH_BAND_WIDTH}) {
    for (auto* allocate : {ACL(aclrtMalloc), ACL(aclrtMallocAlign32)}) {
      void* address = nullptr;
      ASSERT_OK(allocate(&address, 1000, static_cast<aclrtMemMallocPolicy>(policy)));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % 32, 0u);
      std::vector<char> in(1000, 42), out(1000);
      ASSERT_OK(ACL(aclrtMemcpy)(address, 1000, in.data(), 1000, ACL_MEMCPY_HOST_TO_DEVICE));
      ASSERT_OK(ACL(aclrtMemcpy)(out.data(), 1000, address, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
      EXPECT_EQ(in, out);
      ASSERT_OK(ACL(aclrtFree)(address));
    }
  }
}

TEST_F(Memory, wrong_arguments_are_named) {
  void* address = nullptr;
  EXPECT_EQ(ACL(aclrtMalloc)(&address, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_NE(test::message().find("size"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMalloc)(nullptr, 16, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
  EXPECT_NE(test::message().find("devPtr"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMalloc)(&address, 16, static_cast<aclrtMemMallocPolicy>(77)), ACL_ERROR_RT_INVALID_MALLOC_TYPE);
}

TEST_F(Memory, freeing_what_is_not_an_allocation_is_an_error) {
  char host = 0;
  char* address = static_cast<char*>(make_memory(4096));
  EXPECT_EQ(ACL(aclrtFree)(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(ACL(aclrtFree)(&host), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtFree)(address + 32), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtFree)(address));
  EXPECT_EQ(ACL(aclrtFree)(address), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(Memory, out_of_memory_has_its_own_code_and_the_numbers) {
  size_t free = 0, total = 0;
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &free, &total));
  void* address = nullptr;
  EXPECT_EQ(ACL(aclrtMalloc)(&address, total + 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_NE(test::message().find("MiB"), std::string::npos);
  EXPECT_EQ(ACL(aclrtMalloc)(&address, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_MEMORY_ALLOCATION);
  ASSERT_OK(ACL(aclrtFree)(make_memory(1 << 20)));
}

TEST_F(Memory, information_follows_allocation) {
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &before, &total));
  void* address = make_memory(64 << 20);
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &during, &total));
  ASSERT_OK(ACL(aclrtFree)(address));
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &after, &total));
  EXPECT_LE(during + (64 << 20), before);
  EXPECT_EQ(before, after);
  EXPECT_LE(before, total);
  aclrtMemUsageInfo usage;
  size_t count = 0;
  ASSERT_OK(ACL(aclrtGetMemUsageInfo)(0, &usage, 1, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_GE(usage.memPeakSize, uint64_t{64} << 20);
}

TEST_F(Memory, attributes_tell_device_pinned_and_other_memory_apart) {
  const uint32_t last = test::device_count() - 1;
  ASSERT_OK(ACL(aclrtSetDevice)(static_cast<int32_t>(last)));
  char* device = static_cast<char*>(make_memory(4096));
  void* pinned = nullptr;
  ASSERT_OK(ACL(aclrtMallocHost)(&pinned, 100));
  aclrtPtrAttributes attributes;
  ASSERT_OK(ACL(aclrtPointerGetAttributes)(device + 100, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(attributes.location.id, last);
  ASSERT_OK(ACL(aclrtPointerGetAttributes)(pinned, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  ASSERT_OK(ACL(aclrtPointerGetAttributes)(&attributes, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  ASSERT_OK(ACL(aclrtFree)(device));
  ASSERT_OK(ACL(aclrtFreeHost)(pinned));
}
