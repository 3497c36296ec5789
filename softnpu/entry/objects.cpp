// Operator argument objects: aclCreateTensor and its kin.
#include "runtime/objects.h"

#include <algorithm>

#include "entry.h"

using namespace softnpu;

aclTensor* aclCreateTensor(const int64_t* sizes, uint64_t rank, aclDataType dtype, const int64_t* strides,
                           int64_t offset, aclFormat format, const int64_t* storage, uint64_t storage_rank,
                           void* data) {
  return guard_pointer("aclCreateTensor", [&] {
    return create_tensor(sizes, rank, dtype, strides, offset, format, storage, storage_rank, data);
  });
}

aclScalar* aclCreateScalar(void* value, aclDataType dtype) {
  return guard_pointer("aclCreateScalar", [&] { return create_scalar(value, dtype); });
}

aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t size) {
  return guard_pointer("aclCreateIntArray", [&] { return create_int_array(values, size); });
}

aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t size) {
  return guard_pointer("aclCreateBoolArray", [&] { return create_bool_array(values, size); });
}

aclTensorList* aclCreateTensorList(const aclTensor* const* values, uint64_t size) {
  return guard_pointer("aclCreateTensorList", [&] { return create_tensor_list(values, size); });
}

aclScalarList* aclCreateScalarList(const aclScalar* const* values, uint64_t size) {
  return guard_pointer("aclCreateScalarList", [&] { return create_scalar_list(values, size); });
}

int aclDestroyTensor(const aclTensor* tensor) {
  return guard_release("aclDestroyTensor", [&] { destroy(tensor); });
}

int aclDestroyScalar(const aclScalar* scalar) {
  return guard_release("aclDestroyScalar", [&] { destroy(scalar); });
}

int aclDestroyIntArray(const aclIntArray* array) {
  return guard_release("aclDestroyIntArray", [&] { destroy(array); });
}

int aclDestroyBoolArray(const aclBoolArray* array) {
  return guard_release("aclDestroyBoolArray", [&] { destroy(array); });
}

int aclDestroyTensorList(const aclTensorList* list) {
  return guard_release("aclDestroyTensorList", [&] { destroy(list); });
}

int aclDestroyScalarList(const aclScalarList* list) {
  return guard_release("aclDestroyScalarList", [&] { destroy(list); });
}

// The caller releases the array with delete[].
int aclGetViewShape(const aclTensor* tensor, int64_t** sizes, uint64_t* rank) {
  return guard("aclGetViewShape", [&] {
    required(sizes, "view_dims"), required(rank, "view_dims_num");
    const Held<aclTensor> held(tensor);
    if (!held) fail(ACLNN_ERR_PARAM_INVALID, "tensor is no live aclTensor");
    *sizes = new int64_t[held->sizes.size()];
    std::copy(held->sizes.begin(), held->sizes.end(), *sizes);
    *rank = held->sizes.size();
  });
}

// A pool for descriptors of one call. softnpu's objects come from arenas of their own, so there is nothing to open or
// close.
int InitHugeMemThreadLocal(void*, bool) { return 0; }
void UnInitHugeMemThreadLocal(void*, bool) {}
void ReleaseHugeMem(void*, bool) {}
