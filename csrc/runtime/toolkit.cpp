#include "runtime/toolkit.h"

#include <c10/util/Exception.h>
#include <atomic>

#include <map>
#include <mutex>

#include "acl/check.h"
#include "acl/library.h"
#include "acl/op_compiler.h"
#include "runtime/device.h"

namespace npu {

namespace {

struct Options {
  std::mutex mutex;
  std::map<aclCompileOpt, std::string> values;
  bool handed_over = false;
};

Options& options() {
  static auto* options = new Options;
  return *options;
}

template <typename Function>
Function* compiler_function(const char* name) {
  auto* const function = reinterpret_cast<Function*>(acl::op_compiler_symbol(name));
  TORCH_CHECK(function != nullptr, "The runtime in ", acl::path(), " has no ", name,
              ", so options of its operator compiler cannot be used; remove torch.npu.set_option and "
              "torch.npu.set_compile_mode from the program.");
  return function;
}

void hand_over(aclCompileOpt option, const std::string& value) {
  const auto aclSetCompileopt = compiler_function<decltype(::aclSetCompileopt)>("aclSetCompileopt");
  NPU_CHECK(aclSetCompileopt(option, value.c_str()));
}

void hand_over_all() {
  std::lock_guard lock(options().mutex);
  for (const auto& [option, value] : options().values) hand_over(option, value);
  options().handed_over = true;
}

[[maybe_unused]] const bool g_at_init = (at_init(hand_over_all), true);

}  // namespace

std::string package_version(aclCANNPackageName package) {
  aclCANNPackageVersion version{};
  const auto query = acl::api().aclsysGetCANNVersion;
  return query && query(package, &version) == 0 ? version.version : "";
}

void set_compile_option(aclCompileOpt option, const std::string& value) {
  std::lock_guard lock(options().mutex);
  if (options().handed_over) {
    init();  // refuses a forked child
    hand_over(option, value);
  }
  options().values[option] = value;
}

std::string compile_option(aclCompileOpt option) {
  {
    std::lock_guard lock(options().mutex);
    const auto set = options().values.find(option);
    if (set != options().values.end()) return set->second;
  }
  init();
  const auto aclGetCompileoptSize = compiler_function<decltype(::aclGetCompileoptSize)>("aclGetCompileoptSize");
  const auto aclGetCompileopt = compiler_function<decltype(::aclGetCompileopt)>("aclGetCompileopt");
  std::string value(aclGetCompileoptSize(option), '\0');
  NPU_CHECK(aclGetCompileopt(option, value.data(), value.size()));
  return value.c_str();  // the size counts the terminating zero
}

namespace {
constinit std::atomic<int> g_deterministic_level{1};
}

int deterministic_level() noexcept { return g_deterministic_level.load(std::memory_order_relaxed); }

void set_deterministic_level(int level) { g_deterministic_level = level; }

}  // namespace npu
