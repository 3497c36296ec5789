// Collectives between cards: not there yet. Every entry point answers HCCL_E_NOT_SUPPORT with a message.
#include "entry/refuse.h"

#define NPU_COLLECTIVE(name) \
  NPU_REFUSE_AS(int, HCCL_E_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, name, "collectives")
NPU_COLLECTIVE(HcclAllGather)
NPU_COLLECTIVE(HcclAllGatherV)
NPU_COLLECTIVE(HcclAllReduce)
NPU_COLLECTIVE(HcclAlltoAll)
NPU_COLLECTIVE(HcclAlltoAllV)
NPU_COLLECTIVE(HcclBatchSendRecv)
NPU_COLLECTIVE(HcclBroadcast)
NPU_COLLECTIVE(HcclCommActivateCommMemory)
NPU_COLLECTIVE(HcclCommDeactivateCommMemory)
NPU_COLLECTIVE(HcclCommDeregister)
NPU_COLLECTIVE(HcclCommDestroy)
NPU_COLLECTIVE(HcclCommExchangeMem)
NPU_COLLECTIVE(HcclCommInitAll)
NPU_COLLECTIVE(HcclCommInitClusterInfoConfig)
NPU_COLLECTIVE(HcclCommInitRootInfo)
NPU_COLLECTIVE(HcclCommInitRootInfoConfig)
NPU_COLLECTIVE(HcclCommRegister)
NPU_COLLECTIVE(HcclCommResume)
NPU_COLLECTIVE(HcclCommSetMemoryRange)
NPU_COLLECTIVE(HcclCommUnsetMemoryRange)
NPU_COLLECTIVE(HcclCommWorkingDevNicSet)
NPU_COLLECTIVE(HcclCreateSubCommConfig)
NPU_COLLECTIVE(HcclGetCommAsyncError)
NPU_COLLECTIVE(HcclGetCommName)
NPU_COLLECTIVE(HcclGetRootInfo)
NPU_COLLECTIVE(HcclGroupEnd)
NPU_COLLECTIVE(HcclGroupStart)
NPU_COLLECTIVE(HcclRecv)
NPU_COLLECTIVE(HcclReduce)
NPU_COLLECTIVE(HcclReduceScatter)
NPU_COLLECTIVE(HcclReduceScatterV)
NPU_COLLECTIVE(HcclScatter)
NPU_COLLECTIVE(HcclSend)
NPU_COLLECTIVE(LcalCommInit)
NPU_COLLECTIVE(LcalCommInitRankLocal)
NPU_COLLECTIVE(LcclAllGather)
NPU_COLLECTIVE(LcclAllReduce)
NPU_COLLECTIVE(LcclBroadcast)
NPU_COLLECTIVE(LcclCommDestroy)
NPU_COLLECTIVE(LcclReduceScatter)

// No capability beyond what HCCL always had.
uint32_t HcclGetCommConfigCapability(void) { return 0; }

// Clients set determinism for operators and collectives together, long before there is a communicator. The order of a
// sum does not vary here: there is nothing to switch.
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue) {
  return config == HCCL_DETERMINISTIC ? HCCL_SUCCESS : HCCL_E_PARA;
}
