// Who ran when: the times of tasks for a tool that asks for them (entry/mspti.cpp). A launch of which nobody asks costs
// one load. Times are nanoseconds of the system's clock.
#pragma once

#include <atomic>
#include <cstdint>

#include "task.h"

namespace softnpu::activity {

// The tool. Called by any thread, also by several at once, and by streams between their tasks.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void submitted(uint64_t number) noexcept = 0;  // by the calling thread, before the task can run
  virtual void called(uint64_t number, const char* name, uint64_t begin, uint64_t end) noexcept = 0;
  virtual void ran(uint64_t number, const Task& task, int device, int stream, uint64_t begin,
                   uint64_t end) noexcept = 0;
};

// Tells `listener`, which is never destroyed, of all tasks submitted from now on; NULL: nobody.
void listen(Listener* listener) noexcept;

extern std::atomic<bool> g_wanted;
inline bool wanted() noexcept { return g_wanted.load(std::memory_order_relaxed); }

uint64_t now() noexcept;

// One submission, from its begin to its end on the calling thread.
class Submission {
 public:
  explicit Submission(const char* name) noexcept;
  ~Submission();
  Submission(const Submission&) = delete;
  uint64_t number() const noexcept { return number_; }

 private:
  const char* const name_;
  const uint64_t number_, begin_;
};

void ran(uint64_t number, const Task& task, int card, int stream, uint64_t begin) noexcept;

}  // namespace softnpu::activity
