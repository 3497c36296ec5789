#include "kernels/engine/plan.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

#include "kernels/engine/cache.h"
#include "kernels/engine/checks.h"
#include "kernels/engine/collective.h"
#include "kernels/engine/descriptors.h"
#include "kernels/engine/dtypes.h"
#include "kernels/engine/record.h"
#include "kernels/engine/soc_limits.h"
#include "kernels/engine/trial.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/hostility.h"

namespace softnpu::kernels {

namespace {

const char* argument_name(const Operator& op, size_t i, char (&buffer)[64]) {
  const char* name = op.arguments;
  while (i--) name = strchrnul(name, ',') + 1;
  size_t n = std::min<size_t>(strchrnul(name, ',') - name, sizeof(buffer) - 1);
  memcpy(buffer, name, n);
  buffer[n] = 0;
  return buffer;
}

// Calls use(object) on the object behind an argument, which neither ends nor changes meanwhile. False for NULL, where
// that is allowed.
template <class T, class Use>
bool with(const Operator& op, size_t i, const void* pointer, bool null_allowed, Call& call, Use&& use) {
  char name[64];
  if (!pointer) {
    if (null_allowed) return false;
    fail(ACLNN_ERR_PARAM_NULLPTR, "%s: argument '%s' is NULL", op.name, argument_name(op, i, name));
  }
  const Held<T> object(static_cast<const T*>(pointer));
  if (!object)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' is not a live object of its type", op.name,
         argument_name(op, i, name));
  if (config().strict) call.descriptors.push_back({&*object, object->number(), i});
  use(*object);
  return true;
}

template <class T, class Use>
void with_element(const Operator& op, size_t i, const Remembered<T>& element, Call& call, Use&& use) {
  char name[64];
  const Held<T> object(element);
  if (!object)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has an element that was destroyed", op.name,
         argument_name(op, i, name));
  if (config().strict) call.descriptors.push_back({&*object, object->number(), i});
  use(*object);
}

// What a descriptor says of its elements. Two numbers of four bits share a byte: the descriptor counts numbers, the
// kernels' tensor counts bytes.
struct Layout {
  explicit Layout(const aclTensor& t)
      : sizes(t.sizes.begin(), t.sizes.end()),
        strides(t.strides.begin(), t.strides.end()),
        offset(t.offset),
        stored(t.storage_elements) {}

  // In bytes: neighbours lie in the last dimension of stride 1. False where a pair is not in one byte.
  bool count_pairs() {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
      sizes.back() /= 2;
      return true;
    }
    size_t along = sizes.size();
    for (size_t d = 0; d < sizes.size(); d++)
      if (strides[d] == 1 && (along == sizes.size() || sizes[d] > 1)) along = d;
    if (along == sizes.size() || sizes[along] % 2 || offset % 2) return false;
    for (size_t d = 0; d < sizes.size(); d++) {
      if (d == along) continue;
      if (strides[d] % 2 && sizes[d] > 1) return false;
      strides[d] /= 2;
    }
    sizes[along] /= 2;
    offset /= 2;
    stored /= 2;
    return true;
  }

  // The number of elements from the start of the storage that are reached, 0 for a tensor without elements. False when
  // that is more than any number.
  bool reach(int64_t* end) const {
    int64_t last = offset;
    for (int64_t size : sizes)
      if (size == 0) return true;
    for (size_t d = 0; d < sizes.size(); d++) {
      int64_t span;
      if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span)) return false;
      if (__builtin_add_overflow(last, span, &last)) return false;
    }
    return !__builtin_add_overflow(last, 1, end);
  }

  c10::SmallVector<int64_t, 8> sizes, strides;
  int64_t offset, stored;
};

