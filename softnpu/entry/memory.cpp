// Device and host memory: allocation, copies, fills, information.
#include "runtime/memory.h"

#include <cstdio>
#include <cstring>

#include "entry.h"
#include "runtime/capacity.h"
#include "runtime/context.h"
#include "runtime/copy.h"
#include "runtime/host_memory.h"
#include "runtime/mapped_host.h"
#include "runtime/trace.h"

using namespace softnpu;

namespace {

void check_policy(aclrtMemMallocPolicy policy) {
  const int flags = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY;
  const int kind = static_cast<int>(policy) & ~flags;
  if (kind < ACL_MEM_MALLOC_HUGE_FIRST || kind > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P)
    fail(ACL_ERROR_RT_INVALID_MALLOC_TYPE, "policy %d is unknown", static_cast<int>(policy));
}

aclError allocate_device(const char* entry, void** address, size_t size, aclrtMemMallocPolicy policy) {
  return guard(entry, [&] {
    required(address, "devPtr");
    note("size", size), note("policy", policy);
    const int card = current_context().card;
    check_policy(policy);
    if (size == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "size is 0");
    *address = allocate(card, size);
    ++g_counters.allocations;
  });
}

// One attribute set per range of batch entries; softnpu finds out by address where memory is.
template <class Copy>
aclError copy_batch(const char* entry, void** dsts, size_t* dst_max, void** srcs, size_t* sizes, size_t count,
                    size_t* fail_index, Copy&& one) {
  size_t at = SIZE_MAX;
  const aclError code = guard(entry, [&] {
    required(dsts, "dsts"), required(dst_max, "destMax"), required(srcs, "srcs"), required(sizes, "sizes");
    for (at = 0; at < count; ++at) one(CopyRequest{dsts[at], dst_max[at], srcs[at], sizes[at], ACL_MEMCPY_DEFAULT});
    at = SIZE_MAX;
  });
  if (fail_index) *fail_index = at;
  return code;
}

}  // namespace

aclError aclrtMalloc(void** address, size_t size, aclrtMemMallocPolicy policy) {
  return allocate_device("aclrtMalloc", address, size, policy);
}

aclError aclrtMallocAlign32(void** address, size_t size, aclrtMemMallocPolicy policy) {
  return allocate_device("aclrtMallocAlign32", address, size, policy);
}

aclError aclrtFree(void* address) {
  return guard_release("aclrtFree", [&] {
    deallocate(required(address, "devPtr"));
    ++g_counters.frees;
  });
}

aclError aclrtMallocHost(void** address, size_t size) {
  return guard("aclrtMallocHost", [&] { *required(address, "hostPtr") = allocate_host(size); });
}

aclError aclrtMallocHostWithCfg(void** address, uint64_t size, aclrtMallocConfig*) {
  return guard("aclrtMallocHostWithCfg", [&] { *required(address, "ptr") = allocate_host(size); });
}

aclError aclrtFreeHost(void* address) {
  return guard_release("aclrtFreeHost", [&] { free_host(required(address, "hostPtr")); });
}

// Whole pages of aclrtMallocHost get a device address, for kernels and copies. The address of other memory is its own:
// copies accept it, kernels do not.
aclError aclrtHostRegister(void* address, uint64_t size, aclrtHostRegisterType type, void** device_address) {
  return guard("aclrtHostRegister", [&] {
    required(device_address, "devPtr");
    if (type != ACL_HOST_REGISTER_MAPPED)
      fail(ACL_ERROR_RT_PARAM_INVALID, "type %d is unknown", static_cast<int>(type));
    if (is_mappable(required(address, "ptr"), size)) {
      *device_address = map_host(address, size, current_context().card);
      return;
    }
    register_host(address, size);
    *device_address = address;
  });
}

aclError aclrtHostRegisterV2(void* address, uint64_t size, uint32_t flag) {
  return guard("aclrtHostRegisterV2", [&] {
    if (flag & ~static_cast<uint32_t>(ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED))
      fail(ACL_ERROR_RT_PARAM_INVALID, "flag 0x%x has unknown bits", flag);
    register_host(required(address, "ptr"), size);
  });
}

