#include "peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "acl_types.h"
#include "runtime/context.h"
#include "runtime/error.h"
#include "runtime/fork.h"
#include "runtime/memory.h"

namespace softnpu::comm {

namespace {

using Identity = std::pair<dev_t, ino_t>;

struct Table {
  std::mutex mutex;
  std::map<Identity, std::weak_ptr<Peer>> peers;
};

Table& table() {
  static Table* const t = new Table;
  return *t;
}

struct stat status_of(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) fail(ACL_ERROR_RT_INTERNAL_ERROR, "a peer's memory: %s", strerror(errno));
  return status;
}

bool is_own_card(const Identity& identity) {
  for (int card = 0; card < kMaxCards; ++card) {
    if (!is_open(card)) continue;
    const struct stat status = status_of(card_file(card));
    if (identity == Identity{status.st_dev, status.st_ino}) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<Peer> Peer::open(Descriptor memory, Descriptor life_line) {
  const struct stat status = status_of(memory.get());
  const Identity identity{status.st_dev, status.st_ino};
  std::lock_guard<std::mutex> lock(table().mutex);
  std::erase_if(table().peers, [](const auto& item) { return item.second.expired(); });
  if (auto known = table().peers[identity].lock()) return known;

  std::shared_ptr<Peer> peer(new Peer);
  if (!is_own_card(identity)) {
    const size_t bytes = static_cast<size_t>(status.st_size);
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory.get(), 0);
    if (base == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of a peer's memory: %s", strerror(errno));
    madvise(base, bytes, MADV_DONTFORK);
    madvise(base, bytes, MADV_DONTDUMP);
    madvise(base, bytes, MADV_HUGEPAGE);
    peer->base_ = static_cast<char*>(base);
    peer->bytes_ = bytes;
    peer->life_line_ = std::move(life_line);
  }
  table().peers[identity] = peer;
  return peer;
}

Peer::~Peer() {
  if (base_) munmap(base_, bytes_);
}

int own_life_line() {
  static const int reading_end = [] {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail_to_open("a pipe");
    close_in_child(ends[1]);  // a forked child must not seem to be its parent
    return ends[0];
  }();
  return reading_end;
}

}  // namespace softnpu::comm
