// Functions of HCCL that have no meaning here: memory registered with network cards, and the library for one machine
// (LCCL), whose job HCCL itself does on softnpu.
#include "entry/refuse.h"

#define NPU_COLLECTIVE(name, what) NPU_REFUSE_AS(int, HCCL_E_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, name, what)
NPU_COLLECTIVE(HcclCommActivateCommMemory, "registered communication memory")
NPU_COLLECTIVE(HcclCommDeactivateCommMemory, "registered communication memory")
NPU_COLLECTIVE(HcclCommSetMemoryRange, "registered communication memory")
NPU_COLLECTIVE(HcclCommUnsetMemoryRange, "registered communication memory")
NPU_COLLECTIVE(HcclCommRegister, "registered communication memory")
NPU_COLLECTIVE(HcclCommDeregister, "registered communication memory")
NPU_COLLECTIVE(HcclCommExchangeMem, "registered communication memory")
NPU_COLLECTIVE(HcclCommWorkingDevNicSet, "network cards")
NPU_COLLECTIVE(LcalCommInit, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcalCommInitRankLocal, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcclAllGather, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcclAllReduce, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcclBroadcast, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcclCommDestroy, "LCCL; HCCL does its work")
NPU_COLLECTIVE(LcclReduceScatter, "LCCL; HCCL does its work")
