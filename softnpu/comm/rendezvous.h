// How the ranks of a communicator find each other on one host.
//
// Note [Rendezvous]
// The founder (HcclGetRootInfo) listens on an abstract Unix socket whose random name and 128-bit secret make up the
// root info. Ranks connect and say who they are; both sides check that the other runs under the same user, the founder
// also that the guest knows the secret. A guest hands over the descriptors of Note [Peers]. When all are there the
// founder makes the control block and gives everyone everything; when all of them have mapped it, it says go. So either
// every rank has a communicator or every rank has an error that names the one at fault: who did not come, who went
// away, who could not open the descriptors. Then the socket is closed: afterwards there is no centre that could fail.
#pragma once

#include <memory>
#include <vector>

#include "control.h"
#include "hccl.h"
#include "peer.h"

namespace softnpu::comm {

// The part of HcclRootInfo that is used.
struct RootInfo {
  uint64_t magic;
  uint8_t host[16];  // which machine and network namespace
  uint8_t secret[16];
  char name[64];  // of the abstract socket
};

// Starts to listen; ranks have HCCL_CONNECT_TIMEOUT to come.
RootInfo found();
// As found(), under a name and secret that all ranks know already.
void found(const RootInfo& info);
// A root info that follows from `text`, which all ranks know.
RootInfo derived_root_info(const std::string& text);

struct Membership {
  std::unique_ptr<ControlBlock> control;
  std::vector<std::shared_ptr<Peer>> peers;  // by rank, with this one
};

// Blocks until all ranks are there. `patient`: the founder may not be listening yet. Throws Failure.
Membership join(const RootInfo& info, uint32_t ranks, uint32_t rank, int card, bool patient);

}  // namespace softnpu::comm
