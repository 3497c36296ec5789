// Which host this is: ranks with the same identity can share memory and Unix sockets.
#pragma once

#include <array>
#include <cstdint>

namespace softnpu::comm {

using HostIdentity = std::array<uint8_t, 16>;
// The kernel's boot and the network namespace, in which abstract sockets live.
HostIdentity host_identity();

}  // namespace softnpu::comm
