#include "objects.h"

#include <algorithm>
#include <cstring>

#include "arena.h"
#include "error.h"

namespace softnpu {

namespace {

// What the arena needs to know of an object. Slots are reused with their vectors, so the steady state allocates
// nothing.
template <class T, ObjectTag kLive>
struct Slot : T {
  Slot() { this->tag = ObjectTag::dead; }
  bool alive() const noexcept { return this->tag == kLive; }
};

template <class T, ObjectTag kLive>
struct Kind {
  using SlotType = Slot<T, kLive>;
  Arena<SlotType> arena;

  // Not yet alive: the caller fills it in, then sets the tag.
  T* take() { return arena.acquire(); }
  static T* finish(T* object) {
    object->tag = kLive;
    return object;
  }
  void end(const T* object, const char* what) {
    if (!object) return;
    SlotType* slot = arena.find(object);
    if (!slot) fail(ACLNN_ERR_PARAM_INVALID, "%p is no live %s", static_cast<const void*>(object), what);
    slot->tag = ObjectTag::dead;
    arena.release(slot);
  }
};

constinit Kind<aclTensor, ObjectTag::tensor> g_tensors{{"tensors", 512 * 1024}};
constinit Kind<aclScalar, ObjectTag::scalar> g_scalars{{"scalars", 512 * 1024}};
constinit Kind<aclIntArray, ObjectTag::int_array> g_int_arrays{{"int arrays", 256 * 1024}};
constinit Kind<aclBoolArray, ObjectTag::bool_array> g_bool_arrays{{"bool arrays", 256 * 1024}};
constinit Kind<aclTensorList, ObjectTag::tensor_list> g_tensor_lists{{"tensor lists", 256 * 1024}};
constinit Kind<aclScalarList, ObjectTag::scalar_list> g_scalar_lists{{"scalar lists", 256 * 1024}};

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

template <class List, class Element, ObjectTag kList, ObjectTag kElement>
List* create_list(Kind<List, kList>& lists, const Kind<Element, kElement>& elements, const Element* const* values,
                  uint64_t size, bool null_allowed) {
  check_list(values, size);
  for (uint64_t i = 0; i < size; ++i) {
    if (!values[i] && null_allowed) continue;
    if (!elements.arena.find(values[i]))
      fail(ACLNN_ERR_PARAM_INVALID, "value[%llu] = %p is no live object of its kind", (unsigned long long)i,
           static_cast<const void*>(values[i]));
  }
  List* list = lists.take();
  list->values.resize(size);
  std::transform(values, values + size, list->values.begin(), [](const Element* e) { return const_cast<Element*>(e); });
  return lists.finish(list);
}

template <class List, ObjectTag kList>
void destroy_list(Kind<List, kList>& lists, const List* list, const char* what) {
  if (!list) return;
  auto* slot = lists.arena.find(list);
  if (!slot) fail(ACLNN_ERR_PARAM_INVALID, "%p is no live %s", static_cast<const void*>(list), what);
  for (const auto* element : slot->values) destroy(element);
  slot->values.clear();
  lists.end(list, what);
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

bool is_live(const void* object, ObjectTag tag) noexcept {
  switch (tag) {
    case ObjectTag::tensor:
      return g_tensors.arena.find(object) != nullptr;
    case ObjectTag::scalar:
      return g_scalars.arena.find(object) != nullptr;
    case ObjectTag::int_array:
      return g_int_arrays.arena.find(object) != nullptr;
    case ObjectTag::bool_array:
      return g_bool_arrays.arena.find(object) != nullptr;
    case ObjectTag::tensor_list:
      return g_tensor_lists.arena.find(object) != nullptr;
    case ObjectTag::scalar_list:
      return g_scalar_lists.arena.find(object) != nullptr;
    default:
      return false;
  }
}

aclTensor* create_tensor(const int64_t* sizes, uint64_t rank, aclDataType dtype, const int64_t* strides, int64_t offset,
                         aclFormat format, const int64_t* storage_sizes, uint64_t storage_rank, void* data) {
  if (rank > kMaxRank || storage_rank > kMaxRank) fail(ACLNN_ERR_PARAM_INVALID, "more than 64 dimensions");
  if (!sizes && rank != 0) fail(ACLNN_ERR_PARAM_NULLPTR, "view_dims is NULL");
  if (!storage_sizes && storage_rank != 0) fail(ACLNN_ERR_PARAM_NULLPTR, "storage_dims is NULL");
  if (offset < 0) fail(ACLNN_ERR_PARAM_INVALID, "offset %lld is negative", (long long)offset);
  const int64_t elements = product(sizes, rank, "view_dims");
  const int64_t stored = product(storage_sizes, storage_rank, "storage_dims");
  aclTensor* tensor = g_tensors.take();
  tensor->dtype = dtype;
  tensor->format = format;
  tensor->offset = offset;
  tensor->sizes.assign(sizes, sizes + rank);
  tensor->strides.resize(rank);
  if (strides) {
    std::copy_n(strides, rank, tensor->strides.begin());
  } else {
    int64_t step = 1;
    for (uint64_t i = rank; i-- > 0; step *= std::max<int64_t>(sizes[i], 1)) tensor->strides[i] = step;
  }
  tensor->storage_elements = storage_sizes ? stored : elements;
  tensor->data = data;
  return g_tensors.finish(tensor);
}

aclScalar* create_scalar(const void* value, aclDataType dtype) {
  if (!value) fail(ACLNN_ERR_PARAM_NULLPTR, "value is NULL");
  const size_t bytes = item_size(dtype);
  if (bytes == 0) fail(ACLNN_ERR_PARAM_INVALID, "data type %d cannot be a scalar", static_cast<int>(dtype));
  aclScalar* scalar = g_scalars.take();
  scalar->dtype = dtype;
  memset(scalar->value, 0, sizeof scalar->value);
  memcpy(scalar->value, value, bytes);
  return g_scalars.finish(scalar);
}

aclIntArray* create_int_array(const int64_t* values, uint64_t size) {
  check_list(values, size);
  aclIntArray* array = g_int_arrays.take();
  array->values.assign(values, values + size);
  return g_int_arrays.finish(array);
}

aclBoolArray* create_bool_array(const bool* values, uint64_t size) {
  check_list(values, size);
  aclBoolArray* array = g_bool_arrays.take();
  array->values.assign(values, values + size);
  return g_bool_arrays.finish(array);
}

aclTensorList* create_tensor_list(const aclTensor* const* values, uint64_t size) {
  return create_list(g_tensor_lists, g_tensors, values, size, true);
}

aclScalarList* create_scalar_list(const aclScalar* const* values, uint64_t size) {
  return create_list(g_scalar_lists, g_scalars, values, size, false);
}

void destroy(const aclTensor* tensor) { g_tensors.end(tensor, "aclTensor"); }
void destroy(const aclScalar* scalar) { g_scalars.end(scalar, "aclScalar"); }
void destroy(const aclIntArray* array) { g_int_arrays.end(array, "aclIntArray"); }
void destroy(const aclBoolArray* array) { g_bool_arrays.end(array, "aclBoolArray"); }
void destroy(const aclTensorList* list) { destroy_list(g_tensor_lists, list, "aclTensorList"); }
void destroy(const aclScalarList* list) { destroy_list(g_scalar_lists, list, "aclScalarList"); }

}  // namespace softnpu
