#include "config.h"

#include "runtime/config.h"

namespace softnpu::comm {

Settings read_settings(const HcclCommConfig*) {
  Settings settings;
  settings.exec_timeout = config().exec_timeout;
  return settings;
}

}  // namespace softnpu::comm
