// Devices and contexts, per thread.
#include <cstring>

#include "library.h"

using test::OnDevice;
class Device : public OnDevice {};

TEST_F(Device, a_new_thread_has_none) {
  std::thread([] {
    int32_t device = -1;
    EXPECT_EQ(ACL(aclrtGetDevice)(&device), ACL_ERROR_RT_CONTEXT_NULL);
    aclrtContext context = nullptr;
    EXPECT_EQ(ACL(aclrtGetCurrentContext)(&context), ACL_ERROR_RT_CONTEXT_NULL);
    aclrtStream stream = nullptr;
    EXPECT_EQ(ACL(aclrtCreateStream)(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    void* memory = nullptr;
    EXPECT_EQ(ACL(aclrtMalloc)(&memory, 1024, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(ACL(aclrtSynchronizeStream)(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(ACL(aclrtSynchronizeDevice)(), ACL_ERROR_RT_CONTEXT_NULL);
  }).join();
}

TEST_F(Device, set_is_what_get_gives) {
  const int32_t last = static_cast<int32_t>(test::device_count()) - 1;
  ASSERT_OK(ACL(aclrtSetDevice)(last));
  int32_t device = -1;
  ASSERT_OK(ACL(aclrtGetDevice)(&device));
  EXPECT_EQ(device, last);
}

TEST_F(Device, unknown_index_is_an_error_and_changes_nothing) {
  for (int32_t wrong : {-1, static_cast<int32_t>(test::device_count()), INT32_MAX}) {
    EXPECT_EQ(ACL(aclrtSetDevice)(wrong), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_NE(test::message().find(std::to_string(wrong)), std::string::npos);
  }
  int32_t device = -1;
  ASSERT_OK(ACL(aclrtGetDevice)(&device));
  EXPECT_EQ(device, 0);
}

TEST_F(Device, context_carries_the_device_to_another_thread) {
  aclrtContext context = nullptr;
  ASSERT_OK(ACL(aclrtGetCurrentContext)(&context));
  std::thread([context] {
    ASSERT_OK(ACL(aclrtSetCurrentContext)(context));
    int32_t device = -1;
    ASSERT_OK(ACL(aclrtGetDevice)(&device));
    EXPECT_EQ(device, 0);
  }).join();
}

TEST_F(Device, foreign_context_is_refused) {
  int something = 0;
  EXPECT_EQ(ACL(aclrtSetCurrentContext)(&something), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(ACL(aclrtSetCurrentContext)(reinterpret_cast<void*>(0x10)), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(ACL(aclrtSetCurrentContext)(nullptr), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Device, reset_takes_streams_and_memory_along) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  ASSERT_OK(ACL(aclrtSetDevice)(1));
  aclrtStream stream = make_stream();
  void* memory = make_memory(4096);
  ASSERT_OK(ACL(aclrtResetDevice)(1));
  int32_t device = -1, active = -1;
  EXPECT_EQ(ACL(aclrtGetDevice)(&device), ACL_ERROR_RT_CONTEXT_NULL);
  ASSERT_OK(ACL(aclrtGetPrimaryCtxState)(1, nullptr, &active));
  EXPECT_EQ(active, 0);
  ASSERT_OK(ACL(aclrtSetDevice)(1));
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream), ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_EQ(ACL(aclrtFree)(memory), ACL_ERROR_RT_PARAM_INVALID);
  ASSERT_OK(ACL(aclrtFree)(make_memory(4096)));
}

TEST_F(Device, has_a_uuid_of_its_own) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  aclrtUuid first, again, second;
  ASSERT_OK(ACL(aclrtDeviceGetUuid)(0, &first));
  ASSERT_OK(ACL(aclrtDeviceGetUuid)(0, &again));
  ASSERT_OK(ACL(aclrtDeviceGetUuid)(1, &second));
  EXPECT_EQ(memcmp(&first, &again, sizeof first), 0);
  EXPECT_NE(memcmp(&first, &second, sizeof first), 0);
}

TEST_F(Device, peers_are_the_others) {
  if (test::device_count() < 2) GTEST_SKIP() << "needs two devices";
  int32_t can = -1;
  ASSERT_OK(ACL(aclrtDeviceCanAccessPeer)(&can, 0, 1));
  EXPECT_EQ(can, 1);
  ASSERT_OK(ACL(aclrtDeviceCanAccessPeer)(&can, 0, 0));
  EXPECT_EQ(can, 0);
  EXPECT_OK(ACL(aclrtDeviceEnablePeerAccess)(1, 0));
  EXPECT_EQ(ACL(aclrtDeviceEnablePeerAccess)(0, 0), ACL_ERROR_RT_INVALID_DEVICEID);
}
