#include "legacy_objects.h"

#include <utility>

#include "runtime/arena.h"

using namespace softnpu;

namespace {

constexpr int kMostDims = 64;
constexpr int kMostValues = 1 << 16;  // of an attribute

constinit Arena<aclTensorDesc> g_descs{"tensor descriptors", 64 * 1024};
constinit Arena<aclDataBuffer> g_buffers{"data buffers", 64 * 1024};
constinit Arena<aclopAttr> g_attributes{"attribute sets", 64 * 1024};

template <class T>
T& live(T* object, const T* handle, const char* what) {
  if (object) return *object;
  fail(ACL_ERROR_INVALID_PARAM, "%s %p is no live object", what, static_cast<const void*>(required(handle, what)));
}

// Calls use(object) while no other thread can use or end it.
template <class T, class Use>
void with(Arena<T>& arena, const T* handle, const char* what, Use&& use) {
  T* object = arena.find(handle);
  T& held = live(object && object->hold() ? object : nullptr, handle, what);
  struct Release {
    T& object;
    ~Release() { object.let_go(); }
  } release{held};
  use(held);
}

template <class Use>
aclError with_desc(const char* entry, const aclTensorDesc* desc, Use&& use) {
  return guard(entry, [&] { with(g_descs, desc, "desc", use); });
}

template <class T>
aclError end(const char* entry, Arena<T>& arena, const T* handle, const char* what) {
  return guard_release(entry, [&] { arena.release(&live(arena.end(handle), handle, what)); });
}

template <class Make>
aclError set(const char* entry, aclopAttr* attributes, const char* name, Make&& make) {
  return guard(entry, [&] {
    LegacyAttribute value = make();
    with(g_attributes, attributes, "attr",
         [&](aclopAttr& a) { a.values.insert_or_assign(required(name, "attrName"), std::move(value)); });
  });
}

template <class T>
std::vector<T> read_values(int count, const T* values) {
  if (count < 0 || count > kMostValues) fail(ACL_ERROR_INVALID_PARAM, "%d values, not 0 to %d", count, kMostValues);
  if (count > 0) required(values, "values");
  return {values, values + count};
}

std::vector<int64_t> read_dims(int count, const int64_t* dims) {
  if (count < 0 || count > kMostDims) fail(ACL_ERROR_INVALID_PARAM, "numDims is %d, not 0 to %d", count, kMostDims);
  if (count > 0) required(dims, "dims");
  return {dims, dims + count};
}

}  // namespace

namespace softnpu {

LegacyTensor read_tensor(const aclTensorDesc* desc, const aclDataBuffer* buffer) {
  LegacyTensor t;
  with(g_descs, desc, "desc", [&](aclTensorDesc& d) {
    t.dtype = d.dtype, t.order = d.format, t.format = d.stored_format, t.on_host = d.on_host;
    t.sizes = d.dims, t.stored = d.stored, t.name = d.name;
  });
  with(g_buffers, buffer, "dataBuffer", [&](aclDataBuffer& b) { t.data = b.data, t.bytes = b.size; });
  return t;
}

std::map<std::string, LegacyAttribute> read_attributes(const aclopAttr* attributes) {
  std::map<std::string, LegacyAttribute> values;
  if (attributes) with(g_attributes, attributes, "attr", [&](aclopAttr& a) { values = a.values; });
  return values;
}

}  // namespace softnpu

