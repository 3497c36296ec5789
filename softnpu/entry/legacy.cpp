// Descriptors of the single-operator interface that came before aclnn. Clients build them and then run the operator
// with aclopCompileAndExecute, which softnpu refuses (refused.cpp): the objects are real, attributes are accepted and
// unused.
#include <atomic>
#include <string>
#include <vector>

#include "entry.h"
#include "runtime/arena.h"

using namespace softnpu;

namespace {

template <uint32_t kTag>
struct Tagged {
  std::atomic<uint32_t> tag{0};
  bool alive() const noexcept { return tag.load(std::memory_order_acquire) == kTag; }
  void live() noexcept { tag.store(kTag, std::memory_order_release); }
  void die() noexcept { tag.store(0, std::memory_order_release); }
};

}  // namespace

struct aclTensorDesc : Tagged<0x736e7421> {
  aclDataType dtype;
  aclFormat format;
  std::vector<int64_t> dims;
  std::string name;
};
struct aclDataBuffer : Tagged<0x736e7422> {
  void* data;
  size_t size;
};
struct aclopAttr : Tagged<0x736e7423> {};

namespace {

constinit Arena<aclTensorDesc> g_descs{"tensor descriptors", 64 * 1024};
constinit Arena<aclDataBuffer> g_buffers{"data buffers", 64 * 1024};
constinit Arena<aclopAttr> g_attributes{"attribute sets", 64 * 1024};

template <class T>
T& checked(Arena<T>& arena, const T* handle, const char* what) {
  if (T* object = arena.find(required(handle, what))) return *object;
  fail(ACL_ERROR_INVALID_PARAM, "%s %p is no live object", what, static_cast<const void*>(handle));
}

template <class T>
aclError end(const char* entry, Arena<T>& arena, const T* handle, const char* what) {
  return guard_release(entry, [&] {
    T& object = checked(arena, handle, what);
    object.die();
    arena.release(&object);
  });
}

aclError accept(const char* entry, aclopAttr* attributes, const char* name) {
  return guard(entry, [&] {
    checked(g_attributes, attributes, "attr");
    required(name, "attrName");
  });
}

void set_dims(aclTensorDesc& desc, int count, const int64_t* dims) {
  if (count < 0) fail(ACL_ERROR_INVALID_PARAM, "numDims %d is negative", count);
  if (count > 0) required(dims, "dims");
  desc.dims.assign(dims, dims + count);
}

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dtype, int count, const int64_t* dims, aclFormat format) {
  return guard_pointer("aclCreateTensorDesc", [&] {
    aclTensorDesc* desc = g_descs.acquire();
    set_dims(*desc, count, dims);
    desc->dtype = dtype;
    desc->format = format;
    desc->live();
    return desc;
  });
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { end("aclDestroyTensorDesc", g_descs, desc, "desc"); }

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  aclDataType dtype = ACL_DT_UNDEFINED;
  guard("aclGetTensorDescType", [&] { dtype = checked(g_descs, desc, "desc").dtype; });
  return dtype;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  aclFormat format = ACL_FORMAT_UNDEFINED;
  guard("aclGetTensorDescFormat", [&] { format = checked(g_descs, desc, "desc").format; });
  return format;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  size_t count = 0;
  guard("aclGetTensorDescNumDims", [&] { count = checked(g_descs, desc, "desc").dims.size(); });
  return count;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* size) {
  return guard("aclGetTensorDescDimV2", [&] {
    const auto& dims = checked(g_descs, desc, "desc").dims;
    if (index >= dims.size())
      fail(ACL_ERROR_INVALID_PARAM, "index %zu, but there are %zu dimensions", index, dims.size());
    *required(size, "dimSize") = dims[index];
  });
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  guard("aclSetTensorDescName", [&] { checked(g_descs, desc, "desc").name = name ? name : ""; });
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return guard("aclSetTensorFormat", [&] { checked(g_descs, desc, "desc").format = format; });
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType) {
  return guard("aclSetTensorPlaceMent", [&] { checked(g_descs, desc, "desc"); });
}

aclError aclSetTensorShape(aclTensorDesc* desc, int count, const int64_t* dims) {
  return guard("aclSetTensorShape", [&] { set_dims(checked(g_descs, desc, "desc"), count, dims); });
}

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  return guard_pointer("aclCreateDataBuffer", [&] {
    aclDataBuffer* buffer = g_buffers.acquire();
    buffer->data = data;
    buffer->size = size;
    buffer->live();
    return buffer;
  });
}

aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  return end("aclDestroyDataBuffer", g_buffers, buffer, "dataBuffer");
}

aclopAttr* aclopCreateAttr(void) {
  return guard_pointer("aclopCreateAttr", [] {
    aclopAttr* attributes = g_attributes.acquire();
    attributes->live();
    return attributes;
  });
}

void aclopDestroyAttr(const aclopAttr* attributes) { end("aclopDestroyAttr", g_attributes, attributes, "attr"); }

aclError aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t) {
  return accept("aclopSetAttrBool", attributes, name);
}

aclError aclopSetAttrDataType(aclopAttr* attributes, const char* name, aclDataType) {
  return accept("aclopSetAttrDataType", attributes, name);
}

aclError aclopSetAttrFloat(aclopAttr* attributes, const char* name, float) {
  return accept("aclopSetAttrFloat", attributes, name);
}

aclError aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t) {
  return accept("aclopSetAttrInt", attributes, name);
}

aclError aclopSetAttrListBool(aclopAttr* attributes, const char* name, int, const uint8_t*) {
  return accept("aclopSetAttrListBool", attributes, name);
}

aclError aclopSetAttrListFloat(aclopAttr* attributes, const char* name, int, const float*) {
  return accept("aclopSetAttrListFloat", attributes, name);
}

aclError aclopSetAttrListInt(aclopAttr* attributes, const char* name, int, const int64_t*) {
  return accept("aclopSetAttrListInt", attributes, name);
}

aclError aclopSetAttrListListInt(aclopAttr* attributes, const char* name, int, const int*, const int64_t* const*) {
  return accept("aclopSetAttrListListInt", attributes, name);
}

aclError aclopSetAttrString(aclopAttr* attributes, const char* name, const char*) {
  return accept("aclopSetAttrString", attributes, name);
}
