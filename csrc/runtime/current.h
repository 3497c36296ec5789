// The calling thread's current card and streams: the state behind current_device() and current_stream().
//
// Note [Current card and binding]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// ACL keeps a context per thread, and a thread that never called aclrtSetDevice has none (107002). torch has a current
// card per thread, 0 in a new thread. We keep torch's and bind lazily: `device` is what torch sees, `bound` the card of
// the thread's ACL context. They differ after a change that must not open a card (a guard's restore, the autograd
// engine's threads, which select every card once), until the thread next needs a context.
//   Whoever is about to call ACL has the right card bound: operators through CardGuard, which is a DeviceGuard, and
// current_stream_handle(), everything else through DeviceGuard, set_device or exchange_device. `handle` is the current
// stream of the current card and is only non-null while that card is bound, so that a launch checks all three with one
// comparison.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/macros/Macros.h>

#include "acl_types.h"

namespace npu {

constexpr int kMaxDevices = 64;  // cards a process can see

struct Current {
  aclrtStream handle = nullptr;
  c10::DeviceIndex device = 0;
  c10::DeviceIndex bound = -1;
  c10::StreamId streams[kMaxDevices] = {};  // per card
};

extern thread_local constinit Current t_current;

}  // namespace npu
