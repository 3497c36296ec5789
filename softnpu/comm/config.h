// What a client asks of a communicator: HcclCommConfig and the variables it overrides.
#pragma once

#include <string>

#include "hccl.h"

namespace softnpu::comm {

struct Settings {
  std::string name;      // empty: one is made up
  int exec_timeout = 0;  // seconds a collective waits for its peers, 0: for ever
};

// From the environment and, where `config` (may be NULL) says something, from it. Throws Failure(107000).
Settings read_settings(const HcclCommConfig* config);

}  // namespace softnpu::comm
