// Finds the CANN runtime or the embedded softnpu, loads it once, and gives its functions. The only place with dlopen.
// Safe to call from any thread; nothing here touches a device.
//
// Note [Providers]
// ~~~~~~~~~~~~~~~~
// Two libraries implement the C ABI of abi/: CANN, found through ASCEND_HOME_PATH or ASCEND_TOOLKIT_HOME (which its
// set_env.sh sets), and the softnpu inside this package. Both are opened by CANN's library names, so both take the same
// path through this file. A machine where neither variable is set gets softnpu; where one is set, CANN was asked for,
// and a CANN that is not there or does not load is an error with its cure, never a silent change to software. softnpu's
// own set_env.sh sets the variables too (for other clients of the ABI): a folder that holds libsoftnpu.so is not CANN.
// Libraries are opened at first use, the operator and HCCL ones at theirs; importing torch_npu opens none of them.
#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <string>

#include "acl.h"
#include "aclnn.h"
#include "hccl.h"

namespace npu::acl {

enum class Provider { cann, softnpu };

// Runtime functions every provider must have. The type of each member is the prototype in abi/.
// clang-format off
#define NPU_ACL_REQUIRED(X)                                                                                            \
  X(aclInit) X(aclFinalize) X(aclGetRecentErrMsg) X(aclrtSetDevice) X(aclrtGetDevice) X(aclrtResetDevice)              \
  X(aclrtGetDeviceCount) X(aclrtGetSocName) X(aclrtSynchronizeDevice) X(aclrtCreateStreamWithConfig)                   \
  X(aclrtDestroyStream) X(aclrtSynchronizeStream) X(aclrtStreamQuery) X(aclrtStreamWaitEvent)                          \
  X(aclrtCreateEventExWithFlag) X(aclrtDestroyEvent) X(aclrtRecordEvent) X(aclrtQueryEventStatus)                      \
  X(aclrtSynchronizeEvent) X(aclrtEventElapsedTime) X(aclrtMalloc) X(aclrtMallocAlign32) X(aclrtFree)                  \
  X(aclrtMallocHost) X(aclrtFreeHost) X(aclrtMemset) X(aclrtMemsetAsync) X(aclrtMemcpy) X(aclrtMemcpyAsync)            \
  X(aclrtGetMemInfo) X(aclCreateTensor) X(aclDestroyTensor) X(aclCreateScalar) X(aclDestroyScalar)                     \
  X(aclCreateIntArray) X(aclDestroyIntArray) X(aclCreateBoolArray) X(aclDestroyBoolArray) X(aclCreateTensorList)       \
  X(aclDestroyTensorList) X(aclCreateScalarList) X(aclDestroyScalarList) X(aclGetViewShape)
// clang-format on

// Functions a provider may lack: null then, and the feature behind it degrades.
// clang-format off
#define NPU_ACL_OPTIONAL(X)                                                                                            \
  X(aclsysGetCANNVersion) X(aclsysGetVersionStr) X(aclrtGetDeviceInfo) X(aclGetDeviceCapability)                       \
  X(aclGetCannAttribute) X(aclrtDeviceCanAccessPeer) X(aclrtDeviceEnablePeerAccess) X(aclrtDeviceGetUuid)              \
  X(aclrtDeviceTaskAbort) X(aclrtDestroyStreamForce) X(aclrtSynchronizeStreamWithTimeout)                              \
  X(aclrtSynchronizeDeviceWithTimeout) X(aclrtSetStreamFailureMode) X(aclrtStreamGetId) X(aclrtLaunchHostFunc)         \
  X(aclrtEventGetTimestamp) X(aclrtPointerGetAttributes) X(aclrtGetDeviceUtilizationRate) X(aclrtSetSysParamOpt)       \
  X(aclrtCtxSetSysParamOpt) X(aclrtSetDeviceSatMode) X(aclrtIpcMemGetExportKey) X(aclrtIpcMemImportByKey)              \
  X(aclrtIpcMemClose) X(aclrtIpcGetEventHandle) X(aclrtIpcOpenEventHandle) X(aclrtReserveMemAddress)                   \
  X(aclrtReleaseMemAddress) X(aclrtMapMem) X(aclrtUnmapMem)                                                            \
  X(aclrtMallocPhysical) X(aclrtFreePhysical) X(aclrtGetPrimaryCtxState) X(aclmdlRICaptureBegin)                       \
  X(aclmdlRICaptureEnd) X(aclmdlRICaptureGetInfo) X(aclmdlRICaptureThreadExchangeMode) X(aclmdlRIExecuteAsync)         \
  X(aclmdlRIDestroy) X(aclmdlRIDebugPrint) X(aclmdlRIDebugJsonPrint) X(aclmdlRICaptureTaskGrpBegin)                    \
  X(aclmdlRICaptureTaskGrpEnd) X(aclmdlRICaptureTaskUpdateBegin) X(aclmdlRICaptureTaskUpdateEnd) X(aclrtResetEvent)
// clang-format on

// Executor functions of the operator library, optional too. Null until the first op_symbol() has loaded that library.
// clang-format off
#define NPU_ACL_OPERATOR(X)                                                                                            \
  X(CanUsePTACache) X(InitPTACacheThreadLocal) X(UnInitPTACacheThreadLocal) X(PTAFindExecCache)                        \
  X(SetPTACacheHashKey) X(PTAGetExecCache) X(SetPTAHashKey) X(AddTensorAddrToCachedList) X(aclDestroyAclOpExecutor)
// clang-format on

struct Api {
#define NPU_ACL_MEMBER(name) decltype(&::name) name = nullptr;
  NPU_ACL_REQUIRED(NPU_ACL_MEMBER)
  NPU_ACL_OPTIONAL(NPU_ACL_MEMBER)
  NPU_ACL_OPERATOR(NPU_ACL_MEMBER)
#undef NPU_ACL_MEMBER
};

namespace detail {
extern std::atomic<const Api*> g_api;  // null until the provider is loaded
const Api& load_api();
}  // namespace detail

// The loaded functions. The first call picks and loads the provider; throws c10::Error with the reason and the cure.
inline const Api& api() {
  const Api* api = detail::g_api.load(std::memory_order_acquire);
  return C10_LIKELY(api != nullptr) ? *api : detail::load_api();
}

bool available() noexcept;             // whether api() would succeed
const std::string& why_unavailable();  // the reason and the cure; empty when available
Provider provider();                   // of the loaded library
const std::string& path();             // folder the provider was loaded from

// A symbol of the operator libraries (libopapi.so and what stands before it), nullptr when absent. Throws when the
// library itself cannot be loaded.
void* op_symbol(const char* name);
// A symbol of libhccl.so, nullptr when absent. Throws when the library cannot be loaded.
void* hccl_symbol(const char* name);

}  // namespace npu::acl
