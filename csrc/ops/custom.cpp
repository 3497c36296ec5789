#include "ops/custom.h"

#include "ops/support.h"

namespace npu::ops {

namespace {

struct Refusal : c10::OperatorKernel {
  explicit Refusal(std::string reason) : reason_(std::move(reason)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* /*stack*/) {
    TORCH_CHECK_NOT_IMPLEMENTED(false, op.operator_name(), " is not supported: ", reason_, ".");
  }

 private:
  std::string reason_;
};

std::map<std::string, std::string>& refusals() {
  static auto& all = *new std::map<std::string, std::string>;
  return all;
}

}  // namespace

std::map<std::string, std::string> refused_operators() { return refusals(); }

torch::CppFunction refused(const char* name, std::string reason) {
  refusals().emplace(name, reason);
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Refusal>(std::move(reason)));
}

std::vector<torch::autograd::SavedVariable> save_all(at::TensorList tensors) {
  std::vector<torch::autograd::SavedVariable> saved;
  saved.reserve(tensors.size());
  for (const auto& t : tensors) saved.emplace_back(t, /*is_output=*/false);
  return saved;
}

std::vector<Tensor> unpack_all(const std::vector<torch::autograd::SavedVariable>& saved) {
  std::vector<Tensor> tensors;
  tensors.reserve(saved.size());
  for (const auto& s : saved) tensors.push_back(s.unpack());
  return tensors;
}

Tensor gradient(const torch::autograd::Node& node, const torch::autograd::variable_list& grads, size_t place) {
  if (place >= grads.size() || place >= node.num_inputs()) return Tensor();
  return grads[place].defined() ? grads[place] : node.input_metadata(place).zeros_like();
}

void check_no_tangent(const char* op, const Tensor& t) {
  TORCH_CHECK_NOT_IMPLEMENTED(!t.defined() || !t._fw_grad(/*level=*/0).defined(), "npu::", op,
                              " has no forward-mode derivative; use reverse mode");
}

}  // namespace npu::ops
