// The operator argument objects behind the opaque aclTensor*, aclScalar*, ... handles. Created through the C functions
// of abi/aclnn.h, read by the kernels library. Nobody reads one but through Held, which knows live objects of its kind
// from everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acl_types.h"
#include "life.h"

struct aclTensor : softnpu::Life {
  aclDataType dtype;
  aclFormat format;
  int64_t offset;  // in elements, from `data`
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;        // in elements
  int64_t storage_elements;            // product of the storage dims
  std::vector<int64_t> storage_sizes;  // of a private format, whose elements lie in blocks; empty else
  void* data;                          // device address of the storage (may be NULL when it has no elements)
};

struct aclScalar : softnpu::Life {
  aclDataType dtype;
  alignas(16) unsigned char value[16];
};

struct aclIntArray : softnpu::Life {
  std::vector<int64_t> values;
};

struct aclBoolArray : softnpu::Life {
  std::vector<uint8_t> values;
};

namespace softnpu {

// A handle to come back to, which its object may not outlive: NULL, or that very object and no later one in its place.
template <class T>
struct Remembered {
  T* object = nullptr;
  uint64_t number = Life::kAny;
};

}  // namespace softnpu

struct aclTensorList : softnpu::Life {
  std::vector<softnpu::Remembered<aclTensor>> values;  // owned; an element may be NULL
};

struct aclScalarList : softnpu::Life {
  std::vector<softnpu::Remembered<aclScalar>> values;  // owned
};

#pragma GCC visibility push(default)
namespace softnpu {

// The object behind a handle, held against its end by another thread; empty for what is no live object of that kind.
// No memory is read but softnpu's own, so NULL, stale, foreign and arbitrary pointers all do. Not to be held twice.
template <class T>
class Held {
 public:
  explicit Held(const T* handle, uint64_t number = Life::kAny) noexcept;
  explicit Held(const Remembered<T>& handle) noexcept : Held(handle.object, handle.number) {}
  ~Held() {
    if (object_) object_->let_go();
  }
  Held(const Held&) = delete;
  explicit operator bool() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }

 private:
  T* object_;
};

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
