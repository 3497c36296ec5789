// What a card said about its memory when a call failed with an error of memory: kept until the card is restarted.
// Written by whoever throws such an error, read by torch.npu.check_uce_in_memory and restart_device, on any thread.
#pragma once

#include <vector>

#include "acl_types.h"

namespace npu::acl {

struct MemoryFault {
  bool multi_bit = false;               // an ECC error that the hardware could not mend
  std::vector<aclrtMemUceInfo> ranges;  // the addresses, where the provider knows them
};

// Asks the provider about the fault behind `code`, if it is one of memory.
void remember_memory_fault(int code, int device) noexcept;
MemoryFault memory_fault(int device);
void forget_memory_fault(int device);

}  // namespace npu::acl
