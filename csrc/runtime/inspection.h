// What this process is doing, for other processes of its user: `python -m torch_npu.hang` and whoever else asks.
//
// Note [Inspection]
// A process that has initialised its npu listens on a Unix socket with an abstract name, which has its PID in it: there
// is no file, and nothing is left when the process ends, however it does. The kernel tells who asks: only the process's
// user and root get an answer. A thread of its own sleeps until somebody does, so nothing of this is on the path of a
// launch. It is there to answer while every other thread is stuck: a part may take locks that are held for moments, but
// none that is held while something is waited for, and it asks no device.
// A question is a line with names of parts, separated by spaces. The answer is a line of JSON for each, {"part": ...};
// one that is not known is null. A part that costs something while it is wanted begins with the first question, and is
// told when nobody has asked for it for ten seconds.
#pragma once

#include <string>

namespace npu::inspection {

using Part = std::string (*)();  // a JSON value; on the thread of the inspection
using Unwanted = void (*)();     // on the same thread; adds no part
// At library load time, or under Python's lock at import.
void add(const char* name, Part part, Unwanted unwanted = nullptr);

void start() noexcept;            // by init(); a socket that cannot be had is done without
void stop() noexcept;             // by finalize()
void forget_in_child() noexcept;  // after a fork: the parent's socket must not outlive it

}  // namespace npu::inspection
