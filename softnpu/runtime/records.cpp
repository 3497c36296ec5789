#include "records.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fork.h"

namespace softnpu {

namespace {

constexpr uint64_t kMagic = 0x31656375'75706e73;  // changes with the layout of Record
constexpr char kPrefix[] = "use-";

bool lock_is_free(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

// A stopped process may hold the folder's lock: after two seconds go on without it rather than hang with it.
void lock_patiently(int fd) {
  for (int tries = 0; tries < 2000 && flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    const timespec nap{0, 1000000};
    nanosleep(&nap, nullptr);
  }
}

// Once: without a folder the process works, but does not know of the user's others.
void complain(const std::string& folder, const char* why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    fprintf(stderr,
            "softnpu: %s %s, or point XDG_RUNTIME_DIR elsewhere. Until then the cards' memory is not shared with, nor "
            "counted for, your other processes.\n",
            folder.c_str(), why);
}

}  // namespace

Records::Records(const std::string& folder) : process_(getpid()) {
  open_folder(folder);
  create_own(folder);
}

// The folder must be ours alone: in a world-writable place someone else could have made it first.
void Records::open_folder(const std::string& folder) {
  mkdir(folder.c_str(), 0700);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    close(fd);
    complain(folder, "belongs to another user or is open to others; remove it");
    return;
  }
  const int lock = openat(fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) {
    close(fd);
    return;
  }
  folder_fd_ = fd;
  lock_fd_ = lock;
  close_in_child(fd);
  close_in_child(lock);
}

void Records::create_own(const std::string& folder) {
  int fd = -1;
  if (shared()) {
    uint64_t nonce = 0;
    if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce) nonce = static_cast<uint64_t>(clock());
    char name[64];
    snprintf(name, sizeof name, "%s%d-%016llx", kPrefix, static_cast<int>(getpid()), (unsigned long long)nonce);
    Lock lock(*this);  // between creation and its own lock nobody may take the record for a stale one
    fd = openat(folder_fd_, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    // Room for the record, now: a write through the mapping of a file on a full disk ends the process.
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || posix_fallocate(fd, 0, sizeof(Record)) != 0)) {
      unlinkat(folder_fd_, name, 0);
      close(fd);
      fd = -1;
    }
    if (fd >= 0)
      own_name_ = name;
    else
      complain(folder, "has no room for a file; free some");
  }
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, sizeof(Record), PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (fd >= 0) {
    madvise(memory, sizeof(Record), MADV_DONTFORK);
    close_in_child(fd);
  }
  own_ = static_cast<Record*>(memory);
  own_->magic = kMagic;
  own_->pid = getpid();
}

Records::Lock::Lock(Records& records) : records_(records) {
  if (records_.lock_fd_ >= 0) lock_patiently(records_.lock_fd_);
}

Records::Lock::~Lock() {
  if (records_.lock_fd_ >= 0) flock(records_.lock_fd_, LOCK_UN);
}

void Records::add_others(Record* sum) {
  if (!shared()) return;
  const int copy = openat(folder_fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* folder = copy < 0 ? nullptr : fdopendir(copy);
  if (!folder) {
    if (copy >= 0) close(copy);
    return;
  }
  while (const dirent* item = readdir(folder)) {
    if (strncmp(item->d_name, kPrefix, sizeof kPrefix - 1) != 0 || own_name_ == item->d_name) continue;
    const int fd = openat(folder_fd_, item->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    Record record;
    if (lock_is_free(fd)) {
      unlinkat(folder_fd_, item->d_name, 0);
    } else if (pread(fd, &record, sizeof record, 0) == sizeof record && record.magic == kMagic) {
      sum->pending += record.pending;
      for (int card = 0; card < kMaxCards; ++card) sum->used[card] += record.used[card];
    }
    close(fd);
  }
  closedir(folder);
}

bool Records::is_live(const char* name) {
  if (!shared() || strncmp(name, kPrefix, sizeof kPrefix - 1) != 0) return false;
  if (own_name_ == name) return true;
  const int fd = openat(folder_fd_, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool live = !lock_is_free(fd);
  close(fd);
  return live;
}

}  // namespace softnpu
