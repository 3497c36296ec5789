#include "shared_event.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

#include "capacity.h"
#include "config.h"
#include "error.h"
#include "order.h"
#include "records.h"
#include "share.h"
#include "stream.h"
#include "task.h"

namespace softnpu {

namespace {

constexpr uint64_t kPageMagic = 0x31746e65'76656e73;  // changes with the layout of EventPage
constexpr int kHolders = 64, kSlots = 256;
constexpr char kHandlePrefix[] = "softnpu-event-";

// Sleeps until the word is no longer `seen`, a tenth of a second at most: who would change it may have ended.
void sleep_on(const std::atomic<uint32_t>& word, uint32_t seen) noexcept {
  const timespec tenth{0, 100'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &tenth, nullptr, 0);
}

class WaitTask final : public Task {
 public:
  WaitTask(std::shared_ptr<SharedEvent> event, uint64_t number) : event_(std::move(event)), number_(number) {
    event_->waits.fetch_add(1, std::memory_order_relaxed);
  }
  ~WaitTask() override { event_->waits.fetch_sub(1, std::memory_order_relaxed); }
  Waits waits() const noexcept override { return Waits::for_user; }
  const char* name() const noexcept override { return "aclrtStreamWaitEvent"; }
  std::string describe() const override { return name(); }
  bool begin() override {
    if (!event_->done(number_)) return false;
    run();
    return true;
  }
  void run() override { event_->await(number_); }

 private:
  const std::shared_ptr<SharedEvent> event_;
  const uint64_t number_;
};

}  // namespace

struct EventPage {
  enum State : uint32_t { pending, complete, failed };

  // A process that has recorded the event; once for each time that it opened it.
  struct Holder {
    int32_t pid;      // 0: nobody
    char record[60];  // see records.h
  };

  // One of the last kSlots records. A slot is used again when its record is complete.
  struct Slot {
    std::atomic<uint64_t> number;
    std::atomic<uint32_t> state;
    std::atomic<int32_t> holder;
  };

