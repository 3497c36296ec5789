#include "distributed/inspection.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <mutex>
#include <set>

#include "acl/json.h"
#include "distributed/process_group.h"
#include "runtime/inspection.h"

namespace npu::distributed {

namespace {

struct Groups {
  std::mutex mutex;
  std::set<ProcessGroupHCCL*> all;
};

Groups& groups() {
  static auto* const groups = new Groups;
  return *groups;
}

std::string groups_part() {
  std::lock_guard<std::mutex> lock(groups().mutex);
  std::string list;
  for (ProcessGroupHCCL* group : groups().all) list += (list.empty() ? "" : ", ") + group->inspect();
  return "[" + list + "]";
}

// Groups of one name belong together when their ranks meet at the same place.
std::string place_of(c10::intrusive_ptr<c10d::Store> store) {
  if (auto* prefix = dynamic_cast<c10d::PrefixStore*>(store.get())) store = prefix->getUnderlyingNonPrefixStore();
  if (auto* tcp = dynamic_cast<c10d::TCPStore*>(store.get())) return c10::str(tcp->getHost(), ":", tcp->getPort());
  if (auto* file = dynamic_cast<c10d::FileStore*>(store.get())) return file->getPath();
  return "";
}

std::string short_title(const std::string& title) { return title.substr(title.find(':') + 1); }  // "all_reduce"

const char* flag(bool value) { return value ? "true" : "false"; }

std::string wait_text(const std::string& title, uint64_t number, bool collective, bool connecting, int peer,
                      double seconds) {
  return c10::str("{\"title\": ", quoted(short_title(title)), ", \"number\": ", number,
                  ", \"collective\": ", flag(collective), ", \"connecting\": ", flag(connecting),
                  ", \"peer\": ", peer < 0 ? "null" : std::to_string(peer), ", \"seconds\": ", seconds, "}");
}

}  // namespace

void begin_inspection(ProcessGroupHCCL& group) {
  inspection::add("groups", &groups_part);
  std::lock_guard<std::mutex> lock(groups().mutex);
  groups().all.insert(&group);
}

void end_inspection(ProcessGroupHCCL& group) {
  std::lock_guard<std::mutex> lock(groups().mutex);
  groups().all.erase(&group);
}

std::string ProcessGroupHCCL::inspect() {
  std::optional<Connecting> connecting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    connecting = connecting_;
  }
  std::string ranks, waits;
  for (int rank = 0; rank < size_; ++rank) ranks += c10::str(rank ? ", " : "", global_rank(rank));
  const auto wait = [&](const std::string& text) { waits += (waits.empty() ? "" : ", ") + text; };
  for (const auto& execution : watchdog_->in_flight()) {
    const Execution::Description& what = execution->description();
    wait(wait_text(what.title, what.number, what.collective, false, what.peer < 0 ? -1 : global_rank(what.peer),
                   execution->seconds()));
  }
  if (connecting) {
    const auto time = std::chrono::steady_clock::now() - connecting->since;
    wait(wait_text(connecting->title, (connecting->everyone ? collectives_ : transfers_) + 1, connecting->everyone,
                   true, -1, std::chrono::duration<double>(time).count()));
  }
  const auto failure = this->failure();
  return c10::str("{\"name\": ", quoted(options_->group_name), ", \"place\": ", quoted(place_of(store_)),
                  ", \"rank\": ", global_rank(), ", \"ranks\": [", ranks, "], \"called\": ", collectives_.load(),
                  ", \"last\": ", quoted(short_title(watchdog_->last_title())),
                  ", \"failure\": ", failure ? quoted(*failure) : "null", ", \"waits\": [", waits, "]}");
}

}  // namespace npu::distributed
