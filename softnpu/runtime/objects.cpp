#include "objects.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arena.h"
#include "error.h"

namespace softnpu {

namespace {

// Slots are reused with their vectors, so the steady state allocates nothing.
constinit Arena<aclTensor> g_tensors{"tensors", 512 * 1024};
constinit Arena<aclScalar> g_scalars{"scalars", 512 * 1024};
constinit Arena<aclIntArray> g_int_arrays{"int arrays", 256 * 1024};
constinit Arena<aclBoolArray> g_bool_arrays{"bool arrays", 256 * 1024};
constinit Arena<aclTensorList> g_tensor_lists{"tensor lists", 256 * 1024};
constinit Arena<aclScalarList> g_scalar_lists{"scalar lists", 256 * 1024};

Arena<aclTensor>& arena_of(const aclTensor*) { return g_tensors; }
Arena<aclScalar>& arena_of(const aclScalar*) { return g_scalars; }
Arena<aclIntArray>& arena_of(const aclIntArray*) { return g_int_arrays; }
Arena<aclBoolArray>& arena_of(const aclBoolArray*) { return g_bool_arrays; }
Arena<aclTensorList>& arena_of(const aclTensorList*) { return g_tensor_lists; }
Arena<aclScalarList>& arena_of(const aclScalarList*) { return g_scalar_lists; }

// A slot to fill in; it goes back if that throws.
template <class T>
class Fresh {
 public:
  ~Fresh() {
    if (object_) arena().release(object_);
  }
  T* operator->() { return object_; }
  T* finish() {
    object_->begin();
    return std::exchange(object_, nullptr);
  }

