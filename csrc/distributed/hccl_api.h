// The functions of HCCL, looked up when the first communicator is made, and HCCL_CHECK for their results.
#pragma once

#include <c10/macros/Macros.h>

#include <functional>

#include "hccl.h"
#include "runtime/stream.h"

namespace npu::hccl {

// What every provider must have.
// clang-format off
#define NPU_HCCL_REQUIRED(X)                                                                                          \
  X(HcclGetRootInfo)                                                                                                  \
  X(HcclCommInitRootInfo)                                                                                             \
  X(HcclCommDestroy) X(HcclGetCommAsyncError) X(HcclAllReduce) X(HcclBroadcast) X(HcclAllGather) X(HcclReduceScatter) \
      X(HcclReduce) X(HcclAlltoAllV) X(HcclSend) X(HcclRecv) X(HcclBatchSendRecv)
// clang-format on

// What one may lack: null then.
// clang-format off
#define NPU_HCCL_OPTIONAL(X)    \
  X(HcclCommInitRootInfoConfig) \
  X(HcclGetCommConfigCapability) X(HcclGetCommName) X(HcclAllGatherV) X(HcclReduceScatterV)
// clang-format on

struct Api {
#define NPU_HCCL_MEMBER(name) decltype(&::name) name = nullptr;
  NPU_HCCL_REQUIRED(NPU_HCCL_MEMBER)
  NPU_HCCL_OPTIONAL(NPU_HCCL_MEMBER)
#undef NPU_HCCL_MEMBER
};

const Api& api();  // throws when the library or a required function is missing
const char* result_name(HcclResult result) noexcept;
// Throws c10::DistBackendError: what failed, the code, the provider's words.
[[noreturn]] void throw_hccl_error(HcclResult result, const char* expression);

// Calls `body` with the stream's handle, in the order of the task queue: behind the operators that were launched
// before.
void enqueue(std::function<void(aclrtStream)> body, Stream stream);

}  // namespace npu::hccl

#define HCCL_CHECK(expression)                                                                                \
  do {                                                                                                        \
    const HcclResult hccl_result_ = (expression);                                                             \
    if (C10_UNLIKELY(hccl_result_ != HCCL_SUCCESS)) ::npu::hccl::throw_hccl_error(hccl_result_, #expression); \
  } while (0)
