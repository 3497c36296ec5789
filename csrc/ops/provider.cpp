#include "ops/provider.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "acl/library.h"

namespace npu::ops {

bool on_softnpu() {
  static const bool answer = acl::provider() == acl::Provider::softnpu;
  return answer;
}

bool is_direct(const at::Tensor& t) {
  using c10::DispatchKey;
  return t.device().is_privateuseone() && !t.key_set().has(DispatchKey::Python) &&
         !c10::impl::dispatch_mode_enabled() &&
         !c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerFrontMode) &&
         !t._fw_grad(0).defined();
}

}  // namespace npu::ops
