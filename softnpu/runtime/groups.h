// Communicators by name: how an operator with a collective inside finds the one that its caller names.
#pragma once

#include <cstdint>
#include <string>

#pragma GCC visibility push(default)
namespace softnpu {

struct Group {
  void* communicator = nullptr;  // the handle that HcclCommInitRootInfo and its kin return
  uint32_t ranks = 0;
};

void name_group(const std::string& name, int card, Group group);
void forget_group(void* communicator);
Group find_group(const std::string& name, int card);  // without a communicator if there is none

}  // namespace softnpu
#pragma GCC visibility pop