aclError aclrtHostUnregister(void* address) {
  return guard_release("aclrtHostUnregister", [&] {
    if (!unmap_host(required(address, "ptr"))) unregister_host(address);
  });
}

aclError aclrtMemcpy(void* dst, size_t max, const void* src, size_t count, aclrtMemcpyKind kind) {
  return guard("aclrtMemcpy", [&] {
    note("count", count), note("kind", kind);
    copy({dst, max, src, count, kind});
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t max, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return guard("aclrtMemcpyAsync", [&] {
    note("count", count), note("kind", kind), note("stream", stream);
    copy_async({dst, max, src, count, kind}, stream);
  });
}

aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t max, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
  return guard("aclrtMemcpyAsyncWithCondition", [&] {
    note("count", count), note("kind", kind), note("stream", stream);
    copy_async({dst, max, src, count, kind}, stream);
  });
}

aclError aclrtMemcpyBatch(void** dsts, size_t* max, void** srcs, size_t* sizes, size_t count, aclrtMemcpyBatchAttr*,
                          size_t*, size_t, size_t* fail_index) {
  return copy_batch("aclrtMemcpyBatch", dsts, max, srcs, sizes, count, fail_index,
                    [](const CopyRequest& request) { copy(request); });
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* max, void** srcs, size_t* sizes, size_t count,
                               aclrtMemcpyBatchAttr*, size_t*, size_t, size_t* fail_index, aclrtStream stream) {
  return copy_batch("aclrtMemcpyBatchAsync", dsts, max, srcs, sizes, count, fail_index,
                    [&](const CopyRequest& request) { copy_async(request, stream); });
}

aclError aclrtMemset(void* address, size_t max, int32_t value, size_t count) {
  return guard("aclrtMemset", [&] {
    note("value", value), note("count", count);
    fill(address, max, value, count);
  });
}

aclError aclrtMemsetAsync(void* address, size_t max, int32_t value, size_t count, aclrtStream stream) {
  return guard("aclrtMemsetAsync", [&] {
    note("value", value), note("count", count), note("stream", stream);
    fill_async(address, max, value, count, stream);
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attribute, size_t* free, size_t* total) {
  return guard("aclrtGetMemInfo", [&] {
    required(free, "free"), required(total, "total");
    if (attribute < ACL_DDR_MEM || attribute > ACL_HBM_MEM_P2P_HUGE1G)
      fail(ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown", static_cast<int>(attribute));
    const CardMemory memory = card_memory(current_context().card);
    *free = memory.free;
    *total = memory.total;
  });
}

aclError aclrtGetMemUsageInfo(uint32_t device, aclrtMemUsageInfo* infos, size_t room, size_t* count) {
  return guard("aclrtGetMemUsageInfo", [&] {
    const int card = card_of_device(device);
    required(infos, "memUsageInfo"), required(count, "outputNum");
    if (room == 0) fail(ACL_ERROR_RT_PARAM_INVALID, "inputNum is 0");
    memset(infos, 0, sizeof *infos);
    snprintf(infos->name, sizeof infos->name, "softnpu");
    infos->curMemSize = card_memory(card).used_here;
    infos->memPeakSize = peak_use(card);
    *count = 1;
  });
}

aclError aclrtPointerGetAttributes(const void* address, aclrtPtrAttributes* attributes) {
  return guard("aclrtPointerGetAttributes", [&] {
    memset(required(attributes, "attributes"), 0, sizeof *attributes);
    Region region;
    if (find_region(address, &region)) {
      attributes->location = {static_cast<uint32_t>(device_of_card(region.card)), ACL_MEM_LOCATION_TYPE_DEVICE};
      attributes->pageSize = 4096;
    } else if (is_pinned(address, 1)) {
      attributes->location = {0, ACL_MEM_LOCATION_TYPE_HOST};
      attributes->pageSize = 4096;
    } else {
      attributes->location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    }
  });
}
