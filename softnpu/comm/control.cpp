#include "control.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "acl_types.h"
#include "runtime/error.h"

namespace softnpu::comm {

namespace {

constexpr uint64_t kMagic = 0x3163'6d6d'6f63'6e73;
constexpr size_t kPage = 4096;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Control | RankState[ranks] | (Post, tables)[ranks][2] || Message[ranks][ranks][kMessagesInFlight]
size_t states_at() { return round_up(sizeof(Control), 64); }
size_t posts_at(size_t ranks) { return states_at() + ranks * sizeof(RankState); }
size_t post_bytes(size_t ranks) { return round_up(sizeof(Post) + 4 * ranks * sizeof(uint64_t), 64); }
size_t messages_at(size_t ranks) { return round_up(posts_at(ranks) + 2 * ranks * post_bytes(ranks), kPage); }
size_t channel_bytes() { return round_up(kMessagesInFlight * sizeof(Message), kPage); }

size_t total_bytes(size_t ranks) { return messages_at(ranks) + ranks * ranks * channel_bytes(); }

char* bytes_of(Control* control) { return reinterpret_cast<char*>(control); }

std::shared_ptr<Control> map_control(const Descriptor& fd, uint32_t ranks) {
  const size_t bytes = total_bytes(ranks);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (memory == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of a control block: %s", strerror(errno));
  madvise(memory, bytes, MADV_DONTFORK);
  std::shared_ptr<Control> control(static_cast<Control*>(memory), [bytes](Control* c) { munmap(c, bytes); });
  if (control->magic != kMagic || control->ranks != ranks)
    fail(ACL_ERROR_RT_INTERNAL_ERROR, "the control block is not one of this version");
  return control;
}

}  // namespace

const char* name_of(Kind kind) {
  static const char* const names[] = {"nothing",      "all_reduce",     "broadcast",        "all_gather",
                                      "all_gather_v", "reduce_scatter", "reduce_scatter_v", "all_to_all",
                                      "all_to_all_v", "reduce",         "scatter"};
  return names[static_cast<uint32_t>(kind)];
}

RankState& Control::rank(uint32_t rank) {
  return *reinterpret_cast<RankState*>(bytes_of(this) + states_at() + rank * sizeof(RankState));
}

Post& Control::post(uint32_t rank, uint64_t number) {
  return *reinterpret_cast<Post*>(bytes_of(this) + posts_at(ranks) + (2 * rank + number % 2) * post_bytes(ranks));
}

uint64_t* Control::table(Post& post, Table which) {
  return reinterpret_cast<uint64_t*>(&post + 1) + static_cast<size_t>(which) * ranks;
}

Message& Control::message(uint32_t from, uint32_t to, uint64_t number) {
  char* channel = bytes_of(this) + messages_at(ranks) + (size_t{from} * ranks + to) * channel_bytes();
  return reinterpret_cast<Message*>(channel)[number % kMessagesInFlight];
}

void Control::notify() noexcept {
  event.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    syscall(SYS_futex, &event, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Control::sleep(uint32_t seen, int milliseconds) noexcept {
  const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1000000L};
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &event, FUTEX_WAIT, seen, &limit, nullptr, 0);
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

bool Control::set_fault(int code, const char* text) noexcept {
  uint32_t none = 0;
  if (!fault.state.compare_exchange_strong(none, 1)) return false;
  fault.code = code;
  snprintf(fault.text, sizeof fault.text, "%s", text);
  fault.state.store(2, std::memory_order_seq_cst);
  notify();
  return true;
}

Descriptor ControlBlock::create(uint32_t ranks) {
  Descriptor fd(memfd_create("softnpu-communicator", MFD_CLOEXEC));
  if (!fd) fail_to_open("a control block");
  const size_t committed = messages_at(ranks);
  if (ftruncate(fd.get(), static_cast<off_t>(total_bytes(ranks))) != 0 ||
      posix_fallocate(fd.get(), 0, static_cast<off_t>(committed)) != 0)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host refused %zu bytes for the communicator's control block", committed);
  void* memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "mmap of a control block: %s", strerror(errno));
  static_cast<Control*>(memory)->magic = kMagic;
  static_cast<Control*>(memory)->ranks = ranks;
  munmap(memory, kPage);
  return fd;
}

ControlBlock::ControlBlock(Descriptor fd, uint32_t ranks) : fd_(std::move(fd)) {
  static std::mutex mutex;
  static auto& mapped = *new std::map<ino_t, std::weak_ptr<Control>>;  // by the file's number
  struct stat file;
  if (fstat(fd_.get(), &file) != 0) fail(ACL_ERROR_RT_INTERNAL_ERROR, "fstat of a control block: %s", strerror(errno));
  std::lock_guard<std::mutex> lock(mutex);
  std::erase_if(mapped, [](const auto& entry) { return entry.second.expired(); });
  control_ = mapped[file.st_ino].lock();
  if (control_) return;
  control_ = map_control(fd_, ranks);
  mapped[file.st_ino] = control_;
}

void ControlBlock::prepare_messages(uint32_t from, uint32_t to) {
  const size_t offset = messages_at(control_->ranks) + (size_t{from} * control_->ranks + to) * channel_bytes();
  if (posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(channel_bytes())) != 0)
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "the host refused memory for messages between ranks %u and %u", from, to);
}

}  // namespace softnpu::comm
