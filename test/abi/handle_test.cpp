// Every function that takes a stream or an event, with handles that are null, stale, foreign or garbage: a code, no
// crash.
#include <functional>
#include <utility>
#include <vector>

#include "library.h"

namespace {

using Call = std::pair<const char*, std::function<int(void*)>>;

int64_t g_memory[64];
uint32_t g_number;
int32_t g_signed;
uint64_t g_time;
float g_milliseconds;
aclrtStreamStatus g_stream_status;
aclrtStreamAttrValue g_attribute;
aclrtEventRecordedStatus g_event_status;
aclrtEventWaitStatus g_wait_status;
aclmdlRICaptureStatus g_capture;
aclmdlRI g_model;
void nothing(void*) {}

const std::vector<Call> kStreamCalls = {
    {"aclrtDestroyStream", [](void* h) { return ACL(aclrtDestroyStream)(h); }},
    {"aclrtDestroyStreamForce", [](void* h) { return ACL(aclrtDestroyStreamForce)(h); }},
    {"aclrtSynchronizeStream", [](void* h) { return ACL(aclrtSynchronizeStream)(h); }},
    {"aclrtSynchronizeStreamWithTimeout", [](void* h) { return ACL(aclrtSynchronizeStreamWithTimeout)(h, 1); }},
    {"aclrtStreamQuery", [](void* h) { return ACL(aclrtStreamQuery)(h, &g_stream_status); }},
    {"aclrtStreamGetId", [](void* h) { return ACL(aclrtStreamGetId)(h, &g_signed); }},
    {"aclrtSetStreamFailureMode", [](void* h) { return ACL(aclrtSetStreamFailureMode)(h, 0); }},
    {"aclrtSetStreamAttribute",
     [](void* h) { return ACL(aclrtSetStreamAttribute)(h, ACL_STREAM_ATTR_FAILURE_MODE, &g_attribute); }},
    {"aclrtSetStreamOverflowSwitch", [](void* h) { return ACL(aclrtSetStreamOverflowSwitch)(h, 0); }},
    {"aclrtGetStreamOverflowSwitch", [](void* h) { return ACL(aclrtGetStreamOverflowSwitch)(h, &g_number); }},
    {"aclrtGetStreamResLimit",
     [](void* h) { return ACL(aclrtGetStreamResLimit)(h, ACL_RT_DEV_RES_CUBE_CORE, &g_number); }},
    {"aclrtSetStreamResLimit", [](void* h) { return ACL(aclrtSetStreamResLimit)(h, ACL_RT_DEV_RES_CUBE_CORE, 1); }},
    {"aclrtResetStreamResLimit", [](void* h) { return ACL(aclrtResetStreamResLimit)(h); }},
    {"aclrtUseStreamResInCurrentThread", [](void* h) { return ACL(aclrtUseStreamResInCurrentThread)(h); }},
    {"aclrtUnuseStreamResInCurrentThread", [](void* h) { return ACL(aclrtUnuseStreamResInCurrentThread)(h); }},
    {"aclrtLaunchHostFunc", [](void* h) { return ACL(aclrtLaunchHostFunc)(h, nothing, nullptr); }},
    {"aclrtLaunchCallback",
     [](void* h) { return ACL(aclrtLaunchCallback)(nothing, nullptr, ACL_CALLBACK_NO_BLOCK, h); }},
    {"aclrtSubscribeReport", [](void* h) { return ACL(aclrtSubscribeReport)(1, h); }},
    {"aclrtUnSubscribeReport", [](void* h) { return ACL(aclrtUnSubscribeReport)(1, h); }},
    {"aclrtMemsetAsync", [](void* h) { return ACL(aclrtMemsetAsync)(g_memory, 8, 0, 8, h); }},
    {"aclrtMemcpyAsync",
     [](void* h) { return ACL(aclrtMemcpyAsync)(g_memory, 8, g_memory + 8, 8, ACL_MEMCPY_DEFAULT, h); }},
    {"aclrtCmoAsync", [](void* h) { return ACL(aclrtCmoAsync)(g_memory, 8, ACL_RT_CMO_TYPE_PREFETCH, h); }},
    {"aclrtValueWrite", [](void* h) { return ACL(aclrtValueWrite)(g_memory, 8, 0, h); }},
    {"aclrtValueWait", [](void* h) { return ACL(aclrtValueWait)(g_memory, 8, 0, h); }},
    {"aclmdlRICaptureGetInfo", [](void* h) { return ACL(aclmdlRICaptureGetInfo)(h, &g_capture, &g_model); }},
};

const std::vector<Call> kEventCalls = {
    {"aclrtDestroyEvent", [](void* h) { return ACL(aclrtDestroyEvent)(h); }},
    {"aclrtRecordEvent", [](void* h) { return ACL(aclrtRecordEvent)(h, nullptr); }},
    {"aclrtResetEvent", [](void* h) { return ACL(aclrtResetEvent)(h, nullptr); }},
    {"aclrtStreamWaitEvent", [](void* h) { return ACL(aclrtStreamWaitEvent)(nullptr, h); }},
    {"aclrtSynchronizeEvent", [](void* h) { return ACL(aclrtSynchronizeEvent)(h); }},
    {"aclrtQueryEventStatus", [](void* h) { return ACL(aclrtQueryEventStatus)(h, &g_event_status); }},
    {"aclrtQueryEventWaitStatus", [](void* h) { return ACL(aclrtQueryEventWaitStatus)(h, &g_wait_status); }},
    {"aclrtEventElapsedTime", [](void* h) { return ACL(aclrtEventElapsedTime)(&g_milliseconds, h, h); }},
    {"aclrtEventGetTimestamp", [](void* h) { return ACL(aclrtEventGetTimestamp)(h, &g_time); }},
};

}  // namespace

