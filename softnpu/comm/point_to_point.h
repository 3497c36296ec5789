// Sends and receives between two ranks, alone or several at once.
#pragma once

#include <memory>
#include <vector>

#include "acl_types.h"
#include "communicator.h"

namespace softnpu::comm {

struct Transfer {
  bool sends;
  const void* buffer;
  uint64_t count;
  uint32_t type;
  uint32_t peer;
};

// All of them make progress together, in whatever order the peers have them; transfers of the same direction between
// the same ranks are matched in order. Throws Failure for wrong arguments.
void submit_transfers(std::shared_ptr<Communicator> communicator, const std::vector<Transfer>& transfers,
                      aclrtStream stream);

}  // namespace softnpu::comm
