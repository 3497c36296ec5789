#include "registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <sstream>
#include <string>
#include <vector>

#include "acl/library.h"
#include "runtime/device.h"
#include "support.h"

namespace npu::ops {

namespace {

struct Registration {
  std::string name;
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

c10::RegistrationHandleRAII implement(c10::DispatchKey key, const char* name, const char* overload,
                                      c10::KernelFunction kernel) {
  return c10::Dispatcher::singleton().registerImpl({name, overload}, key, std::move(kernel), std::nullopt, nullptr,
                                                   "torch_npu generated wrapper");
}

std::string full_name(const char* name, const char* overload) {
  return *overload ? std::string(name) + "." + overload : name;
}

}  // namespace

void register_op(const char* name, const char* overload, c10::KernelFunction kernel, const char* acl) {
  registrations().push_back(
      {full_name(name, overload), acl, implement(c10::DispatchKey::PrivateUse1, name, overload, std::move(kernel))});
}

void register_op_as(c10::DispatchKey key, const char* name, const char* overload, c10::KernelFunction kernel) {
  registrations().push_back({"", "", implement(key, name, overload, std::move(kernel))});
}
std::vector<std::pair<std::string, std::string>> operators() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& r : registrations())
    if (!r.name.empty()) all.emplace_back(r.name, r.acl);
  return all;
}

}  // namespace npu::ops
