// The task queue: one consumer thread that hands launches to the provider, so that Python does not wait for them; who
// has to wait for it does the work himself.
// Level 0: everything runs on the calling thread. Level 1: the launch (phase two) moves to the consumer.
// Level 2: building descriptors and the workspace size (phase one) moves too. See Note [Task queue] in task_ring.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace npu::task_queue {

int level() noexcept;             // TASK_QUEUE_ENABLE (default 1 on CANN, 0 on softnpu), 0 when blocking
void set_level(int level);        // drains first; stays 0 when blocking
bool launch_blocking() noexcept;  // ASCEND_LAUNCH_BLOCKING=1: synchronise after every launch

using Run = void (*)(void* payload);
using Ticket = uint64_t;  // a place in the queue; 0 is the past

// At level 0 calls run(payload) now. Else copies the payload's bytes (trivially copyable, no at::Tensor, no PyObject)
// into the ring and returns; the consumer, or a thread that waits, runs it in order, with the card and stream current
// that were current at push. Back-pressure waits without the GIL. Rethrows an error that an earlier task left behind.
Ticket push(Run run, const void* payload, size_t bytes);
// The same, but leaves an earlier error for the next caller: for what destructors do.
Ticket push_keeping_errors(Run run, const void* payload, size_t bytes);

// Returns when everything pushed so far has been handed to the provider, by this thread unless another one is doing so;
// throws the first error left behind. Never call it with a lock held that a task may take.
void drain();
void drain_keeping_errors();           // the same, but leaves an error for the next caller: for what destructors do
void wait(Ticket ticket);              // like drain(), up to that push
bool is_done(Ticket ticket) noexcept;  // whether that push has been handed to the provider; never waits
bool try_finish(Ticket ticket);        // the same, but runs the tasks up to it unless another thread is running any
Ticket backlog() noexcept;             // how many pushes have not been handed to the provider
bool in_task() noexcept;               // whether the calling thread is running a task
void stop() noexcept;                  // at exit: drains for a second at most; level 0 from then on

}  // namespace npu::task_queue
