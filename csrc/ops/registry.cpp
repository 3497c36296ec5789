#include "registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <sstream>
#include <vector>

#include "acl/library.h"
#include "runtime/device.h"

namespace npu::ops {

namespace {

struct Registration {
  const char* acl;
  c10::RegistrationHandleRAII handle;
};

// Never destroyed: deregistration at process exit would race with torch's own teardown.
std::vector<Registration>& registrations() {
  static auto* all = new std::vector<Registration>;
  return *all;
}

bool provided(const char* names) {
  std::istringstream stream(names);
  for (std::string name; stream >> name;)
    if (!acl::op_symbol(name.c_str())) return false;
  return true;
}

void withdraw_missing_ops() {
  std::erase_if(registrations(), [](const Registration& r) { return !provided(r.acl); });
}

[[maybe_unused]] const bool g_at_init = (at_init(withdraw_missing_ops), true);

}  // namespace

void register_op(const char* name, const char* overload, c10::KernelFunction kernel, const char* acl) {
  registrations().push_back({acl, c10::Dispatcher::singleton().registerImpl(
                                      {name, overload}, c10::DispatchKey::PrivateUse1, std::move(kernel), std::nullopt,
                                      nullptr, "torch_npu generated wrapper")});
}


}  // namespace npu::ops
