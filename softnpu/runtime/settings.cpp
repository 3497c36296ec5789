#include "settings.h"

#include <atomic>
#include <map>
#include <mutex>

#include "capacity.h"
#include "config.h"
#include "context.h"
#include "error.h"
#include "soc.h"

namespace softnpu {

namespace {

constexpr int kParameters = 3;
// ACL_OPT_DETERMINISTIC has a value from the start: the official client reads it before anybody has set it.
std::atomic<int64_t> g_parameters[kParameters] = {0, kUnset, kUnset};

int checked_option(aclSysParamOpt option) {
  if (option < 0 || option >= kParameters)
    fail(ACL_ERROR_RT_PARAM_INVALID, "opt %d is unknown", static_cast<int>(option));
  return option;
}

// The official client has four levels of determinism (torch_npu.npu.set_deterministic_level), which it hands on as they
// are.
void check_value(aclSysParamOpt option, int64_t value) {
  const int64_t highest = option == ACL_OPT_DETERMINISTIC ? 3 : 1;
  if (value < 0 || value > highest)
    fail(ACL_ERROR_RT_PARAM_INVALID, "value %lld is not between 0 and %lld", (long long)value, (long long)highest);
}

struct CompileOptions {
  std::mutex mutex;
  std::map<int, std::string> values = {{ACL_OP_JIT_COMPILE, "disable"}, {ACL_PRECISION_MODE, "must_keep_origin_dtype"}};
};

CompileOptions& compile_options() {
  static CompileOptions* const o = new CompileOptions;
  return *o;
}

void check_compile_option(aclCompileOpt option) {
  if (option < ACL_PRECISION_MODE || option > ACL_OP_DEBUG_OPTION)
    fail(ACL_ERROR_INVALID_PARAM, "opt %d is no compile option", static_cast<int>(option));
}

}  // namespace

void set_process_parameter(aclSysParamOpt option, int64_t value) {
  check_value(option, value);
  g_parameters[checked_option(option)] = value;
}

int64_t checked_process_parameter(aclSysParamOpt option) {
  const int64_t value = g_parameters[checked_option(option)];
  if (value == kUnset) fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "opt %d was never set", static_cast<int>(option));
  return value;
}

void set_context_parameter(Context& context, aclSysParamOpt option, int64_t value) {
  check_value(option, value);
  context.parameters[checked_option(option)] = value;
}

int64_t device_attribute(int card, aclrtDevAttr attribute) {
  const Soc& soc = *checked_config().soc;
  switch (attribute) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      return soc.aicpu_cores;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
      return soc.ai_cores;
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      return soc.cube_cores;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      return soc.vector_cores;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      return static_cast<int64_t>(card_total());
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      return static_cast<int64_t>(soc.l2_bytes);
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      return card;
    case ACL_DEV_ATTR_SMP_ID:
      return 0;
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
      return 0;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      return 1;
    default:
      fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "attr %d is not known for a software card", static_cast<int>(attribute));
  }
}

std::string compile_option(aclCompileOpt option) {
  check_compile_option(option);
  std::lock_guard<std::mutex> lock(compile_options().mutex);
  return compile_options().values[option];
}

void set_compile_option(aclCompileOpt option, const std::string& value) {
  check_compile_option(option);
  std::lock_guard<std::mutex> lock(compile_options().mutex);
  compile_options().values[option] = value;
}

}  // namespace softnpu
