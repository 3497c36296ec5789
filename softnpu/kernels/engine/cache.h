// The executor cache: calls kept per thread under the client's key. See Note [Executor cache] in abi/aclnn.h.
#pragma once

#include <memory>

#include "kernels/engine/call.h"

namespace softnpu::kernels::cache {

// Takes a fresh call from phase one. With a key set by the client it is remembered and handed out as busy.
aclOpExecutor* adopt(std::unique_ptr<Call> call);

}  // namespace softnpu::kernels::cache