aclTensorDesc* aclCreateTensorDesc(aclDataType dtype, int count, const int64_t* dims, aclFormat format) {
  return guard_pointer("aclCreateTensorDesc", [&] {
    std::vector<int64_t> sizes = read_dims(count, dims), stored = sizes;  // before there is a slot to lose
    aclTensorDesc* desc = g_descs.acquire();
    desc->dims = std::move(sizes);
    desc->stored = std::move(stored);
    desc->name.clear();
    desc->dtype = dtype;
    desc->format = desc->stored_format = format;
    desc->on_host = false;
    desc->begin();
    return desc;
  });
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { end("aclDestroyTensorDesc", g_descs, desc, "desc"); }

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  aclDataType dtype = ACL_DT_UNDEFINED;
  with_desc("aclGetTensorDescType", desc, [&](aclTensorDesc& d) { dtype = d.dtype; });
  return dtype;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  aclFormat format = ACL_FORMAT_UNDEFINED;
  with_desc("aclGetTensorDescFormat", desc, [&](aclTensorDesc& d) { format = d.format; });
  return format;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  size_t count = 0;
  with_desc("aclGetTensorDescNumDims", desc, [&](aclTensorDesc& d) { count = d.dims.size(); });
  return count;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* size) {
  return guard("aclGetTensorDescDimV2", [&] {
    required(size, "dimSize");
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) {
      if (index >= d.dims.size())
        fail(ACL_ERROR_INVALID_PARAM, "index %zu, but there are %zu dimensions", index, d.dims.size());
      *size = d.dims[index];
    });
  });
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  guard("aclSetTensorDescName", [&] {
    std::string text = name ? name : "";
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) { d.name.swap(text); });
  });
}

// These two say how the memory lies; the elements keep the order in which the descriptor was created.
aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return with_desc("aclSetTensorFormat", desc, [&](aclTensorDesc& d) { d.stored_format = format; });
}

aclError aclSetTensorShape(aclTensorDesc* desc, int count, const int64_t* dims) {
  return guard("aclSetTensorShape", [&] {
    std::vector<int64_t> sizes = read_dims(count, dims);
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) { d.stored.swap(sizes); });
  });
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType where) {
  return with_desc("aclSetTensorPlaceMent", desc, [&](aclTensorDesc& d) { d.on_host = where != ACL_MEMTYPE_DEVICE; });
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return guard_pointer("aclCreateDataBuffer", [&] {
    aclDataBuffer* buffer = g_buffers.acquire();
    buffer->data = data;
    buffer->size = size;
    buffer->begin();
    return buffer;
  });
}

aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  return end("aclDestroyDataBuffer", g_buffers, buffer, "dataBuffer");
}

aclopAttr* aclopCreateAttr(void) {
  return guard_pointer("aclopCreateAttr", [] {
    aclopAttr* attributes = g_attributes.acquire();
    attributes->values.clear();
    attributes->begin();
    return attributes;
  });
}

void aclopDestroyAttr(const aclopAttr* attributes) { end("aclopDestroyAttr", g_attributes, attributes, "attr"); }

aclError aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value) {
  return set("aclopSetAttrBool", attributes, name, [&] { return value != 0; });
}

aclError aclopSetAttrDataType(aclopAttr* attributes, const char* name, aclDataType value) {
  return set("aclopSetAttrDataType", attributes, name, [&] { return value; });
}

aclError aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value) {
  return set("aclopSetAttrFloat", attributes, name, [&] { return value; });
}

aclError aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value) {
  return set("aclopSetAttrInt", attributes, name, [&] { return value; });
}

aclError aclopSetAttrListBool(aclopAttr* attributes, const char* name, int count, const uint8_t* values) {
  return set("aclopSetAttrListBool", attributes, name, [&] { return read_values(count, values); });
}

aclError aclopSetAttrListFloat(aclopAttr* attributes, const char* name, int count, const float* values) {
  return set("aclopSetAttrListFloat", attributes, name, [&] { return read_values(count, values); });
}

aclError aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values) {
  return set("aclopSetAttrListInt", attributes, name, [&] { return read_values(count, values); });
}

aclError aclopSetAttrListListInt(aclopAttr* attributes, const char* name, int count, const int* counts,
                                 const int64_t* const* lists) {
  return set("aclopSetAttrListListInt", attributes, name, [&] {
    const std::vector<int> sizes = read_values(count, counts);
    if (count > 0) required(lists, "values");
    std::vector<std::vector<int64_t>> values;
    for (int i = 0; i < count; i++) values.push_back(read_values(sizes[i], lists[i]));
    return values;
  });
}

aclError aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value) {
  return set("aclopSetAttrString", attributes, name, [&] { return std::string(required(value, "attrValue")); });
}
