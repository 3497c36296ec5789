// HCCL's result codes for failures inside softnpu, which carry the runtime's codes.
#pragma once

#include "acl_types.h"
#include "hccl.h"

namespace softnpu::comm {

inline HcclResult hccl_code(int code) {
  switch (code) {
    case 0:
      return HCCL_SUCCESS;
    case ACL_ERROR_INVALID_PARAM:
      return HCCL_E_PTR;
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACL_ERROR_RT_INVALID_HANDLE:
    case ACL_ERROR_RT_STREAM_CONTEXT:
    case ACL_ERROR_RT_ADDR_UNALIGNED:
      return HCCL_E_PARA;
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
      return HCCL_E_MEMORY;
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
      return HCCL_E_NOT_SUPPORT;
    case ACL_ERROR_RT_RESOURCE_ALLOC_FAIL:
      return HCCL_E_SYSCALL;
    case ACL_ERROR_RT_TASK_TIMEOUT:
      return HCCL_E_TIMEOUT;
    case ACL_ERROR_RT_LOST_HEARTBEAT:
      return HCCL_E_REMOTE;
    case ACL_ERROR_RT_NO_PERMISSION:
      return HCCL_E_UNAVAIL;
    case ACL_ERROR_RT_CONTEXT_NULL:
    case ACL_ERROR_RT_STREAM_ABORT:
      return HCCL_E_RUNTIME;
    case ACL_ERROR_RT_FILE_OPEN:
      return HCCL_E_OPEN_FILE_FAILURE;
    default:
      return HCCL_E_INTERNAL;
  }
}

}  // namespace softnpu::comm
