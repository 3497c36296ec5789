// The launches of a recording session and their times on the host's clock. Private to this folder.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "profiler/kernel_trace.h"

namespace npu::kernel_trace {

struct Launch {
  const char* name;
  Kind kind;
  uint64_t correlation, operation;  // its own number, and the id of the operator that made it
  Stream stream;
  Traffic traffic;
  int64_t call_begin = 0, call_end = 0;  // on the calling thread
  int32_t caller = 0;
  int64_t run_begin = 0, run_end = 0;  // on the thread that took it from the task queue; 0 when there was none
  int32_t runner = 0;
  Event begin{true}, end{true};
  int64_t device_begin = 0, device_end = 0;  // of the host's clock, when located
  bool located = false, written = false, refused = false;
  std::atomic<bool> complete{false};  // its span is over, so that nobody writes to it any more
};

int32_t thread_number();  // the kernel's, as kineto names threads

// All functions may be called from any thread.
class Launches {
 public:
  static Launches& all();

  // Null when the card has no events left; a warning says so.
  Launch* begin(const char* name, Kind kind, uint64_t operation, Stream stream, Traffic traffic);
  void end(Launch* launch, bool refused);  // refused: the call threw, the card has seen nothing of it
  // Forgets those that are over. Runs what is queued: its tasks know launches by address.
  void clear();

  // Calls `use` for every launch that is over, in the order of launching, with the lock held.
  template <typename Use>
  void for_each(Use&& use) {
    std::lock_guard lock(mutex_);
    for (const auto& launch : launches_)
      if (launch->complete.load(std::memory_order_acquire) && !launch->refused) use(*launch);
  }
  // Fills in the times on the card, with the lock held. The launch must be over there; throws when it failed.
  void locate(Launch& launch);
  size_t size();

 private:
  // Moments of a card that are known on the host's clock: an event of an idle moment, then, per stream, the last launch
  // that was located. From one to the next, because events are apart by a float of milliseconds.
  struct Anchor {
    const Event* event = nullptr;
    int64_t ns = 0;
    Launch* launch = nullptr;  // whose event it is
  };
  struct Origin {
    Event event{true};
    int64_t ns = 0;
  };
  void remember_origin(Stream stream);
  // The card's moments are later than was thought: the origin's was guessed from a call that waited for it, and no
  // launch begins before its call.
  void advance(c10::DeviceIndex device, int64_t ns);
  // Locates what is over, so that its events go back: a card has few of them, and a recording many launches.
  void locate_finished();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::map<c10::DeviceIndex, Origin> origins_;
  std::map<std::pair<c10::DeviceIndex, c10::StreamId>, Anchor> anchors_;
  uint64_t last_number_ = 0;
  size_t next_ = 0;  // of launches_, for locate_finished
};

}  // namespace npu::kernel_trace
