#include "dump/session.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "acl/config.h"
#include "acl/json.h"
#include "acl/library.h"
#include "dump/operators.h"
#include "runtime/watchers.h"

namespace npu::dump {

namespace {

constexpr uint64_t kReserve = 256 << 20;  // of the disk, left to others

std::mutex g_mutex;
std::shared_ptr<Session>& session() {
  static auto* current = new std::shared_ptr<Session>;  // leaked: threads may outlive static destruction
  return *current;
}

std::string number(double value) {  // all digits
  char text[32];
  snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string text_of(const Statistics& s) {
  std::string text = c10::str("{\"finite\": ", s.finite, ", \"nan\": ", s.nan, ", \"inf\": ", s.infinite);
  if (s.finite)
    text += ", \"min\": " + number(s.minimum) + ", \"max\": " + number(s.maximum) + ", \"mean\": " + number(s.mean) +
            ", \"norm\": " + number(s.norm);
  return text + "}";
}

}  // namespace

void start(Options options) {
  std::lock_guard lock(g_mutex);
  session() = std::make_shared<Session>(std::move(options));
  observe_operators(watchers::dump, true);
  watchers::set(watchers::dump, true);
}

void stop() {
  std::lock_guard lock(g_mutex);
  watchers::set(watchers::dump, false);
  observe_operators(watchers::dump, false);
  session().reset();
}

std::string folder() {
  const auto current = Session::current();
  return current ? current->folder() : "";
}

std::shared_ptr<Session> Session::current() {
  std::lock_guard lock(g_mutex);
  return session();
}

std::string Session::folder() {
  std::lock_guard lock(mutex_);
  return folder_;
}

bool Session::wants(const std::string& aten, const char* aclnn, int64_t step) const {
  const auto has = [&](const auto& range) { return range.first <= step && step <= range.second; };
  if (!options_.steps.empty() && std::none_of(options_.steps.begin(), options_.steps.end(), has)) return false;
  const std::string bare = aten.substr(aten.rfind(':') + 1);  // "add" is "aten::add" too
  const auto matches = [&](const std::string& pattern) {
    for (const char* name : {aten.c_str(), bare.c_str(), aclnn})
      if (fnmatch(pattern.c_str(), name, 0) == 0) return true;
    return false;
  };
  return options_.operators.empty() || std::any_of(options_.operators.begin(), options_.operators.end(), matches);
}

bool Session::open() {
  if (!folder_.empty() || ended_) return !ended_;
  const auto base = c10::str(options_.path, "/npu_dump_", getpid());
  std::string path = base;
  for (int next = 2; mkdir(path.c_str(), 0750) != 0; next++) {
    if (errno != EEXIST) return give_up(c10::str("cannot make the folder ", path, ": ", strerror(errno))), false;
    path = c10::str(base, "_", next);
  }
  folder_ = path;
  return true;
}

bool Session::has_room(uint64_t bytes) {
  if (used_ + bytes > options_.limit) {
    give_up(c10::str("its files would be larger than the limit of ", options_.limit,
                     " bytes; a larger one, or fewer operators or steps, are set with TORCH_NPU_DUMP"));
    return false;
  }
  struct statvfs disk{};
  if (statvfs(folder_.c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < bytes + kReserve) {
    give_up("the disk has no more room");
    return false;
  }
  used_ += bytes;
  return true;
}

void Session::give_up(const std::string& reason) {
  if (std::exchange(ended_, true)) return;
  if (!folder_.empty()) {
    std::ofstream(folder_ + "/index.jsonl", std::ios::app) << "{\"stopped\": " << quoted(reason) << "}\n";
  }
  watchers::set(watchers::dump, false);
  observe_operators(watchers::dump, false);
  TORCH_WARN("The dump of operators ", folder_.empty() ? "" : "in " + folder_ + " ", "ends here: ", reason,
             ". The program goes on.");
}

std::string Session::describe(const HostArray& array, const std::string& name) {
  std::string sizes;
  for (const int64_t size : array.sizes()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  std::string file = "null";
  if (options_.data) {
    std::lock_guard lock(mutex_);
    if (open() && has_room(array.bytes() + 128)) {
      if (const int error = array.save(folder_ + "/" + name + ".npy"))
        give_up(c10::str("cannot write ", name, ".npy: ", strerror(error)));
      else
        file = quoted(name + ".npy");
    }
  }
  return c10::str("{\"shape\": [", sizes, "], \"dtype\": \"", array.type().name, "\", \"file\": ", file,
                  ", \"statistics\": ", text_of(array.statistics()), "}");
}

void Session::append(const std::string& line) {
  std::lock_guard lock(mutex_);
  if (!open() || !has_room(line.size() + 1)) return;
  const auto path = folder_ + "/index.jsonl";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  FILE* stream = file < 0 ? nullptr : fdopen(file, "a");
  if (!stream) return give_up(c10::str("cannot write ", path, ": ", strerror(errno)));
  if (!std::exchange(has_index_, true))
    fprintf(stream, "{\"dump\": 1, \"pid\": %d, \"rank\": %d, \"device_library\": %s}\n", getpid(), config::rank(),
            quoted(acl::path()).c_str());
  fprintf(stream, "%s\n", line.c_str());
  if (fclose(stream) != 0) give_up(c10::str("cannot write ", path, ": ", strerror(errno)));
}

}  // namespace npu::dump
