// The operator ABI of CANN: argument objects, the two-phase call and the executor cache. Declarations only; see acl.h.
// Every operator X of aclnn.yaml is a pair of functions:
//   aclnnStatus aclnnXGetWorkspaceSize(<arguments>, uint64_t* workspace_size, aclOpExecutor** executor);
//   aclnnStatus aclnnX(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);
// Argument objects may be destroyed as soon as phase one has returned; the executor is consumed by phase two.
#pragma once

#include "acl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef aclnnStatus (*aclnnLaunch)(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                   aclrtStream stream);

// Note [Executor cache]: a client serialises an operator's name and arguments into a key, lists the addresses of its
// tensors in argument order with AddTensorAddrToCachedList, and asks PTAFindExecCache. A hit returns an executor that
// is ready for phase two with the new addresses. On a miss the client calls phase one with the key set
// (SetPTACacheHashKey), and the provider keeps the plan under it. All state is per thread, between
// InitPTACacheThreadLocal and UnInit...
bool CanUsePTACache(const char* arg0);
int InitHugeMemThreadLocal(void* arg0, bool arg1);
void InitPTACacheThreadLocal(void);
aclOpExecutor* PTAFindExecCache(uint8_t* arg0, size_t arg1, uint64_t* arg2);
aclOpExecutor* PTAGetExecCache(uint64_t arg0, uint64_t* arg1);
void ReleaseHugeMem(void* arg0, bool arg1);
void SetPTACacheHashKey(uint8_t* arg0, size_t arg1);
void SetPTAHashKey(uint64_t arg0);
void UnInitHugeMemThreadLocal(void* arg0, bool arg1);
void UnInitPTACacheThreadLocal(void);
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);
aclDataBuffer* aclCreateDataBuffer(void* data, size_t size);
aclGraphDumpOption* aclCreateGraphDumpOpt(void);
aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
aclScalar* aclCreateScalar(void* value, aclDataType data_type);
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size);
aclTensor* aclCreateTensor(const int64_t* view_dims, uint64_t view_dims_num, aclDataType data_type,
                           const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storage_dims,
                           uint64_t storage_dims_num, void* tensor_data);
aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format);
aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);
aclError aclDestroyAclOpExecutor(aclOpExecutor* executor);
int aclDestroyBoolArray(const aclBoolArray* array);
aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer);
aclError aclDestroyGraphDumpOpt(aclGraphDumpOption* aclGraphDumpOpt);
int aclDestroyIntArray(const aclIntArray* array);
int aclDestroyScalar(const aclScalar* scalar);
int aclDestroyScalarList(const aclScalarList* array);
int aclDestroyTensor(const aclTensor* tensor);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
int aclDestroyTensorList(const aclTensorList* array);
int aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor* source, int format, int data_type, int64_t** storage_dims,
                                             uint64_t* storage_dims_num, int* actual_format);
int aclGetViewShape(const aclTensor* tensor, int64_t** view_dims, uint64_t* view_dims_num);
void AddTensorAddrToCachedList(void* addr);  // looked up by the official client (name seen in its string table)

#ifdef __cplusplus
}  // extern "C"
#endif
