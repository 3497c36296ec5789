// SOFTNPU_STRICT: which work is known to be done before which, whatever happens to run first. Called by streams, events
// and communicators, on any thread; nothing of it runs without the switch.
//
// Note [Order between streams]
// Work of one stream is in order. Work of two streams is in order through an event that one records and the other waits
// for, or because the host has waited for the first before it submitted the second. Everything else is luck: on
// softnpu, where work often runs while it is submitted, nearly always good luck. So each stream counts its tasks, and
// knows of every other stream up to which task it stands behind (a vector clock); an event carries the clock of its
// record, and the host has one of its own. A task that touches memory of another stream's task which it does not stand
// behind, one of them writing, is refused. So is a communicator that is used by two streams without order. Memory
// between whose first and last byte a task leaves some out (columns of a matrix) is not looked at.
#pragma once

#include <cstdint>
#include <map>

#include "task.h"

namespace softnpu {

class Stream;
class Completion;

namespace order {

// By stream, how many of its tasks.
using Clock = std::map<int, uint64_t>;

void submitted(const Stream& stream, const Task& task);  // throws Failure, and the task does not count then
void recorded(const Stream& stream, Completion& completion);
void waits(const Stream& stream, const Completion& completion);
void waits_for_all(const Stream& stream);        // in a way that is not followed: values in memory
void host_waited(const Completion& completion);  // or has seen that it is done
void host_waited(const Stream& stream);
void ended(const Stream& stream);

// The host itself touches memory, in the C function `what`. Throws Failure.
void host_touches(const char* what, const TouchedBytes& span);

// A point in the work of a stream.
struct Mark {
  int stream = -1;  // none yet
  uint64_t position = 0;
};
Mark mark(const Stream& stream);                             // its last task
bool stands_behind(const Stream& stream, const Mark& mark);  // the next task of `stream`

}  // namespace order
}  // namespace softnpu
