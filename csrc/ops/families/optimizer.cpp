// npu::_fused_*_: the steps of torch_npu.optim on combined buffers, one launch each. A provider without them has the
// kernels withdrawn, and torch_npu.optim composes the steps from other operators.
#include <torch/library.h>

#include "aclnn/op.h"
#include "ops/register.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

void adadelta(const Tensor& param, const Tensor& grad, const Tensor& square_avg, const Tensor& acc_delta, double lr,
              double rho, double eps, double weight_decay) {
  CardGuard guard(param);
  NPU_EXEC(softnpuFusedAdadelta, param, grad, square_avg, acc_delta, lr, rho, eps, weight_decay);
}

void rmsprop(const Tensor& param, const Tensor& grad, const Tensor& square_avg, const std::optional<Tensor>& grad_avg,
             const std::optional<Tensor>& momentum_buffer, double lr, double alpha, double eps, double weight_decay,
             double momentum, bool eps_in_root, bool decoupled_decay, bool lr_in_momentum) {
  CardGuard guard(param);
  NPU_EXEC(softnpuFusedRmsprop, param, grad, square_avg, grad_avg, momentum_buffer, lr, alpha, eps, weight_decay,
           momentum, eps_in_root, decoupled_decay, lr_in_momentum);
}

void lamb(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
          at::IntArrayRef sizes, double lr, double beta1, double beta2, double eps, double weight_decay, bool trust) {
  CardGuard guard(param);
  NPU_EXEC(softnpuFusedLamb, param, grad, exp_avg, exp_avg_sq, sizes, lr, beta1, beta2, eps, weight_decay, trust);
}

void bert_adam(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
               at::IntArrayRef sizes, double lr, double beta1, double beta2, double eps, double weight_decay,
               double max_grad_norm) {
  CardGuard guard(param);
  NPU_EXEC(softnpuFusedBertAdam, param, grad, exp_avg, exp_avg_sq, sizes, lr, beta1, beta2, eps, weight_decay,
           max_grad_norm);
}

void adamp(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq, const Tensor& step,
           at::IntArrayRef sizes, at::IntArrayRef rows, double lr, double beta1, double beta2, double eps,
           double weight_decay, double delta, double wd_ratio, bool nesterov) {
  CardGuard guard(param);
  NPU_EXEC(softnpuFusedAdamP, param, grad, exp_avg, exp_avg_sq, step, sizes, rows, lr, beta1, beta2, eps, weight_decay,
           delta, wd_ratio, nesterov);
}

void no_results(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

#define NPU_ADAM "Tensor(a!) param, Tensor(b!) grad, Tensor(c!) exp_avg, Tensor(d!) exp_avg_sq, "
#define NPU_ADAM_OPTIONS "float lr, float beta1, float beta2, float eps, float weight_decay, "

constexpr const char* kSchemas[] = {
    "_fused_adadelta_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!) acc_delta, *, float lr, "
    "float rho, float eps, float weight_decay) -> ()",
    "_fused_rmsprop_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!)? grad_avg, "
    "Tensor(d!)? momentum_buffer, *, float lr, float alpha, float eps, float weight_decay, float momentum, "
    "bool eps_in_root=False, bool decoupled_decay=False, bool lr_in_momentum=False) -> ()",
    "_fused_lamb_(" NPU_ADAM "int[] sizes, *, " NPU_ADAM_OPTIONS "bool trust) -> ()",
    "_fused_bert_adam_(" NPU_ADAM "int[] sizes, *, " NPU_ADAM_OPTIONS "float max_grad_norm) -> ()",
    "_fused_adamp_(" NPU_ADAM "Tensor step, int[] sizes, int[] rows, *, " NPU_ADAM_OPTIONS
    "float delta, float wd_ratio, bool nesterov) -> ()",
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(npu, m) {
  for (const char* schema : kSchemas) m.def(schema);
}

TORCH_LIBRARY_IMPL(npu, Meta, m) {
  for (const char* schema : kSchemas) {
    const std::string name(schema, std::string_view(schema).find('('));
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&no_results>());
  }
}

NPU_REGISTER(optimizer) {
  reg("npu::_fused_adadelta_", "", &adadelta, "softnpuFusedAdadelta");
  reg("npu::_fused_rmsprop_", "", &rmsprop, "softnpuFusedRmsprop");
  reg("npu::_fused_lamb_", "", &lamb, "softnpuFusedLamb");
  reg("npu::_fused_bert_adam_", "", &bert_adam, "softnpuFusedBertAdam");
  reg("npu::_fused_adamp_", "", &adamp, "softnpuFusedAdamP");
}

}  // namespace npu::ops
