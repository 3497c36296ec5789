#include "ops/composition.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <list>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "acl/library.h"
#include "ops/support.h"
#include "runtime/device.h"

namespace npu::ops {

namespace {

struct Registration {
  std::string name;
  const char* acl;
  bool withdrawable;
  c10::RegistrationHandleRAII handle;
};

// Never destroyed: deregistration at process exit would race with torch's own teardown. A list, because only the
// handle's destructor deregisters, while assigning to it, as a vector does to close a gap, forgets the registration.
std::list<Registration>& registrations() {
  static auto* all = new std::list<Registration>;
  return *all;
}

struct Composition {
  const char *name, *overload;
  Kernel kernel;
};

std::map<std::string, Composition>& compositions() {
  static auto* all = new std::map<std::string, Composition>;
  return *all;
}

// Operators that have been withdrawn for the CPU, and what each of them would need. Filled once, when the provider is
// loaded.
std::map<std::string, std::string>& withdrawn() {
  static auto* all = new std::map<std::string, std::string>;
  return *all;
}

// The first of `names` that the provider lacks.
std::string first_absent(const char* names) {
  std::istringstream stream(names);
  for (std::string name; stream >> name;)
    if (!acl::op_symbol(name.c_str())) return name;
  return "";
}

std::string full_name(const char* name, const char* overload) {
  return *overload ? std::string(name) + "." + overload : name;
}

c10::RegistrationHandleRAII implement(c10::DispatchKey key, const char* name, const char* overload,
                                      c10::KernelFunction kernel,
                                      std::optional<c10::impl::CppSignature> signature = std::nullopt) {
  return c10::Dispatcher::singleton().registerImpl({name, overload}, key, std::move(kernel), std::move(signature),
                                                   nullptr, "torch_npu");
}

// What takes over is torch's own composition, if there is one, or the CPU fallback. A composition over lists is a loop
// over other operators, good for every device; any other that a table's row was written for may know only torch's own
// devices, as that of mode.values does, so the CPU computes it.
bool composition_may_refuse(const c10::OperatorHandle& op) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) return false;
  const auto& arguments = op.schema().arguments();
  return std::none_of(arguments.begin(), arguments.end(),
                      [](const c10::Argument& a) { return a.type()->isSubtypeOf(*c10::ListType::ofTensors()); });
}

void withdraw_missing_ops() {
  std::vector<std::string> taken_over;
  std::erase_if(registrations(), [&](const Registration& r) {
    if (!r.withdrawable) return false;
    auto absent = first_absent(r.acl);
    if (absent.empty()) return false;
    if (compositions().count(r.name))
      taken_over.push_back(r.name);
    else
      withdrawn().emplace(r.name, std::move(absent));
    return true;
  });
  for (const auto& name : taken_over) {
    auto& [base, overload, kernel] = compositions().at(name);
    register_manual(base, overload, std::move(kernel), "");
  }
  for (const auto& [name, absent] : withdrawn()) {
    const auto dot = name.find('.');
    const auto operator_name = name.substr(0, dot), overload = dot == name.npos ? "" : name.substr(dot + 1);
    const auto op = c10::Dispatcher::singleton().findSchema({operator_name, overload});
    if (op && composition_may_refuse(*op))
      registrations().push_back(
          {"", "", false,
           implement(c10::DispatchKey::PrivateUse1, operator_name.c_str(), overload.c_str(), FallbackOf::kernel())});
  }
}

[[maybe_unused]] const bool g_at_init = (at_init(withdraw_missing_ops), true);

}  // namespace

void register_op(const char* name, const char* overload, Kernel kernel, const char* acl) {
  registrations().push_back(
      {full_name(name, overload), acl, true,
       implement(c10::DispatchKey::PrivateUse1, name, overload, std::move(kernel.function), kernel.signature)});
}

void register_manual(const char* name, const char* overload, Kernel kernel, const char* acl) {
  registrations().push_back(
      {full_name(name, overload), acl, false,
       implement(c10::DispatchKey::PrivateUse1, name, overload, std::move(kernel.function), kernel.signature)});
}

void register_composition(const char* name, const char* overload, Kernel kernel) {
  compositions().emplace(full_name(name, overload), Composition{name, overload, std::move(kernel)});
}

void register_op_as(c10::DispatchKey key, const char* name, const char* overload, c10::KernelFunction kernel,
                    std::optional<c10::impl::CppSignature> signature) {
  registrations().push_back({"", "", false, implement(key, name, overload, std::move(kernel), std::move(signature))});
}

std::vector<std::pair<std::string, std::string>> operators() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& r : registrations())
    if (!r.name.empty() && (r.withdrawable || first_absent(r.acl).empty())) all.emplace_back(r.name, r.acl);
  return all;
}

std::vector<std::pair<std::string, std::string>> withdrawn_operators() {
  return {withdrawn().begin(), withdrawn().end()};
}

std::string withdrawn_for(const c10::OperatorName& name) {
  const auto found = withdrawn().find(c10::toString(name));
  return found == withdrawn().end() ? "" : found->second;
}

}  // namespace npu::ops
