// Pinned host memory.
#include <cstring>
#include <vector>

#include "library.h"

using test::OnDevice;
class HostMemory : public OnDevice {};

TEST_F(HostMemory, is_readable_by_the_host) {
  void* memory = nullptr;
  ASSERT_OK(ACL(aclrtMallocHost)(&memory, 5 << 20));
  memset(memory, 1, 5 << 20);
  ASSERT_OK(ACL(aclrtFreeHost)(memory));
  ASSERT_OK(ACL(aclrtMallocHostWithCfg)(&memory, 100, nullptr));
  ASSERT_OK(ACL(aclrtFreeHost)(memory));
}

TEST_F(HostMemory, wrong_frees_are_errors) {
  char other = 0;
  void* memory = nullptr;
  EXPECT_EQ(ACL(aclrtMallocHost)(&memory, 0), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtFreeHost)(&other), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtFreeHost)(nullptr), ACL_ERROR_INVALID_PARAM);
  ASSERT_OK(ACL(aclrtMallocHost)(&memory, 16));
  ASSERT_OK(ACL(aclrtFreeHost)(memory));
  EXPECT_EQ(ACL(aclrtFreeHost)(memory), ACL_ERROR_RT_PARAM_INVALID);
}

TEST_F(HostMemory, registered_memory_counts_as_pinned) {
  std::vector<char> memory(10000);
  aclrtPtrAttributes attributes;
  ASSERT_OK(ACL(aclrtHostRegisterV2)(memory.data(), memory.size(), ACL_HOST_REG_PINNED));
  ASSERT_OK(ACL(aclrtPointerGetAttributes)(memory.data() + 9999, &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  EXPECT_EQ(ACL(aclrtHostRegisterV2)(memory.data() + 10, 10, ACL_HOST_REG_PINNED), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtHostUnregister)(memory.data()));
  EXPECT_EQ(ACL(aclrtHostUnregister)(memory.data()), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtPointerGetAttributes)(memory.data(), &attributes));
  EXPECT_EQ(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
  void* device = nullptr;
  ASSERT_OK(ACL(aclrtHostRegister)(memory.data(), memory.size(), ACL_HOST_REGISTER_MAPPED, &device));
  ASSERT_OK(ACL(aclrtHostUnregister)(memory.data()));
}

TEST_F(HostMemory, registered_pages_have_a_device_address) {
  constexpr size_t kBytes = 3 * 4096;
  void* memory = nullptr;
  void* device = nullptr;
  ASSERT_OK(ACL(aclrtMallocHost)(&memory, kBytes));
  memset(memory, 7, kBytes);
  ASSERT_OK(ACL(aclrtHostRegister)(memory, kBytes, ACL_HOST_REGISTER_MAPPED, &device));
  EXPECT_NE(device, memory);
  void* again = nullptr;
  EXPECT_EQ(ACL(aclrtHostRegister)(memory, kBytes, ACL_HOST_REGISTER_MAPPED, &again), ACL_ERROR_RT_PARAM_INVALID);
  std::vector<char> seen(kBytes);
  ASSERT_OK(ACL(aclrtMemcpy)(seen.data(), kBytes, device, kBytes, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(seen, std::vector<char>(kBytes, 7));
  ASSERT_OK(ACL(aclrtMemset)(device, kBytes, 9, kBytes));
  EXPECT_EQ(static_cast<char*>(memory)[kBytes - 1], 9);  // one memory
  ASSERT_OK(ACL(aclrtHostUnregister)(memory));
  EXPECT_EQ(static_cast<char*>(memory)[0], 9);  // which the host keeps
  EXPECT_NE(ACL(aclrtMemset)(device, kBytes, 1, kBytes), 0);
  EXPECT_EQ(ACL(aclrtHostUnregister)(memory), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtHostRegister)(memory, kBytes, ACL_HOST_REGISTER_MAPPED, &device));
  ASSERT_OK(ACL(aclrtFreeHost)(memory));  // ends the mapping as well
  EXPECT_NE(ACL(aclrtMemset)(device, kBytes, 1, kBytes), 0);
}
