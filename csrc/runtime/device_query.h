// What can be said about the cards without opening one; the rest of it is declared in device.h.
//
// Note [Queries without a context]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Scripts ask for counts, names and sizes before they fork or spawn workers, so these questions must not initialise the
// runtime. softnpu answers them from its configuration. CANN does not before aclInit: there the count comes from the
// device nodes and ASCEND_RT_VISIBLE_DEVICES, everything else from a short-lived child process, once per card.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <optional>
#include <string>

namespace npu {

// Cards this process would see if it initialised now. Throws where no provider can be loaded.
c10::DeviceIndex count_devices();

// How many of `existing` cards a value of ASCEND_RT_VISIBLE_DEVICES leaves. Counts up to the first thing that is not
// the number of an existing card not named before; unset leaves all.
int count_visible(const std::optional<std::string>& visible, int existing);

// Runs fill(out, argument) in a forked child and copies the `bytes` at `out` back. False when it takes over `seconds`,
// crashes or returns false.
bool ask_child(bool (*fill)(void* out, int argument), void* out, size_t bytes, int argument, int seconds);

}  // namespace npu
