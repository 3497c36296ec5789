// HcclGroupStart ... HcclGroupEnd: what a thread calls in between is submitted at the end. Sends and receives of one
// communicator and stream become one batch, so that their order does not matter; collectives keep theirs.
#pragma once

#include <memory>
#include <vector>

#include "collective.h"
#include "point_to_point.h"

namespace softnpu::comm {

void start_group();
void end_group();  // throws Failure when there is none, or what submitting throws

// Submit at once, or at the end of the calling thread's group.
void enqueue(std::shared_ptr<Communicator> communicator, Request request, aclrtStream stream);
void enqueue(std::shared_ptr<Communicator> communicator, const std::vector<Transfer>& transfers, aclrtStream stream);

}  // namespace softnpu::comm
