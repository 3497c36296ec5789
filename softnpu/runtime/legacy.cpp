#include "runtime/legacy.h"

#include <dlfcn.h>

#include <atomic>

#include "runtime/error.h"

namespace softnpu {

namespace {

std::atomic<LegacyOperators> g_operators{nullptr};

}  // namespace

void set_legacy_operators(LegacyOperators operators) noexcept { g_operators.store(operators); }

Task* legacy_task(const LegacyCall& call, int card) {
  // A client whose first operator is one of these has not looked up anything in the library of the others.
  if (!g_operators.load() && !dlopen("libopapi.so", RTLD_NOW | RTLD_LOCAL))
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "operator %s needs libopapi.so: %s", call.type.c_str(), dlerror());
  const LegacyOperators operators = g_operators.load();
  if (!operators)
    fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "libopapi.so is not softnpu's; it has no %s", call.type.c_str());
  return operators(call, card);
}

}  // namespace softnpu