// A CPU tensor for an argument in a private format, with memory while the kernel runs; see format.h.
Tensor formatted_view(const Operator& op, size_t i, const aclTensor& t, ScalarType dtype, Call& call) {
  char name[64];
  if (!(op.formatted >> i & 1))
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' is in the private format %d, which this operator does not take",
         op.name, argument_name(op, i, name), t.format);
  if (t.dtype == ACL_FLOAT4_E2M1 || t.dtype == ACL_FLOAT4_E1M2)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has numbers of four bits in a private format", op.name,
         argument_name(op, i, name));
  const auto base = base_sizes(t);
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : t.storage_sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes)) fail(ACLNN_ERR_PARAM_INVALID, "%s: beyond any memory", op.name);
  if (bytes > 0) check_allocated(t.data, bytes, -1, argument_name(op, i, name));
  const auto make = [&](at::IntArrayRef sizes, size_t storage_bytes, void* data) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), storage_bytes, c10::DataPtr(data, c10::kCPU), nullptr, false);
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
  };
  Formatted argument{t.format,
                     (op.outputs >> i & 1) != 0,
                     make(t.storage_sizes, bytes, t.data ? kernel_address(t.data) : nullptr),
                     {}};
  call.storages.push_back(argument.stored.storage().unsafeGetStorageImpl());
  call.extents.push_back(bytes);
  argument.plain = make(base, c10::multiply_integers(base) * c10::elementSize(dtype), nullptr);
  call.formatted.push_back(argument);
  auto tensor = argument.plain.alias();
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes, t.strides, 0);
  return tensor;
}

// A CPU tensor over the kernels' view of the device memory that `t` describes.
Tensor view(const Operator& op, size_t i, const aclTensor& t, Call& call) {
  char name[64];
  auto dtype = scalar_type(t.dtype);
  if (!dtype)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has data type %d, which this device does not compute with",
         op.name, argument_name(op, i, name), t.dtype);
  for (int64_t stride : t.strides)
    if (stride < 0)
      fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has stride %lld, which is negative", op.name,
           argument_name(op, i, name), static_cast<long long>(stride));
  if (config().strict) check_descriptor(call.argument(i), t, op.outputs >> i & 1);
  if (is_private(t.format)) return formatted_view(op, i, t, *dtype, call);
  Layout layout(t);
  if ((t.dtype == ACL_FLOAT4_E2M1 || t.dtype == ACL_FLOAT4_E1M2) && !layout.count_pairs())
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has numbers of four bits that do not lie in whole bytes", op.name,
         argument_name(op, i, name));
  int64_t end = 0, bytes;
  if (!layout.reach(&end) || __builtin_mul_overflow(end, static_cast<int64_t>(c10::elementSize(*dtype)), &bytes))
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has sizes, strides and an offset beyond any memory", op.name,
         argument_name(op, i, name));
  if (end > layout.stored && layout.stored > 0)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' reaches element %lld of a storage of %lld", op.name,
         argument_name(op, i, name), static_cast<long long>(end - 1), static_cast<long long>(layout.stored));
  if (bytes > 0) check_allocated(t.data, bytes, -1, argument_name(op, i, name));
  // No larger than what was checked: ATen may give an output another shape, up to the end of its storage.
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(t.data ? kernel_address(t.data) : nullptr, c10::kCPU), nullptr, false);
  call.storages.push_back(storage.unsafeGetStorageImpl());
  call.extents.push_back(bytes);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(*dtype));
  // The stride of a single element says nothing, but libraries multiply with it.
  for (size_t d = 0; d < layout.strides.size(); d++)
    if (layout.sizes[d] == 1) layout.strides[d] = std::min(layout.strides[d], end);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  return tensor;
}

