#include "kernels/engine/legacy.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "kernels/engine/checks.h"
#include "kernels/engine/dtypes.h"
#include "kernels/engine/soc_limits.h"
#include "kernels/engine/view.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/legacy.h"

namespace softnpu::kernels {

namespace {

using Kind = LegacyOperator::Kind;
using Parameter = LegacyOperator::Parameter;

constexpr size_t kMostHostBytes = size_t{16} << 20;  // of a constant

auto& operators() {
  static auto& all = *new std::unordered_map<std::string_view, const LegacyOperator*>;
  return all;
}

bool is_input(Kind kind) { return kind == Kind::input || kind == Kind::optional || kind == Kind::inputs; }

int64_t product(const std::vector<int64_t>& sizes, const char* op, const char* name) {
  int64_t count = 1;
  for (const int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      fail(ACL_ERROR_INVALID_PARAM, "%s: '%s' has sizes that no tensor has", op, name);
  return count;
}

bool is_plain(aclFormat format) {
  return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCL || format == ACL_FORMAT_NCDHW;
}

// In the order of the memory, where that is another one than the elements': images with their channels last. Refuses
// formats in which the sizes mean something else, unless the operator was told of that one.
std::vector<int64_t> strides_of(const LegacyTensor& t, bool channels_last, const char* op, const char* name) {
  const size_t d = t.sizes.size();
  std::vector<int64_t> strides(d, 1);
  for (size_t i = d; i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(t.sizes[i], 1);
  if (is_plain(t.order) && (is_plain(t.format) || is_private(t.format))) return strides;
  if (channels_last && t.order == ACL_FORMAT_NHWC && t.format == ACL_FORMAT_NHWC && d == 4) return strides;
  if (t.order != ACL_FORMAT_NCHW || t.format != ACL_FORMAT_NHWC || d != 4)
    fail(ACL_ERROR_INVALID_PARAM,
         "%s: '%s' has elements in format %d and memory in format %d, which is not implemented", op, name, t.order,
         t.format);
  if (t.stored != std::vector<int64_t>{t.sizes[0], t.sizes[2], t.sizes[3], t.sizes[1]})
    fail(ACL_ERROR_INVALID_PARAM, "%s: '%s' has memory of other sizes than its elements", op, name);
  return {strides[0], 1, t.sizes[3] * t.sizes[1], t.sizes[1]};
}

bool told_channels_last(const LegacyCall& call) {
  const auto found = call.attributes.find("data_format");
  const auto* format = found == call.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  return format && *format == "NHWC";
}

Tensor host_constant(const LegacyTensor& t, ScalarType dtype, const char* op, const char* name) {
  const int64_t count = product(t.sizes, op, name);
  const auto bytes = static_cast<size_t>(count) * c10::elementSize(dtype);
  if (static_cast<size_t>(count) > kMostHostBytes || bytes > kMostHostBytes)
    fail(ACL_ERROR_INVALID_PARAM, "%s: the constant '%s' has more than %zu bytes", op, name, kMostHostBytes);
  if (t.bytes < bytes)
    fail(ACL_ERROR_INVALID_PARAM, "%s: the constant '%s' has %zu bytes, its buffer %zu", op, name, bytes, t.bytes);
  auto constant = at::empty(t.sizes, at::TensorOptions(dtype));
  if (bytes == 0) return constant;
  if (!t.data || is_device_address(t.data))
    fail(ACL_ERROR_INVALID_PARAM, "%s: the constant '%s' is not in the host's memory", op, name);
  memcpy(constant.mutable_data_ptr(), t.data, bytes);
  return constant;
}

Tensor read(const LegacyTensor& t, size_t i, const LegacyCall& from, Call& call) {
  const Operator& op = call.op;
  char buffer[64];
  const char* name = argument_name(op, i, buffer);
  if (t.dtype == ACL_DT_UNDEFINED) {
    if (op.optional >> i & 1) return {};
    fail(ACL_ERROR_INVALID_PARAM, "%s: '%s' is missing", op.name, name);
  }
  const auto dtype = scalar_type(t.dtype);
  if (!dtype)
    fail(ACL_ERROR_INVALID_PARAM, "%s: '%s' has data type %d, which this device does not compute with", op.name, name,
         t.dtype);
  if (t.on_host) {
    if (op.outputs >> i & 1) fail(ACL_ERROR_INVALID_PARAM, "%s: the output '%s' is on the host", op.name, name);
    return host_constant(t, *dtype, op.name, name);
  }
  const bool blocks = is_private(t.format);
  const int64_t stored = product(blocks ? t.stored : t.sizes, op.name, name);
  product(t.sizes, op.name, name);
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(stored), c10::elementSize(*dtype), &bytes) || bytes > t.bytes)
    fail(ACL_ERROR_INVALID_PARAM, "%s: '%s' has %lld elements, its buffer %zu bytes", op.name, name,
         static_cast<long long>(stored), t.bytes);
  aclTensor described;
  described.dtype = t.dtype;
  described.format = blocks                ? t.format
                     : t.sizes.size() == 3 ? ACL_FORMAT_NCL
                     : t.sizes.size() == 4 ? ACL_FORMAT_NCHW
                     : t.sizes.size() == 5 ? ACL_FORMAT_NCDHW
                                           : ACL_FORMAT_ND;
  described.offset = 0;
  described.sizes = t.sizes;
  described.strides = strides_of(t, told_channels_last(from), op.name, name);
  described.storage_elements = stored;
  if (blocks) described.storage_sizes = t.stored;
  described.data = t.data;
  return view(op, i, described, call);
}

size_t place_of(const LegacyTensor& t, const LegacyOperator& legacy, size_t count) {
  char name[64];
  for (size_t i = 0; i < count; i++)
    if (t.name == argument_name(legacy.op, i, name)) return i;
  fail(ACL_ERROR_INVALID_PARAM, "%s has no input '%s'", legacy.op.name, t.name.c_str());
}

size_t count_of(const LegacyOperator& legacy, bool (*is)(Kind)) {
  size_t count = 0;
  for (const Parameter& p : legacy.parameters) count += is(p.kind);
  return count;
}

// Inputs come in order; one that has a name may leave out optional ones before it. Those of a list have no names.
void take_inputs(const LegacyCall& from, const LegacyOperator& legacy, Call& call) {
  const size_t places = count_of(legacy, is_input);
  const bool list = count_of(legacy, [](Kind kind) { return kind == Kind::inputs; });
  const auto& inputs = from.inputs;
  if (list ? inputs.size() + 1 < places : inputs.size() > places)
    fail(ACL_ERROR_INVALID_PARAM, "%s has %zu inputs, not %zu", legacy.op.name, places, inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < places; i++) {
    if (legacy.parameters[i].kind == Kind::inputs) {
      std::vector<Tensor> tensors;
      for (const size_t end = next + inputs.size() + 1 - places; next < end;)
        tensors.push_back(read(inputs[next++], i, from, call));
      call.values.push_back(std::move(tensors));
      continue;
    }
    const bool here =
        next < inputs.size() && (list || inputs[next].name.empty() || place_of(inputs[next], legacy, places) == i);
    call.values.push_back(read(here ? inputs[next++] : LegacyTensor(), i, from, call));
  }
  if (next < inputs.size())
    fail(ACL_ERROR_INVALID_PARAM, "%s: input '%s' is given twice, or in another order", legacy.op.name,
         inputs[next].name.c_str());
}

void take_outputs(const LegacyCall& from, const LegacyOperator& legacy, Call& call) {
  const size_t wanted = count_of(legacy, [](Kind kind) { return kind == Kind::output; });
  if (from.outputs.size() != wanted)
    fail(ACL_ERROR_INVALID_PARAM, "%s has %zu outputs, not %zu", legacy.op.name, wanted, from.outputs.size());
  for (const LegacyTensor& t : from.outputs) call.values.push_back(read(t, call.values.size(), from, call));
}

// No value where the client gave another type.
template <class Given, class Wanted = Given>
Value value_of(const LegacyAttribute& given) {
  const auto* value = std::get_if<Given>(&given);
  return value ? Value(static_cast<Wanted>(*value)) : Value();
}

Value convert(Kind kind, const LegacyAttribute& given) {
  switch (kind) {
    case Kind::boolean:
      return value_of<bool, int64_t>(given);
    case Kind::integer:
      return value_of<int64_t>(given);
    case Kind::real:
      return value_of<float, double>(given);
    case Kind::text:
      return value_of<std::string>(given);
    case Kind::bools:
      return value_of<std::vector<uint8_t>>(given);
    case Kind::ints:
      return value_of<std::vector<int64_t>>(given);
    case Kind::dtype:
      if (const auto* type = std::get_if<aclDataType>(&given))
        return scalar_type(*type).value_or(ScalarType::Undefined);
      return {};
    case Kind::reals:
      if (const auto* list = std::get_if<std::vector<float>>(&given))
        return std::vector<Scalar>(list->begin(), list->end());
      return {};
    default:
      return {};
  }
}

void take_attributes(const LegacyCall& from, const LegacyOperator& legacy, Call& call) {
  size_t known = 0;
  for (size_t i = call.values.size(); i < legacy.parameters.size(); i++) {
    char name[64];
    argument_name(legacy.op, i, name);
    const Parameter& parameter = legacy.parameters[i];
    const auto given = from.attributes.find(name);
    const bool is_given = given != from.attributes.end();
    known += is_given;
    Value value = is_given ? convert(parameter.kind, given->second) : parameter.otherwise;
    if (std::holds_alternative<std::monostate>(value))
      fail(ACL_ERROR_INVALID_PARAM, is_given ? "%s: attribute '%s' is of another type" : "%s needs attribute '%s'",
           legacy.op.name, name);
    call.values.push_back(std::move(value));
  }
  if (known == from.attributes.size()) return;
  for (const auto& [name, value] : from.attributes) {
    bool is_known = false;
    for (size_t i = 0; i < legacy.parameters.size(); i++) {
      char argument[64];
      is_known |= !is_input(legacy.parameters[i].kind) && name == argument_name(legacy.op, i, argument);
    }
    if (!is_known) fail(ACL_ERROR_INVALID_PARAM, "%s has no attribute '%s'", legacy.op.name, name.c_str());
  }
}

Task* make(const LegacyCall& from, int card) {
  const auto found = operators().find(from.type);
  if (found == operators().end())
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "softnpu has no operator %s and no Ascend cores to compile it for",
         from.type.c_str());
  const LegacyOperator& legacy = *found->second;
  const at::DisableRecordFunctionGuard unrecorded;  // the client's profile is of its own operators
  const at::AutoDispatchBelowADInplaceOrView plain;
  auto call = std::make_unique<Call>(legacy.op);
  try {
    take_inputs(from, legacy, *call);
    take_outputs(from, legacy, *call);
    take_attributes(from, legacy, *call);
    call->remember_layouts();
    check(*call);
    if (legacy.op.require) legacy.op.require(*call);
    if (config().strict_types) check_limits(*call);
    call->check_memory(card);
  } catch (const Failure& failure) {
    throw Failure(ACL_ERROR_INVALID_PARAM, failure.text);
  } catch (const c10::Error& error) {  // out of what a row requires
    throw Failure(ACL_ERROR_INVALID_PARAM, error.what_without_backtrace());
  }
  return call.release();
}

[[maybe_unused]] const bool g_told = (set_legacy_operators(&make), true);

}  // namespace

LegacyOperator::LegacyOperator(const Operator& operator_, std::vector<Parameter> all)
    : op(operator_), parameters(std::move(all)) {
  operators().emplace(op.name, this);
}

}  // namespace softnpu::kernels
