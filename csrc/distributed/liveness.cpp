#include "distributed/liveness.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace npu::distributed {

namespace {

// Which kernel's processes, and under whose numbers. Empty without /proc.
std::string place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  struct stat space;
  if (boot.empty() || stat("/proc/self/ns/pid", &space) != 0) return "";
  return boot + "/" + std::to_string(space.st_ino);
}

struct Status {
  char state = 'X';     // as for a process that is gone
  std::string started;  // in ticks since boot: a number may have been given to another process
};

Status status_of(const std::string& pid) {
  std::string text;
  std::getline(std::ifstream("/proc/" + pid + "/stat"), text, '\0');
  const size_t name_end = text.rfind(')');  // the name before it may hold anything
  Status status;
  if (name_end == std::string::npos) return status;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> status.state;
  for (int field = 4; field <= 22; ++field) fields >> status.started;
  return status;
}

}  // namespace

std::string own_process() {
  const std::string pid = std::to_string(getpid());
  return place() + " " + pid + " " + status_of(pid).started;
}

bool process_has_ended(const std::string& process) {
  std::istringstream fields(process);
  std::string where, pid, started;
  if (!(fields >> where >> pid >> started) || where != place()) return false;
  const Status now = status_of(pid);
  return now.state == 'X' || now.state == 'Z' || now.started != started;
}

}  // namespace npu::distributed
