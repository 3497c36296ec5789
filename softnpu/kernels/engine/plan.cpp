#include "kernels/engine/plan.h"

#include "kernels/engine/cache.h"
#include "kernels/engine/checks.h"
#include "kernels/engine/collective.h"
#include "kernels/engine/descriptors.h"
#include "kernels/engine/dtypes.h"
#include "kernels/engine/record.h"
#include "kernels/engine/soc_limits.h"
#include "kernels/engine/trial.h"
#include "kernels/engine/view.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/hostility.h"

namespace softnpu::kernels {

namespace {

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
