// The single-operator interface that came before aclnn: one call with descriptors, buffers and attributes. The float
// status is the runtime's; the other operators are libopapi.so's, as those of aclnn are.
#include <dlfcn.h>

#include <string>
#include <string_view>

#include "entry.h"
#include "legacy_objects.h"
#include "runtime/float_status.h"
#include "runtime/stream.h"
#include "runtime/task.h"

using namespace softnpu;

namespace {

constexpr int kMostTensors = 1024;

// Over the only tensor of the operator.
Task* status_task(FloatStatus what, const LegacyCall& call, const std::vector<LegacyTensor>& tensors) {
  if (tensors.size() != 1)
    fail(ACL_ERROR_INVALID_PARAM, "%s has one tensor of %d numbers", call.type.c_str(), kFloatStatusNumbers);
  return float_status_task(what, required(tensors[0].data, "the float status"), tensors[0].dtype);
}

// Chips before the Ascend910B1 write the status into the input of NPUGetFloatStatus; later ones have the V2 operators.
// NULL for another operator.
Task* status_task(const LegacyCall& call) {
  const std::string_view name = call.type;
  if (name == "NPUAllocFloatStatus") return status_task(FloatStatus::make, call, call.outputs);
  if (name == "NPUGetFloatStatusV2") return status_task(FloatStatus::read, call, call.outputs);
  if (name == "NPUGetFloatStatus") return status_task(FloatStatus::read, call, call.inputs);
  if (name == "NPUClearFloatStatusV2") return float_status_task(FloatStatus::clear, nullptr, ACL_DT_UNDEFINED);
  if (name == "NPUClearFloatStatus") return status_task(FloatStatus::clear, call, call.outputs);
  return nullptr;
}

template <class Buffers>
std::vector<LegacyTensor> read_tensors(int count, const aclTensorDesc* const descs[], Buffers buffers) {
  if (count < 0 || count > kMostTensors) fail(ACL_ERROR_INVALID_PARAM, "%d tensors, not 0 to %d", count, kMostTensors);
  if (count > 0) required(descs, "desc"), required(buffers, "buffers");
  std::vector<LegacyTensor> tensors;
  for (int i = 0; i < count; i++) tensors.push_back(read_tensor(descs[i], buffers[i]));
  return tensors;
}

std::string json(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (const int64_t value : values) text += (text.size() > 1 ? "," : "") + std::to_string(value);
  return text + "]";
}

// As those of aclnn operators are (kernels/engine/record.cpp). "h" marks a constant of the host.
std::string json(const std::vector<LegacyTensor>& tensors) {
  std::string text = "[";
  for (const LegacyTensor& t : tensors) {
    if (text.size() > 1) text += ',';
    if (t.dtype == ACL_DT_UNDEFINED) {
      text += "null";
      continue;
    }
    std::vector<int64_t> strides(t.sizes.size(), 1);
    for (size_t d = strides.size(); d-- > 1;) strides[d - 1] = strides[d] * (t.sizes[d] ? t.sizes[d] : 1);
    text += "{\"t\":" + json(t.sizes) + ",\"s\":" + json(strides) + ",\"o\":0,\"d\":" + std::to_string(t.dtype) +
            ",\"m\":" + std::to_string(t.format) + ",\"n\":" + json(t.stored) + ",\"p\":0" +
            (t.name.empty() ? "" : ",\"name\":\"" + t.name + "\"") + (t.on_host ? ",\"h\":1}" : "}");
  }
  return text + "]";
}

struct AttributeText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(float value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return "\"" + value + "\""; }
  std::string operator()(aclDataType value) const { return "{\"dtype\":" + std::to_string(value) + "}"; }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = "[";
    for (const T& value : values) {
      if (text.size() > 1) text += ',';
      if constexpr (std::is_same_v<T, std::vector<int64_t>>)
        text += json(value);
      else
        text += std::to_string(value);
    }
    return text + "]";
  }
};

void note_call(const LegacyCall& call) {
  note_json("opType", "\"" + call.type + "\"", call.type + ';');
  note_json("inputs", json(call.inputs));
  note_json("outputs", json(call.outputs));
  for (const auto& [name, value] : call.attributes) note_json(name.c_str(), std::visit(AttributeText(), value));
}

}  // namespace

aclError aclopCompileAndExecute(const char* type, int input_count, const aclTensorDesc* const input_descs[],
                                const aclDataBuffer* const inputs[], int output_count,
                                const aclTensorDesc* const output_descs[], aclDataBuffer* const outputs[],
                                const aclopAttr* attributes, aclopEngineType, aclopCompileType, const char*,
                                aclrtStream stream) {
  return guard("aclopCompileAndExecute", [&] {
    LegacyCall call{required(type, "opType"), read_tensors(input_count, input_descs, inputs),
                    read_tensors(output_count, output_descs, outputs), read_attributes(attributes)};
    if (recording()) note_call(call);
    Stream& target = launchable(stream);
    Task* status = status_task(call);
    submit(target, status ? status : legacy_task(call, card_of(target)));
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
