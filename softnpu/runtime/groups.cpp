#include "groups.h"

#include <map>
#include <mutex>

namespace softnpu {

namespace {

struct Groups {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, Group> by_name;
};
Groups& groups() {
  static auto* const all = new Groups;
  return *all;
}

}  // namespace

void name_group(const std::string& name, int card, Group group) {
  std::lock_guard<std::mutex> lock(groups().mutex);
  groups().by_name[{name, card}] = group;
}

void forget_group(void* communicator) {
  std::lock_guard<std::mutex> lock(groups().mutex);
  std::erase_if(groups().by_name, [&](const auto& entry) { return entry.second.communicator == communicator; });
}

Group find_group(const std::string& name, int card) {
  std::lock_guard<std::mutex> lock(groups().mutex);
  const auto found = groups().by_name.find({name, card});
  return found == groups().by_name.end() ? Group() : found->second;
}

}  // namespace softnpu