Value convert(const Operator& op, size_t i, const Argument& a, Call& call) {
  using Kind = Argument::Kind;
  call.handles.emplace_back();
  const bool optional = op.optional >> i & 1;
  switch (a.kind) {
    case Kind::tensor: {
      Tensor tensor;
      with<aclTensor>(op, i, a.pointer, optional, call, [&](aclTensor& t) {
        call.handles.back() = {&t, t.number()};
        tensor = view(op, i, t, call);
      });
      return tensor;
    }
    case Kind::tensor_list: {
      std::vector<Tensor> tensors;
      with<aclTensorList>(op, i, a.pointer, optional, call, [&](const aclTensorList& list) {
        for (const auto& element : list.values) {
          tensors.emplace_back();
          if (element.object)
            with_element(op, i, element, call, [&](const aclTensor& t) { tensors.back() = view(op, i, t, call); });
        }
      });
      return tensors;
    }
    case Kind::scalar: {
      Value value;
      with<aclScalar>(op, i, a.pointer, optional, call, [&](const aclScalar& s) { value = to_scalar(s); });
      return value;
    }
    case Kind::scalar_list: {
      std::vector<Scalar> scalars;
      with<aclScalarList>(op, i, a.pointer, optional, call, [&](const aclScalarList& list) {
        for (const auto& element : list.values)
          with_element(op, i, element, call, [&](const aclScalar& s) { scalars.push_back(to_scalar(s)); });
      });
      return scalars;
    }
    case Kind::ints: {
      std::vector<int64_t> values;
      with<aclIntArray>(op, i, a.pointer, true, call, [&](const aclIntArray& array) { values = array.values; });
      return values;
    }
    case Kind::bools: {
      std::vector<uint8_t> values;
      with<aclBoolArray>(op, i, a.pointer, true, call, [&](const aclBoolArray& array) { values = array.values; });
      return values;
    }
    case Kind::integer:
      return a.integer;
    case Kind::real:
      return a.real;
    case Kind::dtype: {
      auto dtype = scalar_type(static_cast<aclDataType>(a.integer));
      return dtype.value_or(ScalarType::Undefined);
    }
    case Kind::text:
      return std::string(a.pointer ? static_cast<const char*>(a.pointer) : "");
  }
  return Value();
}

uint64_t workspace_for(const Operator& op, const Call& call) {
  const bool wanted = op.workspace || config().workspace_all || by_chance(4) == 1;
  if (!wanted) return 0;
  // Enough to be noticed when it is missing, little enough to be cheap.
  return 512 + 64 * call.storages.size() + 32 * by_chance(64);
}

}  // namespace

int plan(const Operator& op, std::initializer_list<Argument> arguments, uint64_t* workspace_size,
         aclOpExecutor** executor) {
  return guard(op.name, [&] {
    if (recording()) note_arguments(op, arguments);
    if (!workspace_size) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspace_size is NULL", op.name);
    if (!executor) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is NULL", op.name);
    auto call = std::make_unique<Call>(op);
    size_t i = 0;
    for (const auto& a : arguments) call->values.push_back(convert(op, i++, a, *call));
    call->remember_layouts();
    check(*call);
    if (op.require) op.require(*call);
    if (config().strict) check_list_lengths(*call);
    if (config().strict_types) check_limits(*call);
    if (op.trial) try_types(*call);
    if (!call->workspace_bytes) call->workspace_bytes = workspace_for(op, *call);
    *workspace_size = call->workspace_bytes;
    *executor = cache::adopt(std::move(call));
  });
}

int refuse(const Operator& op, std::initializer_list<Argument> arguments, const char* reason) {
  return guard(op.name, [&] {
    if (recording()) note_arguments(op, arguments);
    fail(ACLNN_ERR_PARAM_INVALID, "not implemented for softnpu: %s", reason);
  });
}

Call* take(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor, int card,
           c10::function_ref<void(Call&)> prepare) {
  if (!executor) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is NULL", op.name);
  Ticket* ticket = Ticket::hold(executor);
  if (!ticket)
    fail(ACLNN_ERR_PARAM_INVALID,
         "%s: executor %p waits for no phase two: it was launched or destroyed before, or phase one did not make it",
         op.name, static_cast<void*>(executor));
  Call* call = ticket->call;
  try {
    if (&call->op != &op) fail(ACLNN_ERR_PARAM_INVALID, "%s: executor belongs to %s", op.name, call->op.name);
    call->set_workspace(workspace, workspace_size);
    call->check_memory(card);
    if (config().strict && !call->cached) call->check_descriptors();
    prepare(*call);
  } catch (...) {
    ticket->let_go();
    throw;
  }
  ticket->end_held();
  call->stay_on_thread();
  return call;
}

int launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
  return guard(op.name, [&] {
    note("workspace_size", workspace_size), note("executor", executor), note("stream", stream);
    Stream& target = launchable(stream);
    submit(target, take(op, workspace, workspace_size, executor, card_of(target), [](Call&) {}));
  });
}

}  // namespace softnpu::kernels
