// The collectives of ProcessGroupHCCL: checks, types and counts, then one launch each.
#include <ATen/ops/empty.h>

#include <numeric>

#include "distributed/hccl_api.h"
#include "distributed/process_group.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

using c10d::OpType;

std::vector<uint64_t> offsets_of(const std::vector<uint64_t>& counts) {
  std::vector<uint64_t> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), uint64_t{0});
  return offsets;
}

void check_root(int64_t root, int ranks) {
  TORCH_CHECK_VALUE(root >= 0 && root < ranks, "root rank ", root, " is not in this group of ", ranks);
}

}  // namespace

// Also inside of startCoalescing() ... endCoalescing(), which torch's coalescing manager puts around it.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::coalesced(size_t count, const std::function<void(size_t)>& call) {
  const bool inside = coalescing_;
  if (!inside) startCoalescing();
  try {
    for (size_t i = 0; i < count; ++i) call(i);
  } catch (...) {
    if (!inside) coalescing_ = false;
    throw;
  }
  return inside ? last_coalesced_ : endCoalescing();
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  at::Tensor tensor = single(tensors);
  const Format format = reducing(tensor.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, tensor.scalar_type());
  Launch call{OpType::ALLREDUCE, "hccl:all_reduce", {tensor}, {tensor}, opts.asyncOp, opts.timeout};
  if (opts.reduceOp.op_ == c10d::ReduceOp::PREMUL_SUM)
    call.before = [=, op = opts.reduceOp]() mutable { tensor.copy_(scaled_input(tensor, op), true); };
  call.body = [=](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclAllReduce(tensor.data_ptr(), tensor.data_ptr(), count(tensor, format), format.type, op,
                                         comm, stream));
  };
  if (opts.reduceOp.op_ == c10d::ReduceOp::AVG)
    call.after = [=, this, op = opts.reduceOp]() mutable { scale_output(tensor, op, size_); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors,
                                                                const c10d::AllreduceCoalescedOptions& opts) {
  TORCH_CHECK(!tensors.empty(), "Expecting tensors but got none");
  return coalesced(tensors.size(), [&](size_t i) {
    Tensors one{tensors[i]};
    allreduce(one, opts);
  });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor tensor = single(tensors);
  check_root(opts.rootRank, size_);
  const Format format = moving(tensor.scalar_type());
  Launch call{OpType::BROADCAST, "hccl:broadcast", {tensor}, {tensor}, opts.asyncOp, opts.timeout};
  call.body = [=, root = static_cast<uint32_t>(opts.rootRank)](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclBroadcast(tensor.data_ptr(), count(tensor, format), format.type, root, comm, stream));
  };
  return launch(std::move(call));
}

