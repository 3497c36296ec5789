// HCCL's operations: arguments -> Request or Transfer. NULL buffers are allowed where a rank does not use them.
#include "entry/hccl_guard.h"

#include <algorithm>
#include <vector>

#include "comm/arithmetic.h"
#include "comm/group.h"

using softnpu::required;
using softnpu::comm::Communicator;
using softnpu::comm::hccl_guard;
using softnpu::comm::Kind;
using softnpu::comm::product;
using softnpu::comm::Request;
using softnpu::comm::sum;
using softnpu::comm::Table;
using softnpu::comm::Transfer;

namespace {

Request make(Kind kind, HcclDataType type, uint64_t count, const void* send, uint64_t send_elements, const void* recv,
             uint64_t recv_elements) {
  Request request;
  request.kind = kind;
  request.type = static_cast<uint32_t>(type);
  request.count = count;
  request.send = send;
  request.send_elements = send_elements;
  request.recv = const_cast<void*>(recv);
  request.recv_elements = recv_elements;
  return request;
}

// One number for each rank; gives how far a buffer reaches that has `counts` elements at `offsets`.
uint64_t copy_tables(Request& request, Table counts_table, Table offsets_table, const void* counts, const void* offsets,
                     uint32_t ranks) {
  const uint64_t* count = static_cast<const uint64_t*>(required(counts, "counts"));
  const uint64_t* offset = static_cast<const uint64_t*>(required(offsets, "displacements"));
  request.tables[static_cast<int>(counts_table)].assign(count, count + ranks);
  request.tables[static_cast<int>(offsets_table)].assign(offset, offset + ranks);
  uint64_t end = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (count[rank] != 0) end = std::max(end, sum(offset[rank], count[rank]));
  return end;
}

// For each rank of the communicator, because buffers often have one part per rank.
template <class Body>
HcclResult collective(const char* entry, HcclComm comm, aclrtStream stream, Body&& body) {
  return hccl_guard(entry, [&] {
    auto communicator = Communicator::checked(comm);
    Request request = body(*communicator);
    softnpu::note_form("type", request.type), softnpu::note("count", request.count);
    softnpu::note_form("op", request.op);
    softnpu::note("root", request.root), softnpu::note("comm", comm), softnpu::note("stream", stream);
    softnpu::comm::enqueue(std::move(communicator), std::move(request), stream);
  });
}

}  // namespace

HcclResult HcclAllReduce(void* send, void* recv, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                         aclrtStream stream) {
  return collective("HcclAllReduce", comm, stream, [&](Communicator&) {
    Request request = make(Kind::all_reduce, type, count, send, count, recv, count);
    request.op = static_cast<uint32_t>(op);
    return request;
  });
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  return collective("HcclBroadcast", comm, stream, [&](Communicator&) {
    Request request = make(Kind::broadcast, type, count, buf, count, buf, count);
    request.root = root;
    return request;
  });
}

HcclResult HcclAllGather(void* send, void* recv, uint64_t count, HcclDataType type, HcclComm comm, aclrtStream stream) {
  return collective("HcclAllGather", comm, stream, [&](Communicator& communicator) {
    return make(Kind::all_gather, type, count, send, count, recv, product(count, communicator.ranks()));
  });
}

HcclResult HcclAllGatherV(const void* send, uint64_t count, const void* recv, const void* recvCounts,
                          const void* rdispls, HcclDataType type, HcclComm comm, aclrtStream stream) {
  return collective("HcclAllGatherV", comm, stream, [&](Communicator& communicator) {
    Request request = make(Kind::all_gather_v, type, count, send, count, recv, 0);
    request.recv_elements =
        copy_tables(request, Table::recv_counts, Table::recv_offsets, recvCounts, rdispls, communicator.ranks());
    return request;
  });
}

HcclResult HcclReduceScatter(void* send, void* recv, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                             aclrtStream stream) {
  return collective("HcclReduceScatter", comm, stream, [&](Communicator& communicator) {
    Request request = make(Kind::reduce_scatter, type, count, send, product(count, communicator.ranks()), recv, count);
    request.op = static_cast<uint32_t>(op);
    return request;
  });
}

