#include "initialization.h"

#include <unistd.h>

#include <atomic>

#include "acl_types.h"
#include "config.h"
#include "context.h"
#include "error.h"
#include "stream.h"

namespace softnpu {

namespace {
std::atomic<bool> g_initialized{false};
}

void initialize(const char* config_path) {
  checked_config();
  // The file's contents are tuning of hardware features; that it can be read is all there is to check.
  if (config_path && *config_path && access(config_path, R_OK) != 0)
    fail(ACL_ERROR_INVALID_FILE, "configPath '%s' cannot be read", config_path);
  if (g_initialized.exchange(true)) fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before");
}

void finalize() {
  if (!g_initialized.exchange(false)) fail(ACL_ERROR_REPEAT_FINALIZE, "aclInit was not called, or aclFinalize was");
  const Deadline deadline = Deadline::after_milliseconds(kPatience);
  for (int device = 0; device < device_count(); ++device)
    if (is_open(card_of_device(device))) reset_device(device, deadline);
}

}  // namespace softnpu
