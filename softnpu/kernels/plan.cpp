#include "plan.h"

#include <ATen/ops/from_blob.h>

#include <cstring>

#include "cache.h"
#include "checks.h"
#include "dtypes.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "soc_limits.h"
#include "trial.h"

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

template <class T>
const T* checked(const Operator& op, size_t i, const void* pointer, ObjectTag tag) {
  char name[64];
  auto* object = static_cast<const T*>(pointer);
  if (!object) {
    if (op.optional >> i & 1) return nullptr;
    fail(ACLNN_ERR_PARAM_NULLPTR, "%s: argument '%s' is NULL", op.name, argument_name(op, i, name));
  }
  if (object->tag != tag)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' is not a live object of its type", op.name,
         argument_name(op, i, name));
  return object;
}

int64_t last_element(const aclTensor& t) {
  int64_t last = t.offset;
  for (size_t d = 0; d < t.sizes.size(); d++) {
    if (t.sizes[d] == 0) return -1;
    last += (t.sizes[d] - 1) * t.strides[d];
  }
  return last;
}

// A CPU tensor over the kernels' view of the device memory that `t` describes.
Tensor view(const Operator& op, size_t i, const aclTensor& t, Call& call) {
  char name[64];
  auto dtype = scalar_type(t.dtype);
  if (!dtype)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has data type %d, which this device does not compute with",
         op.name, argument_name(op, i, name), t.dtype);
  const int64_t last = last_element(t);
  const size_t item = c10::elementSize(*dtype);
  if (last >= t.storage_elements && t.storage_elements > 0)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' reaches element %lld of a storage of %lld", op.name,
         argument_name(op, i, name), static_cast<long long>(last), static_cast<long long>(t.storage_elements));
  if (last >= 0) check_allocated(t.data, (last + 1) * item, -1, argument_name(op, i, name));
  c10::Storage storage(c10::Storage::use_byte_size_t(), std::max<int64_t>(t.storage_elements, last + 1) * item,
                       c10::DataPtr(t.data ? kernel_address(t.data) : nullptr, c10::kCPU), nullptr, false);
  call.storages.push_back(storage.unsafeGetStorageImpl());
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(*dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes, t.strides, t.offset);
  return tensor;
}

Value convert(const Operator& op, size_t i, const Argument& a, Call& call) {
  using Kind = Argument::Kind;
  call.handles.push_back(nullptr);
  switch (a.kind) {
    case Kind::tensor: {
      auto* t = checked<aclTensor>(op, i, a.pointer, ObjectTag::tensor);
      call.handles.back() = const_cast<aclTensor*>(t);
      return t ? view(op, i, *t, call) : Tensor();
    }
    case Kind::tensor_list: {
      auto* list = checked<aclTensorList>(op, i, a.pointer, ObjectTag::tensor_list);
      std::vector<Tensor> tensors;
      if (list)
        for (auto* t : list->values) tensors.push_back(t ? view(op, i, *t, call) : Tensor());
      return tensors;
    }
    case Kind::scalar: {
      auto* s = checked<aclScalar>(op, i, a.pointer, ObjectTag::scalar);
      return s ? Value(to_scalar(*s)) : Value();
    }
    case Kind::scalar_list: {
      auto* list = checked<aclScalarList>(op, i, a.pointer, ObjectTag::scalar_list);
      std::vector<Scalar> scalars;
      if (list)
        for (auto* s : list->values) scalars.push_back(to_scalar(*s));
      return scalars;
    }
    case Kind::ints: {
      auto* array = a.pointer ? checked<aclIntArray>(op, i, a.pointer, ObjectTag::int_array) : nullptr;
      return array ? array->values : std::vector<int64_t>();
    }
    case Kind::bools: {
      auto* array = a.pointer ? checked<aclBoolArray>(op, i, a.pointer, ObjectTag::bool_array) : nullptr;
      return array ? array->values : std::vector<uint8_t>();
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
  const bool wanted = op.workspace || config().workspace_all;
  if (!wanted) return 0;
  // Enough to be noticed when it is missing, little enough to be cheap.
  return 512 + 64 * call.storages.size();
}

}  // namespace

int plan(const Operator& op, std::initializer_list<Argument> arguments, uint64_t* workspace_size,
         aclOpExecutor** executor) {
  return guard(op.name, [&] {
    if (!workspace_size) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspace_size is NULL", op.name);
    if (!executor) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is NULL", op.name);
    auto call = std::make_unique<Call>(op);
    size_t i = 0;
    for (const auto& a : arguments) call->values.push_back(convert(op, i++, a, *call));
    call->remember_layouts();
    check(*call);
    if (config().strict) check_limits(*call);
    if (op.trial) try_types(*call);
    call->workspace_bytes = workspace_for(op, *call);
    *workspace_size = call->workspace_bytes;
    *executor = cache::adopt(std::move(call));
  });
}

int launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
  return guard(op.name, [&] {
    if (!executor) fail(ACLNN_ERR_PARAM_NULLPTR, "%s: executor is NULL", op.name);
    if (executor->tag != ObjectTag::executor)
      fail(ACLNN_ERR_PARAM_INVALID, "%s: executor is not live (was it used twice?)", op.name);
    auto* call = static_cast<Call*>(executor);
    if (&call->op != &op) fail(ACLNN_ERR_PARAM_INVALID, "%s: executor belongs to %s", op.name, call->op.name);
    call->set_workspace(workspace, workspace_size);
    call->capture_thread_state();
    submit(stream, call);
  });
}

}  // namespace softnpu::kernels
