#include "ops/fallback.h"

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "acl/config.h"
#include "acl/json.h"
#include "acl/library.h"
#include "ops/register.h"
#include "runtime/capture.h"
#include "runtime/inspection.h"

namespace npu::ops {

namespace {

std::mutex mutex;
std::map<std::string, uint64_t>& counts() {
  static auto* map = new std::map<std::string, uint64_t>;
  return *map;
}

// A tensor that the user left on the CPU would make the whole call one of the CPU, and its result too.
void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  std::optional<c10::Device> npu, cpu;
  const auto look = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    if (t.device().is_privateuseone()) npu = t.device();
    if (t.is_cpu() && t.dim() > 0) cpu = t.device();
  };
  for (const auto& value : arguments) {
    if (value.isTensor()) look(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& t : value.toTensorList()) look(t);
    if (value.isOptionalTensorList())
      for (const auto& t : value.toOptionalTensorVector()) look(t.value_or(at::Tensor()));
  }
  TORCH_CHECK(!npu || !cpu, "Expected all tensors to be on the same device, but found at least two devices, ", *npu,
              " and ", *cpu, "! (", op.operator_name(), ")");
}

// The aclnn operator whose absence brought this thread's call here; empty if its types did; null for operators without
// any kernel.
thread_local const char* t_missing = nullptr;

std::string reason_of(const c10::OperatorHandle& op) {
  if (t_missing && !*t_missing) return " for these types";
  const std::string absent = t_missing ? t_missing : withdrawn_for(op.operator_name());
  return absent.empty() ? "" : c10::str(" (the device library in ", acl::path(), " lacks ", absent, ")");
}

void cpu_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  announce_fallback(op, *stack);
  at::native::cpu_fallback(op, stack);
}

}  // namespace

// A fallback copies tensors. If that is what cannot be done there is no way on.
FallbackOf::FallbackOf(const char* name, const char* overload, const MissingOp& missing)
    : op_(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)) {
  if (t_missing) throw;  // the same, which is being handled
  t_missing = missing.op;
}

FallbackOf::FallbackOf(const char* name, const char* overload)
    : op_(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)) {
  t_missing = "";
}

FallbackOf::~FallbackOf() { t_missing = nullptr; }

const c10::KernelFunction& FallbackOf::kernel() {
  static const auto kernel = c10::KernelFunction::makeFromBoxedFunction<&cpu_fallback>();
  return kernel;
}

void announce_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  check_devices(op, stack);
  const auto name = c10::toString(op.operator_name());
  TORCH_CHECK_NOT_IMPLEMENTED(!captures::of_current_stream(), "The operator '", name, "' has no npu kernel",
                              reason_of(op),
                              ": it would run on the CPU, which is not permitted when the stream is capturing.");
  bool first;
  {
    std::lock_guard lock(mutex);
    first = counts()[name]++ == 0;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      !config::fallback_cpu_disabled(), "The operator '", name, "' has no npu kernel", reason_of(op),
      " and the CPU "
      "fallback is disabled; unset TORCH_NPU_FALLBACK_CPU_DISABLE or move the tensors to the CPU for this call.");
  if (first)
    TORCH_WARN("The operator '", name, "' runs on the CPU: it has no npu kernel", reason_of(op),
               ". The result is correct, but slower. "
               "TORCH_NPU_FALLBACK_CPU_DISABLE=1 makes this an error.");
}

std::vector<std::pair<std::string, uint64_t>> fallback_counts() {
  std::lock_guard lock(mutex);
  std::vector<std::pair<std::string, uint64_t>> all(counts().begin(), counts().end());
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return all;
}

void reset_fallback_counts() {
  std::lock_guard lock(mutex);
  counts().clear();
}

static std::string fallbacks_part() {
  std::string list;
  for (const auto& [name, calls] : fallback_counts())
    list += c10::str(list.empty() ? "" : ", ", "{\"name\": ", quoted(name), ", \"calls\": ", calls, "}");
  return "[" + list + "]";
}

[[maybe_unused]] static const bool fallbacks_are_inspected = (inspection::add("fallbacks", &fallbacks_part), true);

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&cpu_fallback>()); }

}  // namespace npu::ops