 private:
  static Arena<T>& arena() { return arena_of(static_cast<T*>(nullptr)); }
  T* object_ = arena().acquire();
};

template <class T>
T* end(const T* object, const char* what) {
  T* ended = arena_of(object).end(object);
  if (!ended) fail(ACLNN_ERR_PARAM_INVALID, "%p is no live %s", static_cast<const void*>(object), what);
  return ended;
}

template <class T>
void destroy(const T* object, const char* what) {
  if (object) arena_of(object).release(end(object, what));
}

constexpr uint64_t kMaxRank = 64;
constexpr uint64_t kMaxItems = uint64_t{1} << 32;

void check_list(const void* values, uint64_t size) {
  if (!values && size != 0) fail(ACLNN_ERR_PARAM_NULLPTR, "value is NULL, but size is %llu", (unsigned long long)size);
  if (size > kMaxItems) fail(ACLNN_ERR_PARAM_INVALID, "size %llu is absurd", (unsigned long long)size);
}

int64_t product(const int64_t* sizes, uint64_t rank, const char* what) {
  int64_t elements = 1;
  for (uint64_t i = 0; i < rank; ++i)
    if (sizes[i] < 0 || __builtin_mul_overflow(elements, sizes[i], &elements))
      fail(ACLNN_ERR_PARAM_INVALID, "%s[%llu] = %lld is negative or too large", what, (unsigned long long)i,
           (long long)sizes[i]);
  return elements;
}

template <class List, class Element>
List* create_list(const Element* const* values, uint64_t size, bool null_allowed) {
  check_list(values, size);
  Fresh<List> list;
  list->values.clear();
  for (uint64_t i = 0; i < size; ++i) {
    if (!values[i] && null_allowed) {
      list->values.emplace_back();
      continue;
    }
    Held<Element> element(values[i]);
    if (!element)
      fail(ACLNN_ERR_PARAM_INVALID, "value[%llu] = %p is no live object of its kind", (unsigned long long)i,
           static_cast<const void*>(values[i]));
    list->values.push_back({&*element, element->number()});
  }
  return list.finish();
}

// Elements that somebody destroyed before are passed over: their places may have other users.
template <class List>
void destroy_list(const List* list, const char* what) {
  if (!list) return;
  List* ended = end(list, what);
  for (const auto& element : ended->values)
    if (element.object && element.object->hold(element.number)) {
      element.object->end_held();
      arena_of(element.object).release(element.object);
    }
  arena_of(list).release(ended);
}

}  // namespace

size_t item_size(aclDataType dtype) {
  switch (dtype) {
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_BOOL:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_DOUBLE:
    case ACL_INT64:
    case ACL_UINT64:
    case ACL_COMPLEX64:
      return 8;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 0;
  }
}

template <class T>
Held<T>::Held(const T* handle, uint64_t number) noexcept : object_(arena_of(handle).find(handle)) {
  if (object_ && !object_->hold(number)) object_ = nullptr;
}
template class __attribute__((visibility("default"))) Held<aclTensor>;
template class __attribute__((visibility("default"))) Held<aclScalar>;
template class __attribute__((visibility("default"))) Held<aclIntArray>;
template class __attribute__((visibility("default"))) Held<aclBoolArray>;
template class __attribute__((visibility("default"))) Held<aclTensorList>;
template class __attribute__((visibility("default"))) Held<aclScalarList>;

aclTensor* create_tensor(const int64_t* sizes, uint64_t rank, aclDataType dtype, const int64_t* strides, int64_t offset,
                         aclFormat format, const int64_t* storage_sizes, uint64_t storage_rank, void* data) {
  if (rank > kMaxRank || storage_rank > kMaxRank) fail(ACLNN_ERR_PARAM_INVALID, "more than 64 dimensions");
  if (!sizes && rank != 0) fail(ACLNN_ERR_PARAM_NULLPTR, "view_dims is NULL");
  if (!storage_sizes && storage_rank != 0) fail(ACLNN_ERR_PARAM_NULLPTR, "storage_dims is NULL");
  if (offset < 0) fail(ACLNN_ERR_PARAM_INVALID, "offset %lld is negative", (long long)offset);
  const int64_t elements = product(sizes, rank, "view_dims");
  const int64_t stored = product(storage_sizes, storage_rank, "storage_dims");
  Fresh<aclTensor> tensor;
  tensor->dtype = dtype;
  tensor->format = format;
  tensor->offset = offset;
  tensor->sizes.assign(sizes, sizes + rank);
  tensor->strides.resize(rank);
  if (strides) {
    std::copy_n(strides, rank, tensor->strides.begin());
  } else {
    int64_t step = 1;
    for (uint64_t i = rank; i-- > 0;) {
      tensor->strides[i] = step;
      if (__builtin_mul_overflow(step, std::max<int64_t>(sizes[i], 1), &step))
        step = 0;  // of a tensor without elements
    }
  }
  tensor->storage_elements = storage_sizes ? stored : elements;
  tensor->data = data;
  tensor->storage_sizes.clear();  // the object may have described another tensor before
  if (format == ACL_FORMAT_FRACTAL_NZ || format == ACL_FORMAT_NC1HWC0)
    tensor->storage_sizes.assign(storage_sizes, storage_sizes + storage_rank);
  return tensor.finish();
}

aclScalar* create_scalar(const void* value, aclDataType dtype) {
  if (!value) fail(ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
  const size_t bytes = item_size(dtype);
  if (bytes == 0) fail(ACLNN_ERR_PARAM_INVALID, "data type %d cannot be a scalar", static_cast<int>(dtype));
  Fresh<aclScalar> scalar;
  scalar->dtype = dtype;
  memset(scalar->value, 0, sizeof scalar->value);
  memcpy(scalar->value, value, bytes);
  return scalar.finish();
}

aclIntArray* create_int_array(const int64_t* values, uint64_t size) {
  check_list(values, size);
  Fresh<aclIntArray> array;
  array->values.assign(values, values + size);
  return array.finish();
}

aclBoolArray* create_bool_array(const bool* values, uint64_t size) {
  check_list(values, size);
  Fresh<aclBoolArray> array;
  array->values.assign(values, values + size);
  return array.finish();
}

aclTensorList* create_tensor_list(const aclTensor* const* values, uint64_t size) {
  return create_list<aclTensorList>(values, size, true);
}

aclScalarList* create_scalar_list(const aclScalar* const* values, uint64_t size) {
  return create_list<aclScalarList>(values, size, false);
}

void destroy(const aclTensor* tensor) { destroy(tensor, "aclTensor"); }
void destroy(const aclScalar* scalar) { destroy(scalar, "aclScalar"); }
void destroy(const aclIntArray* array) { destroy(array, "aclIntArray"); }
void destroy(const aclBoolArray* array) { destroy(array, "aclBoolArray"); }
void destroy(const aclTensorList* list) { destroy_list(list, "aclTensorList"); }
void destroy(const aclScalarList* list) { destroy_list(list, "aclScalarList"); }

}  // namespace softnpu
