// Reserved addresses, physical memory, mappings; memory under a key.
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "library.h"

using test::OnDevice;

class VirtualMemory : public OnDevice {
 protected:
  static constexpr size_t kUnit = 2 << 20;
  aclrtDrvMemHandle physical(size_t bytes = kUnit) {
    aclrtPhysicalMemProp property = {};
    property.memAttr = ACL_HBM_MEM_HUGE;
    property.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtDrvMemHandle handle = nullptr;
    EXPECT_OK(ACL(aclrtMallocPhysical)(&handle, bytes, &property, 0));
    return handle;
  }
  char* reserve(size_t bytes) {
    void* address = nullptr;
    EXPECT_OK(ACL(aclrtReserveMemAddress)(&address, bytes, 0, nullptr, 1));
    return static_cast<char*>(address);
  }
};

TEST_F(VirtualMemory, a_thread_without_a_device_reserves_and_releases) {
  std::thread([&] {
    char* base = reserve(kUnit);
    ASSERT_NE(base, nullptr);
    EXPECT_OK(ACL(aclrtReleaseMemAddress)(base));
  }).join();
}

TEST_F(VirtualMemory, neighbouring_mappings_are_one_range) {
  char* base = reserve(1 << 30);
  aclrtDrvMemHandle first = physical(), second = physical();
  ASSERT_OK(ACL(aclrtMapMem)(base, kUnit, 0, first, 0));
  EXPECT_EQ(ACL(aclrtMemset)(base, 2 * kUnit, 1, 2 * kUnit), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtMapMem)(base + kUnit, kUnit, 0, second, 0));
  ASSERT_OK(ACL(aclrtMemset)(base, 2 * kUnit, 1, 2 * kUnit));
  std::vector<char> host(2 * kUnit);
  ASSERT_OK(ACL(aclrtMemcpy)(host.data(), host.size(), base, host.size(), ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(host, std::vector<char>(2 * kUnit, 1));
  ASSERT_OK(ACL(aclrtUnmapMem)(base));
  EXPECT_EQ(ACL(aclrtMemset)(base, kUnit, 1, kUnit), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_OK(ACL(aclrtMemset)(base + kUnit, kUnit, 2, kUnit));
  EXPECT_EQ(ACL(aclrtReleaseMemAddress)(base), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtUnmapMem)(base + kUnit));
  ASSERT_OK(ACL(aclrtReleaseMemAddress)(base));
  ASSERT_OK(ACL(aclrtFreePhysical)(first));
  ASSERT_OK(ACL(aclrtFreePhysical)(second));
}

TEST_F(VirtualMemory, moves_to_another_address_with_its_contents) {
  char* base = reserve(8 * kUnit);
  aclrtDrvMemHandle handle = physical();
  ASSERT_OK(ACL(aclrtMapMem)(base, kUnit, 0, handle, 0));
  ASSERT_OK(ACL(aclrtMemset)(base, kUnit, 77, kUnit));
  ASSERT_OK(ACL(aclrtUnmapMem)(base));
  ASSERT_OK(ACL(aclrtMapMem)(base + 3 * kUnit, kUnit, 0, handle, 0));
  unsigned char byte = 0;
  ASSERT_OK(ACL(aclrtMemcpy)(&byte, 1, base + 3 * kUnit + 5, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 77);
  ASSERT_OK(ACL(aclrtUnmapMem)(base + 3 * kUnit));
  ASSERT_OK(ACL(aclrtFreePhysical)(handle));
  ASSERT_OK(ACL(aclrtReleaseMemAddress)(base));
}

TEST_F(VirtualMemory, physical_memory_counts_and_addresses_do_not) {
  size_t before = 0, reserved = 0, taken = 0, after = 0, total = 0;
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &before, &total));
  char* base = reserve(total + total / 8);
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &reserved, &total));
  EXPECT_EQ(before, reserved);
  aclrtDrvMemHandle handle = physical(16 * kUnit);
  ASSERT_OK(ACL(aclrtMapMem)(base, 16 * kUnit, 0, handle, 0));
  ASSERT_OK(ACL(aclrtFreePhysical)(handle));  // still mapped: lives on
  ASSERT_OK(ACL(aclrtMemset)(base, kUnit, 1, kUnit));
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &taken, &total));
  EXPECT_LE(taken + 16 * kUnit, before);
  ASSERT_OK(ACL(aclrtUnmapMem)(base));
  ASSERT_OK(ACL(aclrtGetMemInfo)(ACL_HBM_MEM, &after, &total));
  EXPECT_EQ(before, after);
  ASSERT_OK(ACL(aclrtReleaseMemAddress)(base));
}

