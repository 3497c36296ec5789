// The ways to make a communicator.
#pragma once

#include <memory>
#include <vector>

#include "communicator.h"

namespace softnpu::comm {

// On the calling thread's card; blocks until all ranks are there. Throws Failure.
std::shared_ptr<Communicator> create_from_root_info(const RootInfo& info, uint32_t ranks, uint32_t rank,
                                                    const HcclCommConfig* config);
// All ranks in this process, one for each device.
std::vector<std::shared_ptr<Communicator>> create_for_devices(const std::vector<int>& devices);
// The ranks are listed in a rank table, a JSON file that every rank has.
std::shared_ptr<Communicator> create_from_rank_table(const char* path, uint32_t rank, const HcclCommConfig* config);
// Some ranks of `parent`, which all call this with the same list and id; `rank` is the caller's place in the list.
std::shared_ptr<Communicator> create_sub_communicator(const std::shared_ptr<Communicator>& parent,
                                                      const std::vector<uint32_t>& members, uint64_t id, uint32_t rank,
                                                      const HcclCommConfig* config);

}  // namespace softnpu::comm
