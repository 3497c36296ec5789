// Host memory at an address of the device: kernels read and write it over the bus, and it takes nothing of the card's
// memory. For states that are used once a step, as those of an optimiser.
#pragma once

#include <c10/core/Allocator.h>

namespace npu::swapped_memory {

// `bytes` of host memory that card `device` reaches. The free waits for the card. Throws where the driver cannot map
// host memory.
c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);

}  // namespace npu::swapped_memory