TEST_F(VirtualMemory, wrong_mappings_are_errors) {
  char* base = reserve(4 * kUnit);
  aclrtDrvMemHandle handle = physical();
  EXPECT_EQ(ACL(aclrtMapMem)(base + 1, kUnit, 0, handle, 0), ACL_ERROR_RT_ADDR_UNALIGNED);
  EXPECT_EQ(ACL(aclrtMapMem)(base, 2 * kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtMapMem)(base + 4 * kUnit, kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtMapMem)(base, kUnit, 0, handle, 0));
  EXPECT_EQ(ACL(aclrtMapMem)(base, kUnit, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtUnmapMem)(base + kUnit), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtFree)(base), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtUnmapMem)(base));
  ASSERT_OK(ACL(aclrtFreePhysical)(handle));
  EXPECT_EQ(ACL(aclrtMapMem)(base, kUnit, 0, handle, 0), ACL_ERROR_RT_INVALID_HANDLE);
  ASSERT_OK(ACL(aclrtReleaseMemAddress)(base));
  EXPECT_EQ(ACL(aclrtReleaseMemAddress)(base), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(VirtualMemory, shareable_handle_shows_the_same_memory) {
  char* base = reserve(4 * kUnit);
  aclrtDrvMemHandle handle = physical(), twin = nullptr;
  uint64_t shareable = 0;
  ASSERT_OK(ACL(aclrtMemExportToShareableHandle)(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable));
  ASSERT_OK(ACL(aclrtMemImportFromShareableHandle)(shareable, 0, &twin));
  ASSERT_OK(ACL(aclrtMapMem)(base, kUnit, 0, handle, 0));
  ASSERT_OK(ACL(aclrtMapMem)(base + kUnit, kUnit, 0, twin, 0));
  ASSERT_OK(ACL(aclrtMemset)(base, kUnit, 33, kUnit));
  char byte = 0;
  ASSERT_OK(ACL(aclrtMemcpy)(&byte, 1, base + kUnit, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 33);
  ASSERT_OK(ACL(aclrtUnmapMem)(base));
  ASSERT_OK(ACL(aclrtUnmapMem)(base + kUnit));
  ASSERT_OK(ACL(aclrtFreePhysical)(handle));
  ASSERT_OK(ACL(aclrtFreePhysical)(twin));
  ASSERT_OK(ACL(aclrtReleaseMemAddress)(base));
  EXPECT_EQ(ACL(aclrtMemImportFromShareableHandle)(shareable + 1, 0, &twin), ACL_ERROR_RT_IPC_ERROR);
}

TEST_F(VirtualMemory, memory_under_a_key_is_the_same_memory) {
  char* memory = static_cast<char*>(make_memory(2 * kUnit));
  char key[ACL_IPC_HANDLE_SIZE] = {};
  ASSERT_OK(ACL(aclrtIpcMemGetExportKey)(memory, 2 * kUnit, key, sizeof key, 0));
  void* twin = nullptr;
  ASSERT_OK(ACL(aclrtIpcMemImportByKey)(&twin, key, 0));
  EXPECT_NE(twin, memory);
  ASSERT_OK(ACL(aclrtMemset)(memory + kUnit, kUnit, 21, kUnit));
  char byte = 0;
  ASSERT_OK(ACL(aclrtMemcpy)(&byte, 1, static_cast<char*>(twin) + kUnit, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(byte, 21);
  ASSERT_OK(ACL(aclrtIpcMemClose)(key));
  EXPECT_EQ(ACL(aclrtMemset)(twin, 8, 0, 8), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtIpcMemClose)(key));  // the exporter's end
  EXPECT_NE(ACL(aclrtIpcMemImportByKey)(&twin, key, 0), 0);
  EXPECT_EQ(ACL(aclrtIpcMemImportByKey)(&twin, "nonsense", 0), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtFree)(memory));
}

TEST_F(VirtualMemory, more_than_the_card_has_is_refused) {
  aclrtPhysicalMemProp property = {};
  property.memAttr = ACL_HBM_MEM_HUGE;
  property.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
  for (size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, size_t{1} << 63, size_t{1} << 47}) {
    aclrtDrvMemHandle handle = nullptr;
    EXPECT_NE(ACL(aclrtMallocPhysical)(&handle, bytes, &property, 0), 0) << bytes;
    void* address = nullptr;
    EXPECT_NE(ACL(aclrtReserveMemAddress)(&address, bytes, 0, nullptr, 1), 0) << bytes;
    EXPECT_NE(ACL(aclrtReserveMemAddress)(&address, kUnit, size_t{1} << 63, nullptr, 1), 0);
  }
}

TEST_F(VirtualMemory, of_two_frees_one_succeeds) {
  for (int round = 0; round < 200; ++round) {
    aclrtDrvMemHandle handle = physical();
    std::atomic<int> freed{0};
    const auto race = [&] {
      if (ACL(aclrtFreePhysical)(handle) == 0) ++freed;
    };
    std::thread other(race);
    race();
    other.join();
    ASSERT_EQ(freed, 1);
  }
}
