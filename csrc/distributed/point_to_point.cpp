// Sends and receives of ProcessGroupHCCL, alone or in a batch. See Note [Streams of collectives].
#include "distributed/hccl_api.h"
#include "distributed/process_group.h"
#include "profiler/kernel_trace.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

using c10d::OpType;

// A number for side_stream(): three streams for each peer.
template <class Direction>
int stream_of(int peer, Direction direction) {
  return 3 * peer + static_cast<int>(direction);
}

HcclSendRecvItem item_for(const at::Tensor& tensor, bool sends, uint32_t peer) {
  const Format format = moving(tensor.scalar_type());
  return {sends ? HCCL_SEND : HCCL_RECV, tensor.data_ptr(), static_cast<uint64_t>(tensor.numel()) * format.per_element,
          format.type, peer};
}

}  // namespace

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int peer, int) {
  return transfer(tensors, peer, true);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int peer, int) {
  return transfer(tensors, peer, false);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::transfer(Tensors& tensors, int peer, bool sends) {
  const at::Tensor tensor = single(tensors);
  TORCH_CHECK_VALUE(peer >= 0 && peer < size_, "rank ", peer, " is not in this group of ", size_);
  check_usable();
  if (coalescing_) {
    items_.push_back({tensor, peer, sends});
    return nullptr;
  }
  TORCH_CHECK_VALUE(peer != rank_, "Rank ", rank_,
                    " cannot send to itself, or receive from itself, outside of a batch "
                    "(batch_isend_irecv).");
  const c10::Device device = tensor.device();
  DeviceGuard guard(device.index());
  const Direction direction = sends ? Direction::there : Direction::back;
  const auto communicator = pair_communicator(peer, direction, sends ? "hccl:send" : "hccl:recv");
  const Stream stream = side_stream(device.index(), stream_of(peer, direction));
  const Execution::Description what{.type = sends ? OpType::SEND : OpType::RECV,
                                    .title = sends ? "hccl:send" : "hccl:recv",
                                    .number = ++transfers_,
                                    .timeout = options_->timeout,
                                    .timed = timed_,
                                    .peer = peer};
  auto execution = std::make_shared<Execution>(what, device);
  Event ready;
  ready.record(current_stream(device.index()));
  ready.block(stream);
  execution->keep({tensor});
  execution->begin(stream);
  HcclSendRecvItem item = item_for(tensor, sends, peer < rank_ ? 0 : 1);
  {
    const kernel_trace::Span span(what.title, kernel_trace::Kind::collective, stream, [&] {
      return kernel_trace::Traffic{static_cast<uint64_t>(tensor.nbytes()), nullptr, communicator->name()};
    });
    hccl::enqueue(
        [item, comm = communicator->handle()](aclrtStream handle) {
          const auto function = item.sendRecvType == HCCL_SEND ? hccl::api().HcclSend : hccl::api().HcclRecv;
          HCCL_CHECK(function(item.buf, item.count, item.dataType, item.remoteRank, comm, handle));
        },
        stream);
  }
  execution->end(stream, communicator);
  return watch(std::move(execution), sends ? tensors : Tensors{}, sends ? Tensors{} : tensors);
}

void ProcessGroupHCCL::startCoalescing() {
  TORCH_CHECK(!coalescing_, "Coalescing has already been started on this group.");
  coalescing_ = true;
  last_coalesced_.reset();
}

// Collectives were launched one after the other on one stream: the last one's work stands for all. Sends and receives
// were only collected; their work stands for the collectives as well.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::endCoalescing() {
  coalescing_ = false;
  std::vector<Item> items;
  items.swap(items_);
  const WorkPtr last = std::move(last_coalesced_);
  return items.empty() ? last : transfer_batch(std::move(items), last != nullptr);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::transfer_batch(std::vector<Item> items, bool collectives) {
  const c10::Device device = items[0].tensor.device();
  DeviceGuard guard(device.index());
  std::map<int, std::vector<HcclSendRecvItem>> batches;
  Tensors tensors, received;
  for (const Item& item : items) {
    const uint32_t peer = item.peer <= rank_ ? 0 : 1;
    batches[item.peer].push_back(item_for(item.tensor, item.sends, peer));
    tensors.push_back(item.tensor);
    if (!item.sends) received.push_back(item.tensor);
  }
  const Execution::Description what{.type = OpType::COALESCED,
                                    .title = "hccl:coalesced",
                                    .number = ++transfers_,
                                    .timeout = options_->timeout,
                                    .timed = timed_};
  auto execution = std::make_shared<Execution>(what, device);
  Event ready;
  ready.record(current_stream(device.index()));
  execution->keep(tensors);
  for (auto& [peer, batch] : batches) {
    const auto communicator = pair_communicator(peer, Direction::both, "hccl:coalesced");
    const Stream stream = side_stream(device.index(), stream_of(peer, Direction::both));
    ready.block(stream);
    execution->begin(stream);
    const kernel_trace::Span span(what.title, kernel_trace::Kind::collective, stream, [&] {
      return kernel_trace::Traffic{bytes_of(tensors), nullptr, communicator->name()};
    });
    hccl::enqueue(
        [batch, comm = communicator->handle()](aclrtStream handle) mutable {
          HCCL_CHECK(hccl::api().HcclBatchSendRecv(batch.data(), static_cast<uint32_t>(batch.size()), comm, handle));
        },
        stream);
    execution->end(stream, communicator);
  }
  if (collectives) {
    const Stream stream = side_stream(device.index(), kCollectiveStream);
    execution->begin(stream);
    execution->end(stream, communicator(device.index(), "hccl:coalesced"));
  }
  return watch(std::move(execution), tensors, received);
}

}  // namespace npu::distributed
