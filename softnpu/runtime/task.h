// What a stream executes. Implemented by memory copies, host callbacks, collectives and (in libopapi.so) operators.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "acl_types.h"

namespace softnpu {
class Stream;
}

#pragma GCC visibility push(default)
namespace softnpu {

// Bytes that a task reads or writes, as kernels see them.
struct TouchedBytes {
  const char* begin;
  size_t bytes;
  bool written;
  std::string_view argument;  // which argument of the call it was
  bool dense = true;          // false: not every byte between the first and the last
};

class Task {
 public:
  virtual ~Task() = default;
  // Executes on whichever thread owns the stream at that moment (see Note [Who runs a task]). Throws Failure.
  virtual void run() = 0;
  // Operator name and shapes, for error messages and traces. Only called when something went wrong or is traced.
  virtual std::string describe() const = 0;
  // Called exactly once, after run() or when the task is dropped (abort, forced destroy). Pooled tasks override it.
  virtual void release() noexcept { delete this; }
  // Whom the task may wait for. One that waits for anybody does not run on the submitting thread; one that waits for
  // the user's own code runs on nothing but the stream's worker, because the code may need any other thread.
  enum class Waits { never, for_peers, for_user };
  virtual Waits waits() const noexcept { return Waits::never; }
  // For tasks that wait: called once, by the submitting thread, when nothing stands before the task in its stream. Does
  // what can be done without waiting; true when that was all of it, otherwise run() follows. Throws as run() does.
  virtual bool begin() { return false; }
  // Called on the submitting thread when the task will run later, perhaps on another thread: what it reads of this one,
  // it takes along.
  virtual void leave_thread() noexcept {}
  // For tasks of graphs (graph.h): those that cannot run twice give another one for each launch.
  virtual bool runs_once() const noexcept { return false; }
  virtual Task* again() { return nullptr; }
  // For SOFTNPU_STRICT, on any thread until release(): what it is called, and the memory it touches.
  virtual const char* name() const noexcept { return "a task"; }
  virtual std::vector<TouchedBytes> memory() const { return {}; }
  bool uses(const char* begin, size_t bytes) const {
    for (const TouchedBytes& span : memory())
      if (span.begin < begin + bytes && begin < span.begin + span.bytes) return true;
    return false;
  }
};

// Hands `task` to `stream` (NULL = the current context's default stream) in FIFO order; takes ownership, also when it
// throws. Throws Failure for stale or foreign handles (107017), for a stream of another context (107003) and when the
// thread has no context (107002). A failure of the task itself is not thrown here: the next synchronise returns it.
void submit(aclrtStream stream, Task* task);

// The same in two steps, for those who ask something in between. The first one checks, and throws.
Stream& launchable(aclrtStream stream);
void submit(Stream& stream, Task* task);
int card_of(const Stream& stream) noexcept;

// Whether `stream` is being captured: it runs nothing of what it is given now.
bool captured(const Stream& stream) noexcept;

// For tasks that wait: whether the work of their stream has been given up, so that waiting is pointless.
bool abandoned() noexcept;

}  // namespace softnpu
#pragma GCC visibility pop
