// Programs that recover from faults look for the words in capitals, which are the official plugin's.
#include "acl/advice.h"

#include "acl_types.h"

namespace npu::acl {

namespace {

const char* advice_for_faults(int code) noexcept {
  switch (code) {
    case ACL_ERROR_RT_DEVICE_TASK_ABORT:
    case ACL_ERROR_RT_TASK_ABORT_STOP:
      return "FORCE STOP. The NPU's work was dropped (torch.npu.stop_device). Call torch.npu.restart_device() before "
             "using the card again.";
    case ACL_ERROR_RT_STREAM_ABORT:
      return "The work of a stream was dropped. Synchronise, and launch it again.";
    case ACL_ERROR_RT_DEVICE_MEM_ERROR:
      return "UCE ERROR. The NPU's memory has an error that it could not correct. torch.npu.check_uce_in_memory() says "
             "whether tensors were hit; torch.npu.stop_device() and restart_device() repair the memory.";
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
      return "HBM MULTI BIT ECC ERROR. The NPU's memory has an error that it could not mend (ECC). What was computed "
             "since is not to be trusted: go back to a checkpoint, and look at the card with `npu-smi info -t ecc -i "
             "ID`.";
    case ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR:
      return "SUSPECT MEM ERROR. The NPU suspects its memory (ECC). What was computed since is not to be trusted: go "
             "back to a checkpoint, and look at the card with `npu-smi info -t ecc -i ID`.";
    case ACL_ERROR_RT_SUSPECT_REMOTE_ERROR:
      return "SUSPECT REMOTE ERROR. The memory of another NPU that this one reads failed. Look for that rank's error.";
    case ACL_ERROR_RT_LINK_ERROR:
      return "HCCS LINK ERROR. The link between NPUs failed. Look at it with `hccn_tool`, and restart the processes of "
             "all ranks.";
    case ACL_ERROR_RT_COMM_OP_RETRY_FAIL:
      return "HCCL OP RETRY FAILED. A collective failed and could not be repeated. Look at the network, and restart "
             "the "
             "processes of all ranks.";
    case ACL_ERROR_RT_LOST_HEARTBEAT:
      return "A process or card that takes part in this work is gone; the text below names it. Look for its own error.";
    case ACL_ERROR_RT_DRV_INTERNAL_ERROR:
    case ACL_ERROR_DRV_FAILURE:
    case ACL_ERROR_RT_TS_ERROR:
    case ACL_ERROR_RT_DEV_SETUP_ERROR:
    case ACL_ERROR_RT_SOCKET_CLOSE:
      return "The NPU stopped answering. Look at its state with `npu-smi info`, and restart the process.";
    default:
      return nullptr;
  }
}

const char* advice_for_time(int code) noexcept {
  switch (code) {
    case ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
    case ACL_ERROR_RT_EVENT_SYNC_TIMEOUT:
      return "The NPU's work did not end in time. Raise ACL_STREAM_TIMEOUT (milliseconds) or ACL_DEVICE_SYNC_TIMEOUT "
             "(seconds), or unset them.";
    case ACL_ERROR_RT_AICORE_TIMEOUT:
    case ACL_ERROR_RT_VECTOR_CORE_TIMEOUT:
    case ACL_ERROR_RT_AICPU_TIMEOUT:
    case ACL_ERROR_RT_FFTS_PLUS_TIMEOUT:
      return "An operator ran longer than it may and was ended. Raise the limit with torch.npu.set_op_timeout_ms(), or "
             "use smaller inputs.";
    case ACL_ERROR_RT_WAIT_TIMEOUT:
    case ACL_ERROR_RT_TASK_TIMEOUT:
    case ACL_ERROR_RT_REPORT_TIMEOUT:
    case ACL_ERROR_WAIT_CALLBACK_TIMEOUT:
      return "The NPU waited too long for another one or for the host. Look for the error of the other ranks first.";
    default:
      return nullptr;
  }
}

const char* advice_for_resources(int code) noexcept {
  switch (code) {
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
    case ACL_ERROR_RT_DEVICE_OOM:
      return "NPU out of memory. Free tensors, call torch.npu.empty_cache(), or use smaller batches.";
    case ACL_ERROR_BAD_ALLOC:
      return "The host is out of memory. End other processes, or use smaller batches.";
    case ACL_ERROR_RT_MEMORY_FREE:
      return "The NPU refused to free memory. It was freed before, or is not of this process.";
    case ACL_ERROR_RT_NO_STREAM_RESOURCE:
      return "The NPU has no streams left. Reuse streams, or end other processes on this card.";
    case ACL_ERROR_RT_NO_EVENT_RESOURCE:
      return "The NPU has no events left. Reuse events, or end other processes on this card.";
    case ACL_ERROR_RT_RESOURCE_ALLOC_FAIL:
    case ACL_ERROR_RT_NO_NOTIFY_RESOURCE:
    case ACL_ERROR_RT_NO_MODEL_RESOURCE:
    case ACL_ERROR_RT_NO_CDQ_RESOURCE:
    case ACL_ERROR_RT_OVER_LIMIT:
    case ACL_ERROR_RT_QUEUE_FULL:
    case ACL_ERROR_RT_STREAM_TASK_FULL:
    case ACL_ERROR_RT_PROGRAM_USE_OUT:
    case ACL_ERROR_STORAGE_OVER_LIMIT:
    case ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG:
      return "The NPU has no room left for this; the text below says for what. End other processes on this card.";
    case ACL_ERROR_RT_NO_PERMISSION:
      return "This user may not use the NPU. Join the group that owns /dev/davinci*, or run as its owner.";
    default:
      return nullptr;
  }
}

const char* advice_for_operators(int code) noexcept {
  switch (code) {
    case ACL_ERROR_RT_AICORE_EXCEPTION:
    case ACL_ERROR_RT_AICORE_TRAP_EXCEPTION:
    case ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW:
    case ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW:
    case ACL_ERROR_RT_VECTOR_CORE_EXCEPTION:
    case ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION:
    case ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW:
    case ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW:
    case ACL_ERROR_RT_FFTS_PLUS_EXCEPTION:
    case ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION:
    case ACL_ERROR_RT_AICPU_EXCEPTION:
    case ACL_ERROR_RT_AICPU_INTERNAL_ERROR:
    case ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR:
    case ACL_ERROR_RT_AICPU_MODEL_RSP_ERR:
    case ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR:
    case ACL_ERROR_RT_MODEL_EXECUTE:
    case ACL_ERROR_RT_SYS_DMA:
    case ACL_ERROR_RT_COPY_DATA:
    case ACL_ERROR_RT_COPY_USER_FAIL:
      return "An operator failed on the NPU, most often for an index out of range or memory that was freed.";
    case ACL_ERROR_RT_AICORE_OVER_FLOW:
    case ACL_ERROR_RT_AIVEC_OVER_FLOW:
    case ACL_ERROR_RT_OVER_FLOW:
      return "A number overflowed on the NPU. Lower the loss scale, or compute in float32.";
    case ACLNN_STRESS_BIT_FAIL:
    case ACLNN_STRESS_LOW_BIT_FAIL:
    case ACLNN_STRESS_HIGH_BIT_FAIL:
      return "The NPU computed wrong numbers in a stress test. Take the card out of use.";
    case ACLNN_CLEAR_DEVICE_STATE_FAIL:
      return "The NPU could not leave the stress test. Restart the process.";
    case ACL_ERROR_OP_TYPE_NOT_MATCH:
    case ACL_ERROR_OP_INPUT_NOT_MATCH:
    case ACL_ERROR_OP_OUTPUT_NOT_MATCH:
    case ACL_ERROR_OP_ATTR_NOT_MATCH:
    case ACL_ERROR_OP_NOT_FOUND:
    case ACL_ERROR_OP_LOAD_FAILED:
    case ACL_ERROR_OP_UNSUPPORTED_DYNAMIC:
    case ACL_ERROR_UNSUPPORTED_DATA_TYPE:
    case ACL_ERROR_FORMAT_NOT_MATCH:
    case ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED:
    case ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED:
    case ACL_ERROR_KERNEL_NOT_FOUND:
    case ACL_ERROR_KERNEL_ALREADY_REGISTERED:
    case ACL_ERROR_RT_KERNEL_LOOKUP:
    case ACL_ERROR_RT_KERNEL_DUPLICATE:
    case ACL_ERROR_RT_KERNEL_UNREGISTERING:
    case ACL_ERROR_INVALID_OPP_PATH:
      return "CANN has no kernel for this operator and these types. Check that the operator package (opp) is installed "
             "for this chip.";
    default:
      return nullptr;
  }
}

const char* advice_for_arguments(int code) noexcept {
  switch (code) {
    case ACL_ERROR_INVALID_PARAM:
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACL_ERROR_RT_ADDR_UNALIGNED:
    case ACL_ERROR_MEMORY_ADDRESS_UNALIGNED:
    case ACL_ERROR_RT_INVALID_MEMORY_TYPE:
    case ACL_ERROR_RT_INVALID_MALLOC_TYPE:
    case ACLNN_ERR_PARAM_NULLPTR:
    case ACLNN_ERR_PARAM_INVALID:
      return "The NPU refused an argument; the text below names it. Check dtypes and shapes of the operator's inputs.";
    case ACL_ERROR_RT_INVALID_DEVICEID:
    case ACL_ERROR_INVALID_DEVICE:
    case ACL_ERROR_RT_NO_DEVICE:
      return "The NPU cannot be opened. Check ASCEND_RT_VISIBLE_DEVICES and torch.npu.device_count().";
    case ACL_ERROR_RT_CONTEXT_NULL:
      return "This thread has no NPU selected. Call torch.npu.set_device() in it first.";
    case ACL_ERROR_RT_STREAM_CONTEXT:
    case ACL_ERROR_RT_MODEL_CONTEXT:
    case ACL_ERROR_RT_LABEL_CONTEXT:
    case ACL_ERROR_RESOURCE_NOT_MATCH:
      return "A stream was used with another card current. Use `with torch.npu.stream(...)`, which changes both.";
    case ACL_ERROR_RT_INVALID_HANDLE:
    case ACL_ERROR_INVALID_RESOURCE_HANDLE:
    case ACL_ERROR_RT_CONTEXT_RELEASE_ERROR:
    case ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED:
      return "A stream, event or context was used after its end, or ended while in use.";
    case ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID:
    case ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL:
      return "Two events cannot be compared. Record both, with enable_timing=True, the first one first.";
    case ACL_ERROR_RT_STREAM_NOT_COMPLETE:
    case ACL_ERROR_RT_EVENT_NOT_COMPLETE:
      return "The NPU has not come to this event or to the end of this stream yet. Synchronise first.";
    default:
      return nullptr;
  }
}

const char* advice_for_setup(int code) noexcept {
  switch (code) {
    case ACL_ERROR_UNINITIALIZE:
    case ACL_ERROR_REPEAT_INITIALIZE:
    case ACL_ERROR_REPEAT_FINALIZE:
    case ACL_ERROR_RT_REPEATED_INIT:
      return "The NPU runtime was used before its beginning or after its end. Let torch_npu alone initialise it.";
    case ACL_ERROR_INVALID_FILE:
    case ACL_ERROR_WRITE_FILE:
    case ACL_ERROR_INVALID_FILE_SIZE:
    case ACL_ERROR_PARSE_FILE:
    case ACL_ERROR_FILE_MISSING_ATTR:
    case ACL_ERROR_FILE_ATTR_INVALID:
    case ACL_ERROR_INVALID_DUMP_CONFIG:
    case ACL_ERROR_INVALID_PROFILING_CONFIG:
    case ACL_ERROR_RT_FILE_OPEN:
    case ACL_ERROR_RT_FILE_WRITE:
      return "The NPU runtime cannot read or write a file; the text below names it. Check path, rights and contents.";
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
    case ACL_ERROR_FEATURE_UNSUPPORTED:
    case ACL_ERROR_API_NOT_SUPPORT:
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP:
    case ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT:
    case ACL_ERROR_PROF_MODULES_UNSUPPORTED:
    case ACL_ERROR_COMPILING_STUB_MODE:
    case ACL_ERROR_UNSUPPORTED_JPEG:
      return "This NPU, or its version of CANN, cannot do that.";
    case ACL_ERROR_RT_SOC_VERSION:
      return "CANN does not know this chip, and wants the version that belongs to the driver; or softnpu was given a "
             "setting that makes no sense.";
    case ACL_ERROR_RT_SYSPARAMOPT_NOT_SET:
      return "An option of the NPU runtime was asked for before it was set.";
    case ACL_ERROR_RT_IPC_ERROR:
      return "Memory of another process cannot be reached. Keep its tensor alive there while it is used here.";
    case ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR:
    case ACL_ERROR_RT_DIE_SET_ERROR:
    case ACL_ERROR_RT_INVALID_DIEID:
    case ACL_ERROR_RT_DIE_MODE_NOT_SET:
      return "The NPU's dies are set in another way than is asked for. Leave that to its driver.";
    default:
      return nullptr;
  }
}

// Graphs, models, callbacks and profiling: torch_npu does not use them, other libraries in the process may.
const char* advice_for_others(int code) noexcept {
  switch (code) {
    case ACL_ERROR_RT_CAPTURE_DEPENDENCY:
    case ACL_ERROR_RT_STREAM_UNJOINED:
    case ACL_ERROR_RT_MODEL_CAPTURED:
    case ACL_ERROR_RT_STREAM_CAPTURED:
    case ACL_ERROR_RT_EVENT_CAPTURED:
    case ACL_ERROR_RT_STREAM_NOT_CAPTURED:
    case ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT:
    case ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT:
    case ACL_ERROR_STREAM_CAPTURE_CONFLICT:
    case ACL_ERROR_STREAM_TASK_GROUP_STATUS:
    case ACL_ERROR_STREAM_TASK_GROUP_INTR:
    case ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED:
    case ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED:
      return "A graph was being captured on this stream, which does not allow this call.";
    case ACL_ERROR_INVALID_MODEL_ID:
    case ACL_ERROR_DESERIALIZE_MODEL:
    case ACL_ERROR_PARSE_MODEL:
    case ACL_ERROR_READ_MODEL_FAILURE:
    case ACL_ERROR_MODEL_SIZE_INVALID:
    case ACL_ERROR_MODEL_MISSING_ATTR:
    case ACL_ERROR_MODEL_INPUT_NOT_MATCH:
    case ACL_ERROR_MODEL_OUTPUT_NOT_MATCH:
    case ACL_ERROR_MODEL_NOT_DYNAMIC:
    case ACL_ERROR_NOT_STATIC_AIPP:
    case ACL_ERROR_INVALID_BUNDLE_MODEL_ID:
    case ACL_ERROR_RT_STREAM_MODEL:
    case ACL_ERROR_RT_MODEL_ABORT_NORMAL:
    case ACL_ERROR_RT_END_OF_SEQUENCE:
      return "CANN refused a compiled model, or one came to its end; the text below names it.";
    case ACL_ERROR_REPEAT_SUBSCRIBE:
    case ACL_ERROR_STREAM_NOT_SUBSCRIBE:
    case ACL_ERROR_THREAD_NOT_SUBSCRIBE:
    case ACL_ERROR_RT_STREAM_SUBSCRIBE:
    case ACL_ERROR_RT_THREAD_SUBSCRIBE:
    case ACL_ERROR_RT_STREAM_NO_CB_REG:
    case ACL_ERROR_INVALID_QUEUE_ID:
    case ACL_ERROR_GROUP_NOT_SET:
    case ACL_ERROR_GROUP_NOT_CREATE:
    case ACL_ERROR_RT_GROUP_NOT_SET:
    case ACL_ERROR_RT_GROUP_NOT_CREATE:
    case ACL_ERROR_RT_QUEUE_EMPTY:
    case ACL_ERROR_RT_STREAM_TASK_EMPTY:
    case ACL_ERROR_RT_CDQ_BATCH_ABNORMAL:
      return "A queue, group or callback of the NPU runtime is not set up for this call; the text below names it.";
    case ACL_ERROR_PROF_ALREADY_RUN:
    case ACL_ERROR_PROF_NOT_RUN:
    case ACL_ERROR_DUMP_ALREADY_RUN:
    case ACL_ERROR_DUMP_NOT_RUN:
    case ACL_ERROR_PROF_REPEAT_SUBSCRIBE:
    case ACL_ERROR_PROF_API_CONFLICT:
    case ACL_ERROR_PROFILING_FAILURE:
    case ACL_ERROR_RT_PROFILING_ERROR:
    case ACL_ERROR_RT_RINGBUFFER_NOT_INIT:
    case ACL_ERROR_RT_RINGBUFFER_NO_DATA:
    case ACL_ERROR_RT_DEBUG_REGISTER_FAIL:
    case ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL:
      return "The NPU's profiler, dump or debugger was started twice, or asked before it was started.";
    case ACL_ERROR_INTERNAL_ERROR:
    case ACL_ERROR_FAILURE:
    case ACL_ERROR_RT_FAILURE:
    case ACL_ERROR_RT_INTERNAL_ERROR:
    case ACLNN_ERR_RUNTIME_ERROR:
    case ACLNN_ERR_INNER:
      return "CANN failed inside; the text below and its logs (~/ascend/log) say where.";
    default:
      return nullptr;
  }
}

}  // namespace

const char* advice(int code) noexcept {
  for (const auto group : {advice_for_faults, advice_for_time, advice_for_resources, advice_for_arguments})
    if (const char* text = group(code)) return text;
  return nullptr;
}

const char* general_advice(int code) noexcept {
  for (const auto group : {advice_for_operators, advice_for_setup, advice_for_others})
    if (const char* text = group(code)) return text;
  return nullptr;
}

}  // namespace npu::acl
