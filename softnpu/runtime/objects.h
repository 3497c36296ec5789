// The operator argument objects behind the opaque aclTensor*, aclScalar*, ... handles. Created through the C functions
// of abi/aclnn.h, read by the kernels library. Each starts with a tag that is cleared on destroy, so stale handles are
// caught.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl_types.h"

enum class ObjectTag : uint32_t {
  dead = 0,
  tensor = 0x736e7401,
  scalar = 0x736e7402,
  int_array = 0x736e7403,
  bool_array = 0x736e7404,
  tensor_list = 0x736e7405,
  scalar_list = 0x736e7406,
  float_array = 0x736e7407,
  executor = 0x736e7408,
};

struct aclTensor {
  ObjectTag tag = ObjectTag::tensor;
  aclDataType dtype;
  aclFormat format;
  int64_t offset;  // in elements, from `data`
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t storage_elements;      // product of the storage dims
  void* data;                    // device address of the storage (may be NULL when it has no elements)
};

struct aclScalar {
  ObjectTag tag = ObjectTag::scalar;
  aclDataType dtype;
  alignas(16) unsigned char value[16];
};

struct aclIntArray {
  ObjectTag tag = ObjectTag::int_array;
  std::vector<int64_t> values;
};

struct aclBoolArray {
  ObjectTag tag = ObjectTag::bool_array;
  std::vector<uint8_t> values;
};

struct aclFloatArray {
  ObjectTag tag = ObjectTag::float_array;
  std::vector<float> values;
};

struct aclTensorList {
  ObjectTag tag = ObjectTag::tensor_list;
  std::vector<aclTensor*> values;  // owned; an element may be NULL
};

struct aclScalarList {
  ObjectTag tag = ObjectTag::scalar_list;
  std::vector<aclScalar*> values;  // owned
};

#pragma GCC visibility push(default)
namespace softnpu {

// Whether `object` is a live argument object of that kind. True memory is never read beyond softnpu's own: NULL, stale,
// foreign and arbitrary pointers give false. (Executors belong to the kernels library and are unknown here.)
bool is_live(const void* object, ObjectTag tag) noexcept;

// Takes a copy of `strides` and `sizes`; see aclCreateTensor. Throws Failure.
aclTensor* create_tensor(const int64_t* sizes, uint64_t rank, aclDataType dtype, const int64_t* strides, int64_t offset,
                         aclFormat format, const int64_t* storage_sizes, uint64_t storage_rank, void* data);
aclScalar* create_scalar(const void* value, aclDataType dtype);
aclIntArray* create_int_array(const int64_t* values, uint64_t size);
aclBoolArray* create_bool_array(const bool* values, uint64_t size);
aclTensorList* create_tensor_list(const aclTensor* const* values, uint64_t size);
aclScalarList* create_scalar_list(const aclScalar* const* values, uint64_t size);

// Each throws Failure(161002) for what is no live object of its kind, and accepts NULL. Lists destroy their elements.
void destroy(const aclTensor* tensor);
void destroy(const aclScalar* scalar);
void destroy(const aclIntArray* array);
void destroy(const aclBoolArray* array);
void destroy(const aclTensorList* list);
void destroy(const aclScalarList* list);

size_t item_size(aclDataType dtype);  // bytes; 0 for types without a whole number of bytes, or unknown ones

}  // namespace softnpu
#pragma GCC visibility pop
