#include "config.h"

#include <cstddef>
#include <cstring>

#include "acl_types.h"
#include "runtime/config.h"
#include "runtime/error.h"

namespace softnpu::comm {

namespace {

// Older clients have a shorter structure: a field counts when it lies within the size that the client gives.
#define NPU_HAS_FIELD(config, field) ((config)->size >= offsetof(HcclCommConfig, field) + sizeof(HcclCommConfig::field))

}  // namespace

Settings read_settings(const HcclCommConfig* config) {
  Settings settings;
  settings.exec_timeout = softnpu::config().exec_timeout;
  if (!config) return settings;
  if (!NPU_HAS_FIELD(config, hcclDeterministic) || config->magic != HCCL_COMM_CONFIG_MAGIC)
    fail(ACL_ERROR_RT_PARAM_INVALID, "config was not initialised: it begins with neither a size nor the magic word");
  if (NPU_HAS_FIELD(config, hcclCommName))
    settings.name.assign(config->hcclCommName, strnlen(config->hcclCommName, sizeof config->hcclCommName));
  if (NPU_HAS_FIELD(config, hcclExecTimeOut) && config->hcclExecTimeOut >= 0)
    settings.exec_timeout = config->hcclExecTimeOut;
  return settings;
}

}  // namespace softnpu::comm
