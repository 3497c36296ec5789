// The CPU fallback for sparse and quantised tensors. Upstream's goes on to the dense kernel of the CPU whatever the
// layout; this one calls the operator anew with CPU tensors, so that the dispatcher finds the layout's.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "ops/fallback.h"
#include "ops/register.h"
#include "ops/tensor.h"
#include "runtime/device.h"

namespace npu::ops {

namespace {

struct Moved {
  Tensor here, host;
  bool written;
};

// The operands of one call on the host. A tensor that is given twice, as `self` and `out`, is one tensor there too.
class Operands {
 public:
  c10::IValue to_host(const c10::IValue& value, const c10::Argument& argument) {
    if (value.isTensor() && value.toTensor().defined()) {
      const auto* alias = argument.alias_info();
      return to_host(value.toTensor(), alias && alias->isWrite());
    }
    if (value.isTensorList()) {
      c10::List<Tensor> hosts;
      for (const Tensor& t : value.toTensorVector()) hosts.push_back(to_host(t, false));
      return hosts;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> hosts;
      for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
        hosts.push_back(t && t->defined() ? std::optional(to_host(*t, false)) : t);
      return hosts;
    }
    return value.isDevice() ? c10::Device(at::kCPU) : value;
  }

  void copy_back() const {
    for (const auto& m : moved_)
      if (m.written) at::_copy_from_and_resize(m.host, m.here);
  }

  Tensor from_host(const Tensor& host) const {
    for (const auto& m : moved_)
      if (m.written && m.host.is_same(host)) return m.here;
    return host.to(device_);
  }

 private:
  Tensor to_host(const Tensor& t, bool written) {
    if (!is_npu(t)) return t;
    device_ = t.device();
    for (auto& m : moved_) {
      if (!m.here.is_same(t)) continue;
      m.written |= written;
      return m.host;
    }
    moved_.push_back({t, t.cpu(), written});
    return moved_.back().host;
  }

  std::vector<Moved> moved_;
  c10::Device device_ = at::kCPU;
};

void layout_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  announce_fallback(op, *stack);
  const auto& schema = op.schema();
  Operands operands;
  const size_t count = schema.arguments().size(), results = schema.returns().size();
  for (size_t i = 0; i < count; i++) {
    auto& value = (*stack)[stack->size() - count + i];
    value = operands.to_host(value, schema.arguments()[i]);
  }
  op.callBoxed(stack);
  operands.copy_back();
  for (size_t i = 0; i < results; i++) {
    auto& value = (*stack)[stack->size() - results + i];
    if (value.isTensor() && value.toTensor().defined()) value = operands.from_host(value.toTensor());
  }
}

struct Candidate {
  c10::DispatchKey key;
  const char *name, *overload;
};

std::vector<Candidate>& candidates() {
  static auto* all = new std::vector<Candidate>;
  return *all;
}

void register_candidates() {
  for (const auto& [key, name, overload] : candidates()) {
    const auto op = c10::Dispatcher::singleton().findSchema({name, overload});
    if (op && !op->hasKernelForDispatchKey(key))
      register_op_as(key, name, overload, c10::KernelFunction::makeFromBoxedFunction<&layout_fallback>());
  }
}

[[maybe_unused]] const bool g_at_init = (at_init(register_candidates), true);

}  // namespace

void falls_back(c10::DispatchKey key, const char* name, const char* overload) {
  candidates().push_back({key, name, overload});
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&layout_fallback>());
}

}  // namespace npu::ops
