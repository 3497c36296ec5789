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