  uint64_t magic;
  pthread_mutex_t mutex;  // for records and for `holders`; survives the end of who holds it
  std::atomic<uint64_t> last, cleared;
  std::atomic<uint32_t> changes;  // a futex: counts completions
  Holder holders[kHolders];
  Slot slots[kSlots];
};

namespace {

EventPage* map_event(int fd) {
  void* memory = mmap(nullptr, sizeof(EventPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot map an event: %s", strerror(errno));
  madvise(memory, sizeof(EventPage), MADV_DONTFORK);
  return static_cast<EventPage*>(memory);
}

class PageLock {
 public:
  explicit PageLock(EventPage& page) : page_(page) {
    if (pthread_mutex_lock(&page.mutex) == EOWNERDEAD) pthread_mutex_consistent(&page.mutex);
  }
  ~PageLock() { pthread_mutex_unlock(&page_.mutex); }
  PageLock(const PageLock&) = delete;

 private:
  EventPage& page_;
};

bool lives(const EventPage::Holder& holder) { return holder.pid == getpid() || records().is_live(holder.record); }

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::create() {
  const int fd = memfd_create("softnpu-event", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(EventPage)) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "an event for other processes needs a descriptor: %s", strerror(error));
  }
  EventPage* page = nullptr;
  try {
    page = map_event(fd);
  } catch (...) {
    close(fd);
    throw;
  }
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&page->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  page->magic = kPageMagic;
  return std::shared_ptr<SharedEvent>(new SharedEvent(fd, page));
}

std::shared_ptr<SharedEvent> SharedEvent::open(const aclrtIpcEventHandle& handle) {
  unsigned long long share = 0;
  int length = 0;
  const char* const text = handle.reserved;
  const size_t prefix = sizeof kHandlePrefix - 1;
  if (strnlen(text, sizeof handle.reserved) != prefix + 16 || strncmp(text, kHandlePrefix, prefix) != 0 ||
      sscanf(text + prefix, "%16llx%n", &share, &length) != 1 || length != 16)
    fail(ACL_ERROR_RT_PARAM_INVALID, "handle is not one that aclrtIpcGetEventHandle gives");
  const SharedPages pages = open_share(share);
  EventPage* page = nullptr;
  try {
    if (pages.bytes != sizeof(EventPage)) fail(ACL_ERROR_RT_PARAM_INVALID, "handle is that of memory, not of an event");
    page = map_event(pages.fd);
  } catch (...) {
    close(pages.fd);
    throw;
  }
  close(pages.fd);
  if (page->magic != kPageMagic) {
    munmap(page, sizeof(EventPage));
    fail(ACL_ERROR_RT_PARAM_INVALID, "handle is that of another version of softnpu");
  }
  return std::shared_ptr<SharedEvent>(new SharedEvent(-1, page));
}

SharedEvent::~SharedEvent() {
  if (share_) unpublish(share_);
  if (place_ >= 0) {
    const PageLock lock(*page_);
    page_->holders[place_].pid = 0;
  }
  munmap(page_, sizeof(EventPage));
  if (fd_ >= 0) close(fd_);
}

aclrtIpcEventHandle SharedEvent::handle() {
  if (fd_ < 0) fail(ACL_ERROR_RT_PARAM_INVALID, "the event is another process's, which alone can give its handle");
  std::lock_guard<std::mutex> once(publishing_);
  if (!share_) share_ = publish({fd_, 0, sizeof(EventPage)}, true);
  aclrtIpcEventHandle handle = {};
  snprintf(handle.reserved, sizeof handle.reserved, "%s%016llx", kHandlePrefix, (unsigned long long)share_);
  return handle;
}

// Lock held.
int SharedEvent::join() {
  const std::string& name = records().own_name();
  int place = 0;
  while (place < kHolders && page_->holders[place].pid != 0) ++place;
  if (place == kHolders)
    for (place = 0; place < kHolders && lives(page_->holders[place]);) ++place;
  if (place == kHolders) fail(ACL_ERROR_RT_OVER_LIMIT, "more than %d processes record this event", kHolders);
  for (EventPage::Slot& slot : page_->slots)  // of a process that has ended
    if (slot.holder.load() == place && slot.state.load() == EventPage::pending) slot.state.store(EventPage::failed);
  EventPage::Holder& holder = page_->holders[place];
  holder.pid = getpid();
  snprintf(holder.record, sizeof holder.record, "%s", name.c_str());
  return place;
}

uint64_t SharedEvent::begin_record() {
  for (;;) {
    const uint32_t changes = page_->changes.load();
    {
      const PageLock lock(*page_);
      if (place_ < 0) place_ = join();
      const uint64_t number = page_->last.load() + 1;
      EventPage::Slot& slot = page_->slots[number % kSlots];
      if (slot.number.load() == 0 || slot.state.load() != EventPage::pending ||
          !lives(page_->holders[slot.holder.load()])) {
        slot.state.store(EventPage::pending);
        slot.holder.store(place_);
        slot.number.store(number);
        page_->last.store(number);
        return number;
      }
    }
    sleep_on(page_->changes, changes);
  }
}

void SharedEvent::end_record(uint64_t number, bool with_failure) noexcept {
  page_->slots[number % kSlots].state.store(with_failure ? EventPage::failed : EventPage::complete);
  page_->changes.fetch_add(1);
  syscall(SYS_futex, &page_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

uint64_t SharedEvent::last() const noexcept {
  const uint64_t last = page_->last.load();
  return last > page_->cleared.load() ? last : 0;
}

uint64_t SharedEvent::recorded_by_others() const noexcept {
  const uint64_t number = last();
  return number && page_->slots[number % kSlots].holder.load() != place_ ? number : 0;
}

void SharedEvent::reset() noexcept { page_->cleared.store(page_->last.load()); }

bool SharedEvent::done(uint64_t number) const {
  const EventPage::Slot& slot = page_->slots[number % kSlots];
  if (slot.state.load() != EventPage::pending || slot.number.load() != number) return true;
  const EventPage::Holder& holder = page_->holders[slot.holder.load()];
  if (lives(holder) || slot.state.load() != EventPage::pending) return false;
  fail(ACL_ERROR_RT_IPC_ERROR, "process %d ended before the work that its event stands behind was complete",
       holder.pid);
}

void SharedEvent::await(uint64_t number) const {
  for (;;) {
    const uint32_t changes = page_->changes.load();
    if (abandoned() || done(number)) break;
    sleep_on(page_->changes, changes);
  }
  const EventPage::Slot& slot = page_->slots[number % kSlots];
  if (slot.state.load() == EventPage::failed && slot.number.load() == number)
    fail(ACL_ERROR_RT_IPC_ERROR, "work of process %d that its event stands behind has failed",
         page_->holders[slot.holder.load()].pid);
}

void SharedEvent::hold_up(Stream& stream, uint64_t number) {
  if (config().strict) order::waits_for_all(stream);
  stream.submit(new WaitTask(shared_from_this(), number));
}

}  // namespace softnpu
