#include "host_memory_limit.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "acl_types.h"
#include "error.h"

namespace softnpu {

namespace {

// Without streams: this is read at every allocation. Empty when there is no such file; throws when it is not known.
std::string read_text(const std::string& path) {
  char text[16384];
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE))
    fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no file descriptor is left to read %s (see ulimit -n)", path.c_str());
  if (fd < 0) return "";
  const ssize_t bytes = read(fd, text, sizeof text);
  close(fd);
  return std::string(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
}

// False when the file is missing or says "max".
bool read_number(const std::string& path, size_t* value) {
  const std::string text = read_text(path);
  if (text.empty() || !isdigit(static_cast<unsigned char>(text[0]))) return false;
  *value = strtoull(text.c_str(), nullptr, 10);
  return true;
}

// The number behind `key` in lines of "key number", 0 when it is not there.
size_t find_field(const std::string& text, const std::string& key) {
  const std::string line = "\n" + key + " ";
  const size_t at = ("\n" + text).find(line);
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + line.size() - 1, nullptr, 10);
}

struct Files {
  const char* limit;
  const char* usage;
  const char* cache;  // field of memory.stat that the kernel gives back by itself
};

// A limit holds for every group below it: walk from the process's group up to the mount.
void apply_groups(const std::string& mount, std::string group, const Files& files, HostMemory* memory) {
  const size_t host = memory->limit;
  for (;;) {
    const std::string folder = mount + group;
    size_t limit = 0, usage = 0;
    if (read_number(folder + "/" + files.limit, &limit) && limit < host) {  // else it is no limit
      read_number(folder + "/" + files.usage, &usage);
      usage -= std::min(usage, find_field(read_text(folder + "/memory.stat"), files.cache));
      memory->limit = std::min(memory->limit, limit);
      memory->available = std::min(memory->available, limit - std::min(limit, usage));
    }
    const size_t parent = group.find_last_of('/');
    if (group == "/" || parent == std::string::npos) return;
    group.erase(parent);
  }
}

}  // namespace

HostMemory read_host_memory(const std::string& root) {
  HostMemory memory;
  const std::string meminfo = read_text(root + "/proc/meminfo");
  memory.limit = find_field(meminfo, "MemTotal:") << 10;
  memory.available = find_field(meminfo, "MemAvailable:") << 10;
  struct sysinfo host;
  if (memory.limit == 0 && sysinfo(&host) == 0) {  // no /proc: caches count as used then
    memory.limit = host.totalram * host.mem_unit;
    memory.available = (host.freeram + host.bufferram) * host.mem_unit;
  }

  const std::string groups = read_text(root + "/proc/self/cgroup");
  for (size_t begin = 0; begin < groups.size();) {  // "id:controllers:/path"
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string line = groups.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,")
      apply_groups(root + "/sys/fs/cgroup", path, {"memory.max", "memory.current", "inactive_file"}, &memory);
    else if (controllers.find(",memory,") != std::string::npos)
      apply_groups(root + "/sys/fs/cgroup/memory", path,
                   {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}, &memory);
  }
  return memory;
}

}  // namespace softnpu
