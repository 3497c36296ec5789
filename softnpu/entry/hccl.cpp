// Collectives between cards: the communicators' life and errors. The operations themselves are in collective.cpp.
#include "entry/hccl_guard.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "comm/create.h"
#include "comm/group.h"

using softnpu::required;
using softnpu::comm::Communicator;
using softnpu::comm::hccl_guard;
using softnpu::comm::RootInfo;

namespace {

RootInfo unwrap(const HcclRootInfo* info) {
  RootInfo root;
  memcpy(&root, required(info, "rootInfo")->internal, sizeof root);
  return root;
}

}  // namespace

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return hccl_guard("HcclGetRootInfo", [&] {
    static_assert(sizeof(RootInfo) <= sizeof rootInfo->internal);
    memset(required(rootInfo, "rootInfo"), 0, sizeof *rootInfo);
    const RootInfo root = softnpu::comm::found();
    memcpy(rootInfo->internal, &root, sizeof root);
  });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm) {
  return hccl_guard("HcclCommInitRootInfo", [&] {
    required(comm, "comm");
    *comm = Communicator::publish(softnpu::comm::create_from_root_info(unwrap(rootInfo), nRanks, rank, nullptr));
  });
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      HcclCommConfig* config, HcclComm* comm) {
  return hccl_guard("HcclCommInitRootInfoConfig", [&] {
    required(comm, "comm");
    required(config, "config");
    if (softnpu::recording()) softnpu::note_bytes("config", config, std::min(config->size, sizeof *config));
    *comm = Communicator::publish(softnpu::comm::create_from_root_info(unwrap(rootInfo), nRanks, rank, config));
  });
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
  return hccl_guard("HcclCommInitClusterInfoConfig", [&] {
    required(comm, "comm");
    *comm = Communicator::publish(
        softnpu::comm::create_from_rank_table(required(clusterInfo, "clusterInfo"), rank, config));
  });
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return hccl_guard("HcclCommInitAll", [&] {
    required(devices, "devices");
    required(comms, "comms");
    const auto communicators = softnpu::comm::create_for_devices({devices, devices + ndev});
    for (uint32_t i = 0; i < ndev; ++i) comms[i] = Communicator::publish(communicators[i]);
  });
}

// Ranks of the parent that are no members pass no list and get no communicator.
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
  return hccl_guard("HcclCreateSubCommConfig", [&] {
    *required(subComm, "subComm") = nullptr;
    const auto parent = Communicator::checked(*required(comm, "comm"));
    if (!rankIds) return;
    *subComm = Communicator::publish(
        softnpu::comm::create_sub_communicator(parent, {rankIds, rankIds + rankNum}, subCommId, subCommRankId, config));
  });
}

HcclResult HcclCommDestroy(HcclComm comm) {
  if (softnpu::forked()) return HCCL_SUCCESS;
  return hccl_guard("HcclCommDestroy", [&] { Communicator::withdraw(comm)->leave(); });
}

HcclResult HcclGetCommName(HcclComm comm, char* name) {
  return hccl_guard("HcclGetCommName", [&] {
    snprintf(required(name, "commName"), MAX_GROUP_NAME, "%s", Communicator::checked(comm)->name().c_str());
  });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* error) {
  return hccl_guard("HcclGetCommAsyncError", [&] {
    const auto communicator = Communicator::checked(comm);
    *required(error, "asyncError") = communicator->async_error();
    if (*error == HCCL_SUCCESS) return;
    try {  // the words for aclGetRecentErrMsg
      communicator->throw_fault();
    } catch (const softnpu::Failure& failure) {
      softnpu::remember("HcclGetCommAsyncError", failure.code, failure.what());
    }
  });
}

// A communicator that has seen an error stays useless here: its ranks no longer agree where they are. Make a new one.
HcclResult HcclCommResume(HcclComm comm) {
  return hccl_guard("HcclCommResume", [&] { Communicator::checked(comm)->throw_fault(); });
}

HcclResult HcclGroupStart(void) {
  return hccl_guard("HcclGroupStart", [] { softnpu::comm::start_group(); });
}

HcclResult HcclGroupEnd(void) {
  return hccl_guard("HcclGroupEnd", [] { softnpu::comm::end_group(); });
}

// From 4 on the official client gives the long form of HcclCommConfig, with a name and a time-out (observed).
uint32_t HcclGetCommConfigCapability(void) { return 4; }

// Clients set determinism for operators and collectives together, long before there is a communicator. The order of a
// sum does not vary here: there is nothing to switch.
HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue) {
  return config == HCCL_DETERMINISTIC ? HCCL_SUCCESS : HCCL_E_PARA;
}
