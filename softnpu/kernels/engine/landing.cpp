// The hook on at::empty is a kernel of the dispatch key DeferredInit: torch keeps that key for extensions that take
// over factory functions, and it is active only inside a Landing.
#include "kernels/engine/landing.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <utility>

namespace softnpu::kernels {

namespace {

constexpr auto kKey = c10::DispatchKey::DeferredInit;
constexpr size_t kLeastBytes = 32 << 10;

thread_local Landing* t_landing = nullptr;

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
             std::optional<at::Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  const bool plain =
      device.value_or(at::kCPU).is_cpu() && layout.value_or(at::kStrided) == at::kStrided && !pin.value_or(false);
  if (t_landing && plain)
    if (auto t = t_landing->take(sizes, dtype.value_or(at::kFloat), format); t.defined()) return t;
  const c10::impl::ExcludeDispatchKeyGuard without(kKey);
  return at::empty(sizes, dtype, layout, device, pin, format);
}

// False if another extension has taken the key: results are copied then.
bool registered() {
  static const bool done = [] {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) return false;
    static torch::Library all(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__),
        aten(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
    all.fallback(torch::CppFunction::makeFallthrough());
    aten.impl("empty.memory_format", TORCH_FN(empty));
    return true;
  }();
  return done;
}

}  // namespace

Landing::Landing(std::initializer_list<std::optional<Tensor>> outputs) : outer_(t_landing) {
  size_t i = 0;
  bool any = false;
  for (const auto& t : outputs) {
    if (!t || !t->defined() || t->nbytes() < kLeastBytes || !t->is_non_overlapping_and_dense()) continue;
    outputs_.at(i++) = *t;
    any = true;
  }
  if (!any || !registered()) return;
  t_landing = this;
  guard_.emplace(kKey);
}

Landing::~Landing() { t_landing = outer_; }

Tensor Landing::take(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format) {
  for (auto& out : outputs_) {
    if (!out.defined() || out.scalar_type() != dtype || !out.sizes().equals(sizes)) continue;
    if (!out.is_contiguous(format.value_or(at::MemoryFormat::Contiguous))) continue;
    const Tensor taken = std::exchange(out, Tensor());
    auto alias =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(taken.storage()), taken.key_set(), taken.dtype());
    alias.unsafeGetTensorImpl()->set_sizes_and_strides(taken.sizes(), taken.strides(), taken.storage_offset());
    return alias;
  }
  return {};
}

}  // namespace softnpu::kernels
