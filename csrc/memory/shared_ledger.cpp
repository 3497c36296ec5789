#include "memory/shared_ledger.h"

#include <c10/util/Exception.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

namespace npu::shared_memory {
namespace {

constexpr char kFolder[] = "/dev/shm/";
constexpr char kPrefix[] = "torch_npu-";
constexpr size_t kBytes = sizeof(Cell) * Ledger::kCells;

Cell* map(int fd) {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Cell*>(memory);
}

// torch_npu-<pid>-<start time>-<random>: files whose process is gone.
void remove_stale() {
  DIR* const folder = opendir(kFolder);
  if (folder == nullptr) return;
  while (const dirent* item = readdir(folder)) {
    long long pid = 0, started = 0;
    struct stat about;
    if (sscanf(item->d_name, "torch_npu-%lld-%lld-", &pid, &started) == 2 && start_time(pid) != started &&
        fstatat(dirfd(folder), item->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && about.st_uid == geteuid())
      unlinkat(dirfd(folder), item->d_name, 0);
  }
  closedir(folder);
}

}  // namespace

int64_t start_time(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return 0;
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // the name before may hold anything
  std::string state, word;
  fields >> state;
  if (state == "Z" || state == "X") return 0;
  for (int field = 4; field <= 21; ++field) fields >> word;
  int64_t started = 0;
  fields >> started;
  return started;
}

std::shared_ptr<Ledger> Ledger::create() {
  remove_stale();
  uint64_t random = 0;
  TORCH_CHECK(getrandom(&random, sizeof random, 0) == sizeof random, "getrandom: ", strerror(errno));
  char name[96];
  snprintf(name, sizeof name, "%s%lld-%lld-%016llx", kPrefix, static_cast<long long>(getpid()),
           static_cast<long long>(start_time(getpid())), static_cast<unsigned long long>(random));
  const std::string path = std::string(kFolder) + name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  TORCH_CHECK(fd >= 0, "npu tensors cannot be shared between processes: ", path, ": ", strerror(errno));
  Cell* const cells = ftruncate(fd, kBytes) == 0 ? map(fd) : nullptr;
  const int error = errno;
  close(fd);
  if (cells == nullptr) unlink(path.c_str());
  TORCH_CHECK(cells != nullptr, "npu tensors cannot be shared between processes: ", path, ": ", strerror(error));
  return std::shared_ptr<Ledger>(new Ledger(name, cells, getpid()));
}

std::shared_ptr<Ledger> Ledger::open(const std::string& name) {
  static const std::regex form("torch_npu-[0-9]+-[0-9]+-[0-9a-f]{16}");
  TORCH_CHECK_VALUE(std::regex_match(name, form), "This is not the name of a list of shared npu tensors: ", name);
  const std::string path = std::string(kFolder) + name;
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  TORCH_CHECK(fd >= 0,
              "The process that sent this npu tensor has ended, and its memory with it: keep it running until "
              "the tensor was received (",
              path, ": ", strerror(errno), ")");
  struct stat about;
  const bool ours = fstat(fd, &about) == 0 && about.st_uid == geteuid() && about.st_size == static_cast<off_t>(kBytes);
  Cell* const cells = ours ? map(fd) : nullptr;
  close(fd);
  TORCH_CHECK(cells != nullptr, "The list of shared npu tensors ", path, " is not of this user or is damaged.");
  return std::shared_ptr<Ledger>(new Ledger(name, cells, 0));
}

Ledger::~Ledger() {
  munmap(cells_, kBytes);
  remove();
}

void Ledger::remove() noexcept {
  if (owner_ == getpid()) unlink((kFolder + name_).c_str());
}

int64_t Ledger::take() {
  for (int64_t tried = 0; tried < kCells; ++tried) {
    const int64_t index = next_++ % kCells;
    if (cells_[index].state.load(std::memory_order_acquire) != Cell::unused) continue;
    cells_[index].pid.store(0, std::memory_order_relaxed);
    cells_[index].message.fetch_add(1, std::memory_order_relaxed);
    cells_[index].state.store(Cell::sent, std::memory_order_release);
    return index;
  }
  return -1;
}

}  // namespace npu::shared_memory
