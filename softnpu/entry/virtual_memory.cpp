// The virtual-memory interface and memory shared with other processes.
#include <cstring>
#include <string>

#include "entry.h"
#include "runtime/context.h"
#include "runtime/physical.h"
#include "runtime/share.h"

using namespace softnpu;

aclError aclrtReserveMemAddress(void** address, size_t size, size_t alignment, void* expected, uint64_t flags) {
  return guard("aclrtReserveMemAddress", [&] {
    required(address, "virPtr");
    if (expected) fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "expectPtr %p: softnpu chooses addresses itself", expected);
    if (flags > 1) fail(ACL_ERROR_RT_PARAM_INVALID, "flags %llu has unknown bits", (unsigned long long)flags);
    *address = reserve_address(size, alignment);
  });
}

aclError aclrtReleaseMemAddress(void* address) {
  return guard_release("aclrtReleaseMemAddress", [&] { release_address(required(address, "virPtr")); });
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* property,
                             uint64_t flags) {
  return guard("aclrtMallocPhysical", [&] {
    required(handle, "handle"), required(property, "prop");
    if (property->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "physical memory exists on devices only");
    if (flags != 0) fail(ACL_ERROR_RT_PARAM_INVALID, "flags is %llu, expected 0", (unsigned long long)flags);
    const int card = card_of_device(property->location.id);
    if (!is_open(card)) fail(ACL_ERROR_RT_CONTEXT_NULL, "device %u is not in use", property->location.id);
    *handle = allocate_physical(card, size);
  });
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return guard_release("aclrtFreePhysical", [&] { free_physical(handle); });
}

aclError aclrtMapMem(void* address, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  return guard("aclrtMapMem", [&] {
    if (flags != 0) fail(ACL_ERROR_RT_PARAM_INVALID, "flags is %llu, expected 0", (unsigned long long)flags);
    map_physical(required(address, "virPtr"), size, offset, handle);
  });
}

aclError aclrtUnmapMem(void* address) {
  return guard_release("aclrtUnmapMem", [&] { unmap_physical(required(address, "virPtr")); });
}

aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType type, uint64_t flags,
                                         uint64_t* shareable) {
  return guard("aclrtMemExportToShareableHandle", [&] {
    required(shareable, "shareableHandle");
    if (type != ACL_MEM_HANDLE_TYPE_NONE)
      fail(ACL_ERROR_RT_PARAM_INVALID, "handleType %d is unknown", static_cast<int>(type));
    *shareable = export_physical(handle, flags & ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
  });
}

aclError aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device, aclrtDrvMemHandle* handle) {
  return guard("aclrtMemImportFromShareableHandle",
               [&] { *required(handle, "handle") = import_physical(shareable, card_of_device(device)); });
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareable, int32_t* pids, size_t count) {
  return guard("aclrtMemSetPidToShareableHandle", [&] { allow(shareable, required(pids, "pid"), count); });
}

aclError aclrtIpcMemGetExportKey(void* address, size_t size, char* key, size_t length, uint64_t flags) {
  return guard("aclrtIpcMemGetExportKey", [&] {
    required(address, "devPtr"), required(key, "key");
    if (length < ACL_IPC_HANDLE_SIZE)
      fail(ACL_ERROR_RT_PARAM_INVALID, "len %zu is less than %d, the length of a key", length, ACL_IPC_HANDLE_SIZE);
    const std::string text = export_memory(address, size, flags & ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION);
    memset(key, 0, length);
    memcpy(key, text.data(), text.size());
  });
}

aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pids, size_t count) {
  return guard("aclrtIpcMemSetImportPid",
               [&] { allow(share_of_key(required(key, "key")), required(pids, "pid"), count); });
}

aclError aclrtIpcMemImportByKey(void** address, const char* key, uint64_t) {
  return guard("aclrtIpcMemImportByKey", [&] { *required(address, "devPtr") = import_memory(required(key, "key")); });
}

aclError aclrtIpcMemClose(const char* key) {
  return guard_release("aclrtIpcMemClose", [&] { close_memory(required(key, "key")); });
}