// Only the root's tensor changes. AVG and PREMUL_SUM scale there and everywhere, as upstream's do.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  at::Tensor tensor = single(tensors);
  check_root(opts.rootRank, size_);
  const Format format = reducing(tensor.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, tensor.scalar_type());
  auto input = std::make_shared<at::Tensor>(tensor);
  Launch call{OpType::REDUCE, "hccl:reduce", {tensor}, {tensor}, opts.asyncOp, opts.timeout};
  call.before = [=, op = opts.reduceOp] { *input = scaled_input(tensor, op); };
  call.body = [=, root = static_cast<uint32_t>(opts.rootRank)](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclReduce(input->data_ptr(), tensor.data_ptr(), count(tensor, format), format.type, op,
                                      root, comm, stream));
  };
  if (rank_ == opts.rootRank) call.after = [=, this, op = opts.reduceOp]() mutable { scale_output(tensor, op, size_); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                            const c10d::AllgatherOptions& opts) {
  check_alike({output}, input);
  check_tensor(input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * size_,
                    "output tensor size must be equal to world_size times input tensor size");
  const Format format = moving(input.scalar_type());
  Launch call{OpType::_ALLGATHER_BASE, "hccl:all_gather", {input}, {output}, opts.asyncOp, opts.timeout};
  call.body = [=](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclAllGather(input.data_ptr(), output.data_ptr(), count(input, format), format.type, comm,
                                         stream));
  };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                      const c10d::AllgatherOptions& opts) {
  const at::Tensor input = single(inputs);
  TORCH_CHECK(outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_, "Expecting ", size_, " outputs");
  check_alike(outputs[0], input);
  const Format format = moving(input.scalar_type());
  auto all = std::make_shared<at::Tensor>();
  Launch call{OpType::ALLGATHER, "hccl:all_gather", {input}, outputs[0], opts.asyncOp, opts.timeout};
  const std::vector<uint64_t> counts = counts_of(outputs[0], format);
  TORCH_CHECK_VALUE(counts[rank_] == count(input, format), "the output for this rank must have the size of its input");
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const bool even = std::all_of(counts.begin(), counts.end(), [&](uint64_t n) { return n == counts[0]; });
  call.before = [=] { *all = at::empty({static_cast<int64_t>(total / format.per_element)}, input.options()); };
  call.body = [=, this](HcclComm comm, aclrtStream stream) {
    if (even)
      HCCL_CHECK(hccl::api().HcclAllGather(input.data_ptr(), all->data_ptr(), counts[0], format.type, comm, stream));
    else
      move(*all, counts, input, {}, comm, stream);
  };
  call.after = [=, targets = outputs[0]]() mutable { copy_from_flat(*all, targets); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::AllgatherOptions& opts) {
  return coalesced(inputs.size(), [&](size_t i) { _allgather_base(outputs[i], inputs[i], opts); });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                                 const c10d::ReduceScatterOptions& opts) {
  check_alike({output}, input);
  check_tensor(input);
  TORCH_CHECK_VALUE(output.numel() * size_ == input.numel(),
                    "input tensor must be the same size as output size times world size");
  const Format format = reducing(input.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, input.scalar_type());
  auto scaled = std::make_shared<at::Tensor>(input);
  Launch call{OpType::_REDUCE_SCATTER_BASE, "hccl:reduce_scatter", {input}, {output}, opts.asyncOp, opts.timeout};
  call.before = [=, op = opts.reduceOp] { *scaled = scaled_input(input, op); };
  call.body = [=](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclReduceScatter(scaled->data_ptr(), output.data_ptr(), count(output, format), format.type,
                                             op, comm, stream));
  };
  call.after = [=, this, op = opts.reduceOp]() mutable { scale_output(output, op, size_); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                           const c10d::ReduceScatterOptions& opts) {
  at::Tensor output = single(outputs);
  TORCH_CHECK(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_, "Expecting ", size_, " inputs");
  check_alike(inputs[0], output);
  const Format format = reducing(output.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, output.scalar_type());
  const std::vector<uint64_t> counts = counts_of(inputs[0], format);
  TORCH_CHECK_VALUE(counts[rank_] == count(output, format), "the input for this rank must have the size of its output");
  const bool even = std::all_of(counts.begin(), counts.end(), [&](uint64_t n) { return n == counts[0]; });
  TORCH_CHECK(even || hccl::api().HcclReduceScatterV, "This HCCL cannot reduce_scatter shares of different size.");
  auto all = std::make_shared<at::Tensor>();
  Launch call{OpType::REDUCE_SCATTER, "hccl:reduce_scatter", inputs[0], {output}, opts.asyncOp, opts.timeout};
  call.before = [=, op = opts.reduceOp, sources = inputs[0]] { *all = scaled_input(flat(sources), op); };
  call.body = [=](HcclComm comm, aclrtStream stream) {
    const auto& api = hccl::api();
    const uint64_t own = count(output, format);
    if (even) {
      HCCL_CHECK(api.HcclReduceScatter(all->data_ptr(), output.data_ptr(), own, format.type, op, comm, stream));
    } else {
      const std::vector<uint64_t> offsets = offsets_of(counts);
      HCCL_CHECK(api.HcclReduceScatterV(all->data_ptr(), counts.data(), offsets.data(), output.data_ptr(), own,
                                        format.type, op, comm, stream));
    }
  };
  call.after = [=, this, op = opts.reduceOp]() mutable { scale_output(output, op, size_); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::ReduceScatterOptions& opts) {
  return coalesced(inputs.size(), [&](size_t i) { _reduce_scatter_base(outputs[i], inputs[i], opts); });
}

// Everything that only moves data between ranks, with a share for each: all_to_all with counts. An empty list of what
// is sent means that every rank gets all of the input.
void ProcessGroupHCCL::move(const at::Tensor& output, std::vector<uint64_t> recv_counts, const at::Tensor& input,
                            std::vector<uint64_t> send_counts, HcclComm comm, aclrtStream stream) {
  const Format format = moving(output.scalar_type());
  const bool to_all = send_counts.empty();
  if (to_all) send_counts.assign(size_, count(input, format));
  const std::vector<uint64_t> recv_offsets = offsets_of(recv_counts);
  const std::vector<uint64_t> send_offsets = to_all ? std::vector<uint64_t>(size_, 0) : offsets_of(send_counts);
  HCCL_CHECK(hccl::api().HcclAlltoAllV(input.data_ptr(), send_counts.data(), send_offsets.data(), format.type,
                                       output.data_ptr(), recv_counts.data(), recv_offsets.data(), format.type, comm,
                                       stream));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& opts) {
  const at::Tensor input = single(inputs);
  check_root(opts.rootRank, size_);
  const bool root = rank_ == opts.rootRank;
  TORCH_CHECK_VALUE(root ? outputs.size() == 1 && static_cast<int>(outputs[0].size()) == size_ : outputs.empty(),
                    "requires one output for each rank on the root, and none elsewhere");
  Tensors targets = root ? outputs[0] : Tensors{};
  check_alike(targets, input);
  const Format format = moving(input.scalar_type());
  std::vector<uint64_t> sent(size_, 0), received = root ? counts_of(targets, format) : std::vector<uint64_t>(size_, 0);
  sent[opts.rootRank] = count(input, format);
  auto all = std::make_shared<at::Tensor>();
  const uint64_t total = std::accumulate(received.begin(), received.end(), uint64_t{0});
  Launch call{OpType::GATHER, "hccl:gather", {input}, targets, opts.asyncOp, opts.timeout};
  call.before = [=] { *all = at::empty({static_cast<int64_t>(total / format.per_element)}, input.options()); };
  call.body = [=, this](HcclComm comm, aclrtStream stream) { move(*all, received, input, sent, comm, stream); };
  call.after = [=]() mutable { copy_from_flat(*all, targets); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                    const c10d::ScatterOptions& opts) {
  const at::Tensor output = single(outputs);
  check_root(opts.rootRank, size_);
  const bool root = rank_ == opts.rootRank;
  TORCH_CHECK_VALUE(root ? inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_ : inputs.empty(),
                    "requires one input for each rank on the root, and none elsewhere");
  Tensors sources = root ? inputs[0] : Tensors{};
  check_alike(sources, output);
  const Format format = moving(output.scalar_type());
  std::vector<uint64_t> received(size_, 0), sent = root ? counts_of(sources, format) : std::vector<uint64_t>(size_, 0);
  received[opts.rootRank] = count(output, format);
  auto all = std::make_shared<at::Tensor>(output);
  Launch call{OpType::SCATTER, "hccl:scatter", sources, {output}, opts.asyncOp, opts.timeout};
  call.before = [=] {
    if (root) *all = flat(sources);
  };
  call.body = [=, this](HcclComm comm, aclrtStream stream) { move(output, received, *all, sent, comm, stream); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                          std::vector<int64_t>& output_splits,
                                                          std::vector<int64_t>& input_splits,
                                                          const c10d::AllToAllOptions& opts) {
  check_alike({output}, input);
  check_tensor(input);
  const Format format = moving(input.scalar_type());
  const auto received = counts_of(output, output_splits, size_, format);
  const auto sent = counts_of(input, input_splits, size_, format);
  Launch call{OpType::ALLTOALL_BASE, "hccl:all_to_all", {input}, {output}, opts.asyncOp, opts.timeout};
  call.body = [=, this](HcclComm comm, aclrtStream stream) { move(output, received, input, sent, comm, stream); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(static_cast<int>(inputs.size()) == size_ && static_cast<int>(outputs.size()) == size_,
                    "requires one input and one output for each rank");
  check_alike(inputs, inputs[0]);
  check_alike(outputs, inputs[0]);
  const Format format = moving(inputs[0].scalar_type());
  const auto received = counts_of(outputs, format), sent = counts_of(inputs, format);
  const uint64_t total = std::accumulate(received.begin(), received.end(), uint64_t{0});
  auto from = std::make_shared<at::Tensor>(), to = std::make_shared<at::Tensor>();
  Launch call{OpType::ALLTOALL, "hccl:all_to_all", inputs, outputs, opts.asyncOp, opts.timeout};
  call.before = [=, sources = inputs] {
    *from = flat(sources);
    *to = at::empty({static_cast<int64_t>(total / format.per_element)}, from->options());
  };
  call.body = [=, this](HcclComm comm, aclrtStream stream) { move(*to, received, *from, sent, comm, stream); };
  call.after = [=, targets = outputs]() mutable { copy_from_flat(*to, targets); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather_uneven(at::Tensor& output, at::Tensor& input,
                                                             std::vector<int64_t> splits, bool async) {
  check_alike({output}, input);
  check_tensor(input);
  const Format format = moving(input.scalar_type());
  const auto counts = counts_of(output, splits, size_, format);
  TORCH_CHECK_VALUE(counts[rank_] == count(input, format), "the input does not have the size of this rank's split");
  Launch call{OpType::_ALLGATHER_BASE, "hccl:all_gather_uneven", {input}, {output}, async, c10d::kUnsetTimeout};
  call.body = [=, this](HcclComm comm, aclrtStream stream) {
    const auto& api = hccl::api();
    if (!api.HcclAllGatherV) return move(output, counts, input, {}, comm, stream);
    const std::vector<uint64_t> offsets = offsets_of(counts);
    HCCL_CHECK(api.HcclAllGatherV(input.data_ptr(), count(input, format), output.data_ptr(), counts.data(),
                                  offsets.data(), format.type, comm, stream));
  };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter_uneven(at::Tensor& output, at::Tensor& input,
                                                                  std::vector<int64_t> splits, const c10d::ReduceOp& op,
                                                                  bool async) {
  check_alike({output}, input);
  check_tensor(input);
  TORCH_CHECK(hccl::api().HcclReduceScatterV, "This HCCL cannot reduce_scatter shares of different size.");
  const Format format = reducing(input.scalar_type(), op);
  const HcclReduceOp hccl_op = reduction(op, input.scalar_type());
  const auto counts = counts_of(input, splits, size_, format);
  TORCH_CHECK_VALUE(counts[rank_] == count(output, format), "the output does not have the size of this rank's split");
  auto scaled = std::make_shared<at::Tensor>(input);
  Launch call{OpType::_REDUCE_SCATTER_BASE, "hccl:reduce_scatter_uneven", {input}, {output}, async,
              c10d::kUnsetTimeout};
  call.before = [=] { *scaled = scaled_input(input, op); };
  call.body = [=](HcclComm comm, aclrtStream stream) {
    const std::vector<uint64_t> offsets = offsets_of(counts);
    HCCL_CHECK(hccl::api().HcclReduceScatterV(scaled->data_ptr(), counts.data(), offsets.data(), output.data_ptr(),
                                              count(output, format), format.type, hccl_op, comm, stream));
  };
  call.after = [=, this]() mutable { scale_output(output, op, size_); };
  return launch(std::move(call));
}

// An all_reduce of one element, for which the host waits.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  c10::DeviceIndex index = any_device();
  if (!opts.device_ids.empty()) index = static_cast<c10::DeviceIndex>(opts.device_ids.front());
  if (opts.device) index = opts.device->index();
  DeviceGuard guard(index);
  const at::Tensor token =
      at::empty({1}, at::TensorOptions().dtype(at::kByte).device(c10::DeviceType::PrivateUse1, index));
  Launch call{OpType::BARRIER, "hccl:barrier", {token}, {token}, opts.asyncOp, opts.timeout};
  call.barrier = true;
  call.body = [=](HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclAllReduce(token.data_ptr(), token.data_ptr(), 1, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_MAX,
                                         comm, stream));
  };
  return launch(std::move(call));
}

}  // namespace npu::distributed
