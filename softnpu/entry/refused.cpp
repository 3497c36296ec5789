// What softnpu does not have, by subject. Each line is an entry point that answers 207000 (or NULL, or 0) with a
// message.
#include "refuse.h"

// ---- Graphs whose parts run on a condition, and kernels that are merged ----
NPU_REFUSE(aclmdlRIAddCondTask, "conditional tasks of graphs")
NPU_REFUSE(aclmdlRICaptureToModelRIBegin, "conditional tasks of graphs")
NPU_REFUSE(aclmdlRICondHandleCreate, "conditional tasks of graphs")
NPU_REFUSE(aclmdlRICondHandleGetCondPtr, "conditional tasks of graphs")
NPU_REFUSE(aclskOptimize, "super kernels")
NPU_REFUSE(aclskScopeBegin, "super kernels")
NPU_REFUSE(aclskScopeEnd, "super kernels")

// ---- Dumps of operators' arguments ----
#define NPU_DUMP(name) NPU_REFUSE(name, "operator dumps")
NPU_DUMP(aclmdlInitDump)
NPU_DUMP(aclmdlSetDump)
NPU_DUMP(aclmdlFinalizeDump)
NPU_DUMP(aclopStartDumpArgs)
NPU_DUMP(aclopStopDumpArgs)
NPU_DUMP(aclGenGraphAndDumpForOp)
NPU_DUMP(aclDestroyGraphDumpOpt)
NPU_REFUSE_POINTER(aclCreateGraphDumpOpt, "operator dumps")

// ---- Profiling data of hardware counters ----
#define NPU_PROFILE(name) NPU_REFUSE(name, "hardware profiler")
NPU_PROFILE(aclprofDestroyConfig)
NPU_PROFILE(aclprofDestroyStepInfo)
NPU_PROFILE(aclprofFinalize)
NPU_PROFILE(aclprofGetStepTimestamp)
NPU_PROFILE(aclprofGetSupportedFeatures)
NPU_PROFILE(aclprofGetSupportedFeaturesV2)
NPU_PROFILE(aclprofInit)
NPU_PROFILE(aclprofMarkEx)
NPU_PROFILE(aclprofRegisterDeviceCallback)
NPU_PROFILE(aclprofSetConfig)
NPU_PROFILE(aclprofStart)
NPU_PROFILE(aclprofStop)
NPU_PROFILE(aclprofWarmup)
NPU_REFUSE_POINTER(aclprofCreateConfig, "hardware profiler")
NPU_REFUSE_POINTER(aclprofCreateStepInfo, "hardware profiler")

// ---- The driver, which softnpu has none of: clients ask it for the frequency of a card's clock ----
extern "C" {
int halGetAPIVersion();
int halGetDeviceInfo();
}
NPU_REFUSE(halGetAPIVersion, "driver")
NPU_REFUSE(halGetDeviceInfo, "driver")

// ---- Channels that carry tensors from a device program to the host ----
#define NPU_CHANNEL(name) NPU_REFUSE(name, "data channels")
NPU_CHANNEL(acltdtDestroyChannel)
NPU_CHANNEL(acltdtDestroyDataset)
NPU_CHANNEL(acltdtGetDimsFromItem)
NPU_CHANNEL(acltdtReceiveTensor)
NPU_REFUSE_POINTER(acltdtCreateChannelWithCapacity, "data channels")
NPU_REFUSE_POINTER(acltdtCreateDataset, "data channels")
NPU_REFUSE_POINTER(acltdtGetDataAddrFromItem, "data channels")
NPU_REFUSE_POINTER(acltdtGetDataItem, "data channels")
NPU_REFUSE_NUMBER(acltdtGetDataSizeFromItem, "data channels")
NPU_REFUSE_NUMBER(acltdtGetDatasetSize, "data channels")
NPU_REFUSE_NUMBER(acltdtGetDimNumFromItem, "data channels")
NPU_REFUSE_AS(int, ACL_DT_UNDEFINED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, acltdtGetDataTypeFromItem, "data channels")

// ---- Machine code for Ascend cores. Linked or looked up by clients; the facts have no prototype of the last four.
// ----
extern "C" {
int aclrtBinaryGetFunction();
int aclrtBinaryLoadFromData();
int aclrtGetFunctionAddr();
int aclrtLaunchKernelWithHostArgs();
}
#define NPU_BINARY(name) NPU_REFUSE(name, "Ascend cores to run machine code on")
NPU_BINARY(aclopCompileAndExecuteV2)
NPU_BINARY(rtDevBinaryRegister)
NPU_BINARY(rtFunctionRegister)
NPU_BINARY(rtGetC2cCtrlAddr)
NPU_BINARY(rtKernelLaunch)
NPU_BINARY(aclrtBinaryGetFunction)
NPU_BINARY(aclrtBinaryLoadFromData)
NPU_BINARY(aclrtGetFunctionAddr)
NPU_BINARY(aclrtLaunchKernelWithHostArgs)
