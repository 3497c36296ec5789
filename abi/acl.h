// The CANN runtime C ABI ("AscendCL"): prototypes. Types, codes and layouts are in acl_types.h.
#pragma once

#include "acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Process, errors and versions
// ------------------------------------------------------------------------------------

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...);
aclError aclFinalize(void);
aclError aclGetCannAttribute(aclCannAttr cannAttrList, int32_t* num);
aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num);
aclError aclGetCompileopt(aclCompileOpt opt, char* value, size_t length);
aclError aclGetCompileoptSize(aclCompileOpt opt);
aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value);
const char* aclGetRecentErrMsg(void);
aclError aclInit(const char* configPath);
aclError aclSetCompileopt(aclCompileOpt opt, const char* value);
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version);
aclError aclsysGetVersionStr(char* pkgName, char* versionStr);

// ---- Devices and contexts
// --------------------------------------------------------------------------------------------

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId);
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
aclError aclrtDeviceGetBareTgid(int32_t* pid);
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid* uuid);
aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
aclError aclrtGetCurrentContext(aclrtContext* context);
aclError aclrtGetDevice(int32_t* deviceId);
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value);
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value);
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* utilizationInfo);
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo* errorInfo);
aclError aclrtGetLastError(aclrtLastErrLevel flag);
aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* value);
aclError aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize, size_t* retSize);
aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* activate);
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value);
const char* aclrtGetSocName(void);
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value);
aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo* memUceInfoArray, size_t arraySize);
aclError aclrtPeekAtLastError(aclrtLastErrLevel flag);
aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo* errorInfo);
aclError aclrtResetDevice(int32_t deviceId);
aclError aclrtResetDeviceResLimit(int32_t deviceId);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtSetDevice(int32_t deviceId);
aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);
aclError aclrtSetOpExecuteTimeOutV2(uint64_t value, uint64_t* actualTimeout);
aclError aclrtSetOpWaitTimeout(uint32_t timeout);
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
aclError aclrtSynchronizeDevice(void);
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);

// ---- Streams, callbacks and capture
// ----------------------------------------------------------------------------------

aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* modelRI);
aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* modelRI);
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp* handle);
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);
aclError aclmdlRICaptureTaskUpdateEnd(aclmdlRI stream);
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode* mode);
aclError aclmdlRICaptureToModelRIBegin(aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode);
aclError aclmdlRICondHandleCreate(aclmdlRI modelRI, unsigned int defaultLaunchValue, uint32_t flag,
                                  aclmdlRICondHandle* handle);
aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t** ptr);
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char* path, uint32_t flags);
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);
aclError aclmdlRIDestroy(aclmdlRI modelRI);
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);
aclError aclmdlRIGetId(aclmdlRI stream, uint32_t* modelRI);
aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream);
aclError aclrtCreateStream(aclrtStream* stream);
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStream(aclrtStream stream);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag);
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t* value);
aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream);
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc func, void* args);
aclError aclrtProcessReport(int32_t timeout);
aclError aclrtResetStreamResLimit(aclrtStream stream);
aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue* value);
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);
aclError aclrtStreamGetId(aclrtStream stream, int32_t* stream_id);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
aclError aclrtSynchronizeStream(aclrtStream stream);
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
aclError aclrtUnSubscribeReport(uint64_t theadId, aclrtStream stream);
aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
aclError aclskOptimize(aclmdlRI modelRI, const aclskOptions* options);
aclError aclskScopeBegin(const char* scopeName, aclrtStream stream);
aclError aclskScopeEnd(const char* scopeName, aclrtStream stream);

// ---- Events
// ----------------------------------------------------------------------------------------------------------

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp);
aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle* handle);
aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent* event);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* waitStatus);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtSynchronizeEvent(aclrtEvent event);

// ---- Memory
// ----------------------------------------------------------------------------------------------------------

aclError aclrtFree(void* devPtr);
aclError aclrtFreeHost(void* hostPtr);
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total);
aclError aclrtGetMemUsageInfo(uint32_t deviceId, aclrtMemUsageInfo* memUsageInfo, size_t inputNum, size_t* outputNum);
aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr);
aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag);
aclError aclrtHostUnregister(void* ptr);
aclError aclrtIpcMemClose(const char* key);
aclError aclrtIpcMemGetExportKey(void* devPtr, size_t size, char* key, size_t len, uint64_t flag);
aclError aclrtIpcMemImportByKey(void** devPtr, const char* key, uint64_t flag);
aclError aclrtIpcMemSetImportPid(const char* key, int32_t* pid, size_t num);
aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
aclError aclrtMallocHost(void** hostPtr, size_t size);
aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg);
aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags);
aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);
aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
                                         uint64_t* shareableHandle);
aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle* handle);
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum);
aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream);
aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream);
aclError aclrtMemcpyBatch(void** dsts, size_t* destMax, void** srcs, size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex);
aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMax, void** srcs, size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                               aclrtStream stream);
aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);
aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);
aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes);
aclError aclrtReleaseMemAddress(void* virPtr);
aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t flags);
aclError aclrtUnmapMem(void* virPtr);

// ---- Legacy single-operator interface
// --------------------------------------------------------------------------------

aclError aclGenGraphAndDumpForOp(const char* opType, int numInputs, const aclTensorDesc* value[],
                                 const aclDataBuffer* value2[], int numOutputs, const aclTensorDesc* value3[],
                                 aclDataBuffer* value4[], const aclopAttr* attr, aclopEngineType engineType,
                                 const char* graphDumpPath, aclGraphDumpOption* graphdumpOpt);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize);
aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
aclDataType aclGetTensorDescType(const aclTensorDesc* desc);
void aclSetTensorDescName(aclTensorDesc* desc, const char* name);
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format);
aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType);
aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims);
aclError aclopCompileAndExecute(const char* opType, int numInputs, const aclTensorDesc* const inputDesc[],
                                const aclDataBuffer* const inputs[], int numOutputs,
                                const aclTensorDesc* const outputDesc[], aclDataBuffer* const outputs[],
                                const aclopAttr* attr, aclopEngineType engineType, aclopCompileType compileFlag,
                                const char* opPath, aclrtStream stream);
aclError aclopCompileAndExecuteV2(const char* opType, int numInputs, aclTensorDesc* inputDesc[],
                                  aclDataBuffer* inputs[], int numOutputs, aclTensorDesc* outputDesc[],
                                  aclDataBuffer* outputs[], aclopAttr* attr, aclopEngineType engineType,
                                  aclopCompileType compileFlag, const char* opPath, aclrtStream stream);
aclopAttr* aclopCreateAttr(void);
void aclopDestroyAttr(const aclopAttr* attr);
aclError aclopSetAttrBool(aclopAttr* attr, const char* attrName, uint8_t attrValue);
aclError aclopSetAttrDataType(aclopAttr* attr, const char* attrName, aclDataType attrValue);
aclError aclopSetAttrFloat(aclopAttr* attr, const char* attrName, float attrValue);
aclError aclopSetAttrInt(aclopAttr* attr, const char* attrName, int64_t attrValue);
aclError aclopSetAttrListBool(aclopAttr* attr, const char* attrName, int numValues, const uint8_t* values);
aclError aclopSetAttrListFloat(aclopAttr* attr, const char* attrName, int numValues, const float* values);
aclError aclopSetAttrListInt(aclopAttr* attr, const char* attrName, int numValues, const int64_t* values);
aclError aclopSetAttrListListInt(aclopAttr* attr, const char* attrName, int numLists, const int* numValues,
                                 const int64_t* const values[]);
aclError aclopSetAttrString(aclopAttr* attr, const char* attrName, const char* attrValue);
aclError aclopStartDumpArgs(uint32_t dumpType, const char* path);
aclError aclopStopDumpArgs(uint32_t dumpType);

// ---- Dump, profiling, data channels
// ----------------------------------------------------------------------------------

aclError aclmdlFinalizeDump(void);
aclError aclmdlInitDump(void);
aclError aclmdlSetDump(const char* dumpCfgPath);
aclprofConfig* aclprofCreateConfig(uint32_t* deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
                                   const aclprofAicoreEvents* aicoreEvents, uint64_t dataTypeConfig);
aclprofStepInfoPtr aclprofCreateStepInfo(void);
aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig);
NpdStatus aclprofDestroyStepInfo(aclprofStepInfoPtr stepInfo);
aclError aclprofFinalize(void);
NpdStatus aclprofGetStepTimestamp(aclprofStepInfoPtr stepInfo, aclprofStepTag stepTag, aclrtStream stream);
aclError aclprofGetSupportedFeatures(size_t* featuresSize, void** featuresData);
aclError aclprofGetSupportedFeaturesV2(size_t* featuresSize, void** featuresData);
aclError aclprofInit(const char* profilerResultPath, size_t length);
aclError aclprofMarkEx(const char* msg, size_t msgLen, aclrtStream stream);
aclError aclprofRegisterDeviceCallback(void);
aclError aclprofSetConfig(aclprofConfigType configType, const char* config, size_t configLength);
aclError aclprofStart(const aclprofConfig* profilerConfig);
aclError aclprofStop(const aclprofConfig* profilerConfig);
aclError aclprofWarmup(const aclprofConfig* profilerConfig);
acltdtChannelHandle* acltdtCreateChannelWithCapacity(uint32_t deviceId, const char* name, size_t capacity);
acltdtDataset* acltdtCreateDataset(void);
aclError acltdtDestroyChannel(acltdtChannelHandle* handle);
aclError acltdtDestroyDataset(acltdtDataset* dataset);
void* acltdtGetDataAddrFromItem(const acltdtDataItem* dataItem);
acltdtDataItem* acltdtGetDataItem(const acltdtDataset* dataset, size_t index);
size_t acltdtGetDataSizeFromItem(const acltdtDataItem* dataItem);
aclDataType acltdtGetDataTypeFromItem(const acltdtDataItem* dataItem);
size_t acltdtGetDatasetSize(const acltdtDataset* dataset);
size_t acltdtGetDimNumFromItem(const acltdtDataItem* dataItem);
aclError acltdtGetDimsFromItem(const acltdtDataItem* dataItem, int64_t* dims, size_t dimNum);
aclError acltdtReceiveTensor(const acltdtChannelHandle* handle, acltdtDataset* dataset, int32_t timeout);

// ---- Runtime below AscendCL
// ------------------------------------------------------------------------------------------

rtError_t rtDevBinaryRegister(const rtDevBinary_t* bin, void** handle);
rtError_t rtFunctionRegister(void* binHandle, const void* stubFunc, const char* stubName, const void* devFunc,
                             uint32_t funcMode);
rtError_t rtGetC2cCtrlAddr(uint64_t* addr, uint32_t* len);
rtError_t rtKernelLaunch(const void* stubFunc, uint32_t blockDim, void* args, uint32_t argsSize, rtSmDesc_t* smDesc,
                         rtStream_t stream);

#ifdef __cplusplus
}  // extern "C"
#endif
