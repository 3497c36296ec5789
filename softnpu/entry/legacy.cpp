// The single-operator interface that came before aclnn. Clients build descriptors and then run an operator with
// aclopCompileAndExecute, which softnpu has for those of the float status alone: the objects are real, attributes are
// accepted and unused.
#include <dlfcn.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "entry.h"
#include "runtime/arena.h"
#include "runtime/float_status.h"
#include "runtime/task.h"

using namespace softnpu;

struct aclTensorDesc : softnpu::Life {
  aclDataType dtype;
  aclFormat format;
  std::vector<int64_t> dims;
  std::string name;
};
struct aclDataBuffer : softnpu::Life {
  void* data;
  size_t size;
};
struct aclopAttr : softnpu::Life {};

namespace {

constexpr int kMostDims = 64;

constinit Arena<aclTensorDesc> g_descs{"tensor descriptors", 64 * 1024};
constinit Arena<aclDataBuffer> g_buffers{"data buffers", 64 * 1024};
constinit Arena<aclopAttr> g_attributes{"attribute sets", 64 * 1024};

template <class T>
T& live(T* object, const T* handle, const char* what) {
  if (object) return *object;
  fail(ACL_ERROR_INVALID_PARAM, "%s %p is no live object", what, static_cast<const void*>(required(handle, what)));
}

// Calls use(object), which must not throw, while no other thread can use or end it.
template <class T, class Use>
void with(Arena<T>& arena, const T* handle, const char* what, Use&& use) {
  T* object = arena.find(handle);
  T& held = live(object && object->hold() ? object : nullptr, handle, what);
  use(held);
  held.let_go();
}

template <class Use>
aclError with_desc(const char* entry, const aclTensorDesc* desc, Use&& use) {
  return guard(entry, [&] { with(g_descs, desc, "desc", use); });
}

template <class T>
aclError end(const char* entry, Arena<T>& arena, const T* handle, const char* what) {
  return guard_release(entry, [&] { arena.release(&live(arena.end(handle), handle, what)); });
}

aclError accept(const char* entry, aclopAttr* attributes, const char* name) {
  return guard(entry, [&] {
    required(name, "attrName");
    with(g_attributes, attributes, "attr", [](aclopAttr&) {});
  });
}

// Over the only tensor of the operator `type`.
template <class Buffers>
Task* status_task(FloatStatus what, const char* type, int count, const aclTensorDesc* const descs[], Buffers buffers) {
  if (count != 1) fail(ACL_ERROR_INVALID_PARAM, "%s has one tensor of %d numbers", type, kFloatStatusNumbers);
  aclDataType dtype = ACL_DT_UNDEFINED;
  void* numbers = nullptr;
  with(g_descs, required(descs, "desc")[0], "desc", [&](aclTensorDesc& d) { dtype = d.dtype; });
  with(g_buffers, static_cast<const aclDataBuffer*>(required(buffers, "buffers")[0]), "dataBuffer",
       [&](aclDataBuffer& b) { numbers = b.data; });
  return float_status_task(what, required(numbers, "the float status"), dtype);
}

std::vector<int64_t> read_dims(int count, const int64_t* dims) {
  if (count < 0 || count > kMostDims) fail(ACL_ERROR_INVALID_PARAM, "numDims is %d, not 0 to %d", count, kMostDims);
  if (count > 0) required(dims, "dims");
  return {dims, dims + count};
}

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dtype, int count, const int64_t* dims, aclFormat format) {
  return guard_pointer("aclCreateTensorDesc", [&] {
    std::vector<int64_t> sizes = read_dims(count, dims);  // before there is a slot to lose
    aclTensorDesc* desc = g_descs.acquire();
    desc->dims = std::move(sizes);
    desc->name.clear();
    desc->dtype = dtype;
    desc->format = format;
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
    size_t count = 0;
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) {
      count = d.dims.size();
      if (index < count) *size = d.dims[index];
    });
    if (index >= count) fail(ACL_ERROR_INVALID_PARAM, "index %zu, but there are %zu dimensions", index, count);
  });
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  guard("aclSetTensorDescName", [&] {
    std::string text = name ? name : "";
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) { d.name.swap(text); });
  });
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  return with_desc("aclSetTensorFormat", desc, [&](aclTensorDesc& d) { d.format = format; });
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType) {
  return with_desc("aclSetTensorPlaceMent", desc, [](aclTensorDesc&) {});
}

aclError aclSetTensorShape(aclTensorDesc* desc, int count, const int64_t* dims) {
  return guard("aclSetTensorShape", [&] {
    std::vector<int64_t> sizes = read_dims(count, dims);
    with(g_descs, desc, "desc", [&](aclTensorDesc& d) { d.dims.swap(sizes); });
  });
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
    attributes->begin();
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

// Chips before the Ascend910B1 write the status into the input of NPUGetFloatStatus; later ones have the V2 operators.
aclError aclopCompileAndExecute(const char* type, int input_count, const aclTensorDesc* const input_descs[],
                                const aclDataBuffer* const inputs[], int output_count,
                                const aclTensorDesc* const output_descs[], aclDataBuffer* const outputs[],
                                const aclopAttr*, aclopEngineType, aclopCompileType, const char*, aclrtStream stream) {
  return guard("aclopCompileAndExecute", [&] {
    const std::string_view name = required(type, "opType");
    if (name == "NPUAllocFloatStatus")
      submit(stream, status_task(FloatStatus::make, type, output_count, output_descs, outputs));
    else if (name == "NPUGetFloatStatusV2")
      submit(stream, status_task(FloatStatus::read, type, output_count, output_descs, outputs));
    else if (name == "NPUGetFloatStatus")
      submit(stream, status_task(FloatStatus::read, type, input_count, input_descs, inputs));
    else if (name == "NPUClearFloatStatusV2")
      submit(stream, float_status_task(FloatStatus::clear, nullptr, ACL_DT_UNDEFINED));
    else if (name == "NPUClearFloatStatus")
      submit(stream, status_task(FloatStatus::clear, type, output_count, output_descs, outputs));
    else
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "softnpu has no operator %s and no Ascend cores to compile it for", type);
  });
}

// Executors are libopapi.so's, which this library does not know. The official client looks the name up in
// libacl_op_compiler.so.
aclError aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return guard("aclDestroyAclOpExecutor", [&] {
    void* const operators = dlopen("libopapi.so", RTLD_LAZY | RTLD_NOLOAD);
    using Destroy = decltype(aclDestroyAclOpExecutor)*;
    const auto destroy = operators ? reinterpret_cast<Destroy>(dlsym(operators, "aclDestroyAclOpExecutor")) : nullptr;
    if (operators) dlclose(operators);
    if (!destroy || destroy == &aclDestroyAclOpExecutor)
      fail(ACL_ERROR_INVALID_PARAM, "executor %p was made by no operator of this process",
           static_cast<void*>(executor));
    if (const aclError code = destroy(executor)) fail(code, "%s", aclGetRecentErrMsg());
  });
}
