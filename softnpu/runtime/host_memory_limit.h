// How much memory this host, or the container the process is in, can give. Reads /proc and the cgroup files.
#pragma once

#include <cstddef>
#include <string>

namespace softnpu {

struct HostMemory {
  size_t limit = 0;      // the most all processes here can ever have
  size_t available = 0;  // what could be taken right now without pushing anything out but page cache
};

// `root` stands before /proc and /sys/fs/cgroup, for tests.
HostMemory read_host_memory(const std::string& root = "");

}  // namespace softnpu