class Handle : public test::OnDevice {
 protected:
  // Addresses that look like handles and are none.
  std::vector<void*> foreign(void* of_another_kind) {
    return {of_another_kind,
            g_memory,
            reinterpret_cast<void*>(8),
            reinterpret_cast<void*>(0x7fffffffffff0000),
            reinterpret_cast<void*>(~uintptr_t{0}),
            static_cast<char*>(of_another_kind) + 1,
            static_cast<char*>(of_another_kind) + 8};
  }
};

TEST_F(Handle, foreign_streams_are_refused) {
  aclrtEvent event = make_event();
  for (const auto& [name, call] : kStreamCalls)
    for (void* handle : foreign(event)) EXPECT_EQ(call(handle), ACL_ERROR_RT_INVALID_HANDLE) << name << " " << handle;
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
}

TEST_F(Handle, stale_streams_are_refused) {
  aclrtStream stream = make_stream();
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
  for (const auto& [name, call] : kStreamCalls) EXPECT_EQ(call(stream), ACL_ERROR_RT_INVALID_HANDLE) << name;
}

TEST_F(Handle, null_cannot_be_destroyed) {
  EXPECT_EQ(ACL(aclrtDestroyStream)(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(ACL(aclrtDestroyStreamForce)(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(ACL(aclrtSetStreamFailureMode)(nullptr, 0), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Handle, foreign_events_are_refused) {
  aclrtStream stream = make_stream();
  for (const auto& [name, call] : kEventCalls) {
    for (void* handle : foreign(stream)) EXPECT_EQ(call(handle), ACL_ERROR_RT_INVALID_HANDLE) << name << " " << handle;
    EXPECT_EQ(call(nullptr), ACL_ERROR_INVALID_PARAM) << name;
  }
  ASSERT_OK(ACL(aclrtDestroyStream)(stream));
}

TEST_F(Handle, stale_events_are_refused) {
  aclrtEvent event = make_event();
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
  for (const auto& [name, call] : kEventCalls) EXPECT_EQ(call(event), ACL_ERROR_RT_INVALID_HANDLE) << name;
}

TEST_F(Handle, streams_of_events_are_checked_too) {
  aclrtEvent event = make_event();
  for (void* handle : foreign(event)) {
    EXPECT_EQ(ACL(aclrtRecordEvent)(event, handle), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(ACL(aclrtResetEvent)(event, handle), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(ACL(aclrtStreamWaitEvent)(handle, event), ACL_ERROR_RT_INVALID_HANDLE);
  }
  ASSERT_OK(ACL(aclrtDestroyEvent)(event));
}

TEST_F(Handle, physical_memory_handles_are_checked) {
  uint64_t shareable = 0;
  for (void* handle : foreign(g_memory)) {
    EXPECT_EQ(ACL(aclrtFreePhysical)(handle), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(ACL(aclrtMapMem)(g_memory, 4096, 0, handle, 0), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(ACL(aclrtMemExportToShareableHandle)(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable),
              ACL_ERROR_RT_INVALID_HANDLE);
  }
  EXPECT_EQ(ACL(aclrtFreePhysical)(nullptr), ACL_ERROR_INVALID_PARAM);
}