HcclResult HcclReduceScatterV(const void* send, const void* sendCounts, const void* sdispls, const void* recv,
                              uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return collective("HcclReduceScatterV", comm, stream, [&](Communicator& communicator) {
    Request request = make(Kind::reduce_scatter_v, type, count, send, 0, recv, count);
    request.op = static_cast<uint32_t>(op);
    request.send_elements =
        copy_tables(request, Table::send_counts, Table::send_offsets, sendCounts, sdispls, communicator.ranks());
    return request;
  });
}

HcclResult HcclAlltoAll(const void* send, uint64_t sendCount, HcclDataType sendType, const void* recv,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return collective("HcclAlltoAll", comm, stream, [&](Communicator& communicator) {
    if (sendType != recvType || sendCount != recvCount)
      softnpu::fail(ACL_ERROR_RT_PARAM_INVALID, "what is sent and what is received must have one type and count");
    return make(Kind::all_to_all, sendType, sendCount, send, product(sendCount, communicator.ranks()), recv,
                product(recvCount, communicator.ranks()));
  });
}

HcclResult HcclAlltoAllV(const void* send, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recv, const void* recvCounts, const void* rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
  return collective("HcclAlltoAllV", comm, stream, [&](Communicator& communicator) {
    if (sendType != recvType)
      softnpu::fail(ACL_ERROR_RT_PARAM_INVALID, "what is sent and what is received must have one type");
    Request request = make(Kind::all_to_all_v, sendType, 0, send, 0, recv, 0);
    request.send_elements =
        copy_tables(request, Table::send_counts, Table::send_offsets, sendCounts, sdispls, communicator.ranks());
    request.recv_elements =
        copy_tables(request, Table::recv_counts, Table::recv_offsets, recvCounts, rdispls, communicator.ranks());
    return request;
  });
}

HcclResult HcclReduce(void* send, void* recv, uint64_t count, HcclDataType type, HcclReduceOp op, uint32_t root,
                      HcclComm comm, aclrtStream stream) {
  return collective("HcclReduce", comm, stream, [&](Communicator& communicator) {
    const bool receives = communicator.rank() == root;
    Request request = make(Kind::reduce, type, count, send, count, receives ? recv : nullptr, receives ? count : 0);
    request.op = static_cast<uint32_t>(op);
    request.root = root;
    return request;
  });
}

HcclResult HcclScatter(void* send, void* recv, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                       aclrtStream stream) {
  return collective("HcclScatter", comm, stream, [&](Communicator& communicator) {
    const bool sends = communicator.rank() == root;
    Request request = make(Kind::scatter, type, count, sends ? send : nullptr,
                           sends ? product(count, communicator.ranks()) : 0, recv, count);
    request.root = root;
    return request;
  });
}

HcclResult HcclSend(void* buf, uint64_t count, HcclDataType type, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  return hccl_guard("HcclSend", [&] {
    softnpu::comm::enqueue(Communicator::checked(comm),
                           {Transfer{true, buf, count, static_cast<uint32_t>(type), destRank}}, stream);
  });
}

HcclResult HcclRecv(void* buf, uint64_t count, HcclDataType type, uint32_t srcRank, HcclComm comm, aclrtStream stream) {
  return hccl_guard("HcclRecv", [&] {
    softnpu::comm::enqueue(Communicator::checked(comm),
                           {Transfer{false, buf, count, static_cast<uint32_t>(type), srcRank}}, stream);
  });
}

HcclResult HcclBatchSendRecv(void* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
  return hccl_guard("HcclBatchSendRecv", [&] {
    const HcclSendRecvItem* items = static_cast<const HcclSendRecvItem*>(required(sendRecvInfo, "sendRecvInfo"));
    std::vector<Transfer> transfers;
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = items[i];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
        softnpu::fail(ACL_ERROR_RT_PARAM_INVALID, "item %u is neither a send nor a receive", i);
      transfers.push_back({item.sendRecvType == HCCL_SEND, item.buf, item.count, static_cast<uint32_t>(item.dataType),
                           item.remoteRank});
    }
    softnpu::comm::enqueue(Communicator::checked(comm), transfers, stream);
  });
}
