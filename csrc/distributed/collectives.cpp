// The collectives of ProcessGroupHCCL: checks, types and counts, then one launch each.
#include <ATen/ops/ones.h>

#include <numeric>

#include "distributed/hccl_api.h"
#include "distributed/process_group.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

using c10d::OpType;
using Counts = std::vector<uint64_t>;  // one for each rank

Counts offsets_of(const Counts& counts) {
  Counts offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), uint64_t{0});
  return offsets;
}

// Whether HCCL computes in the type of a tensor; its memory format does not matter to a reduction of all of it.
bool reduces_in_place(const at::Tensor& tensor) { return !is_byte(tensor.scalar_type()); }

// Everything that only moves data between ranks, with a share for each: all_to_all with counts. Without counts of what
// is sent every rank gets the same `own` elements.
std::function<void(HcclComm, aclrtStream)> move(void* output, Counts received, const void* input, Counts sent,
                                                HcclDataType type, uint64_t own = 0) {
  const bool to_all = sent.empty();
  if (to_all) sent.assign(received.size(), own);
  return [=, to = offsets_of(received), from = to_all ? Counts(received.size(), 0) : offsets_of(sent)](
             HcclComm comm, aclrtStream stream) {
    HCCL_CHECK(hccl::api().HcclAlltoAllV(input, sent.data(), from.data(), type, output, received.data(), to.data(),
                                         type, comm, stream));
  };
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
  auto room = std::make_shared<at::Tensor>();
  call.prepare = [=, this, asked = opts.reduceOp](Tensors& made) {
    const at::Tensor& input = made.emplace_back(scaled_input(tensor, asked, size_));
    *room = reduces_in_place(tensor) ? tensor : room_for_reduction(tensor);
    return [=, from = input.data_ptr(), to = room->data_ptr(), n = count(tensor, format)](HcclComm comm,
                                                                                          aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclAllReduce(from, to, n, format.type, op, comm, stream));
    };
  };
  if (opts.reduceOp.op_ == c10d::ReduceOp::AVG || !reduces_in_place(tensor))
    call.after = [=, this, op = opts.reduceOp]() mutable {
      scale_output(*room, op, size_);
      take_from_room(*room, tensor);
    };
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
  call.prepare = [=, root = static_cast<uint32_t>(opts.rootRank)](Tensors&) {
    return [=, data = tensor.data_ptr(), n = count(tensor, format)](HcclComm comm, aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclBroadcast(data, n, format.type, root, comm, stream));
    };
  };
  return launch(std::move(call));
}

// Only the root's tensor changes. AVG and PREMUL_SUM scale there and everywhere, as upstream's do.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  at::Tensor tensor = single(tensors);
  check_root(opts.rootRank, size_);
  const Format format = reducing(tensor.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, tensor.scalar_type());
  Launch call{OpType::REDUCE, "hccl:reduce", {tensor}, {tensor}, opts.asyncOp, opts.timeout};
  auto room = std::make_shared<at::Tensor>();
  call.prepare = [=, this, asked = opts.reduceOp, root = static_cast<uint32_t>(opts.rootRank)](Tensors& made) {
    const at::Tensor& input = made.emplace_back(scaled_input(tensor, asked, size_));
    *room = reduces_in_place(tensor) ? tensor : room_for_reduction(tensor);
    return [=, from = input.data_ptr(), to = room->data_ptr(), n = count(tensor, format)](HcclComm comm,
                                                                                          aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclReduce(from, to, n, format.type, op, root, comm, stream));
    };
  };
  if (rank_ == opts.rootRank)
    call.after = [=, this, op = opts.reduceOp]() mutable {
      scale_output(*room, op, size_);
      take_from_room(*room, tensor);
    };
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
  call.prepare = [=](Tensors&) {
    return [=, from = input.data_ptr(), to = output.data_ptr(), n = count(input, format)](HcclComm comm,
                                                                                          aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclAllGather(from, to, n, format.type, comm, stream));
    };
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
  const Counts counts = counts_of(outputs[0], format);
  TORCH_CHECK_VALUE(counts[rank_] == count(input, format), "the output for this rank must have the size of its input");
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  const bool even = std::all_of(counts.begin(), counts.end(), [&](uint64_t n) { return n == counts[0]; });
  call.prepare = [=, this](Tensors& made) -> Call {
    const at::Tensor& source = made.emplace_back(input.contiguous());
    *all = at::empty({static_cast<int64_t>(total / format.per_element)}, input.options());
    const uint64_t own = counts[rank_];
    void *from = source.data_ptr(), *to = all->data_ptr();
    if (!even) return move(to, counts, from, {}, format.type, own);
    return [=](HcclComm comm, aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclAllGather(from, to, own, format.type, comm, stream));
    };
  };
  call.after = [=, targets = outputs[0]]() mutable { copy_from_flat(*all, targets); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::AllgatherOptions& opts) {
  check_pairs(outputs, inputs);
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
  Launch call{OpType::_REDUCE_SCATTER_BASE, "hccl:reduce_scatter", {input}, {output}, opts.asyncOp, opts.timeout};
  auto room = std::make_shared<at::Tensor>();
  call.prepare = [=, this, asked = opts.reduceOp](Tensors& made) {
    const at::Tensor& scaled = made.emplace_back(scaled_input(input, asked, size_));
    *room = reduces_in_place(output) ? output : room_for_reduction(output);
    return [=, from = scaled.data_ptr(), to = room->data_ptr(), n = count(output, format)](HcclComm comm,
                                                                                           aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclReduceScatter(from, to, n, format.type, op, comm, stream));
    };
  };
  call.after = [=, this, op = opts.reduceOp]() mutable {
    scale_output(*room, op, size_);
    take_from_room(*room, output);
  };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                           const c10d::ReduceScatterOptions& opts) {
  at::Tensor output = single(outputs);
  TORCH_CHECK(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == size_, "Expecting ", size_, " inputs");
  check_alike(inputs[0], output);
  const Format format = reducing(output.scalar_type(), opts.reduceOp);
  const HcclReduceOp op = reduction(opts.reduceOp, output.scalar_type());
  const Counts counts = counts_of(inputs[0], format);
  TORCH_CHECK_VALUE(counts[rank_] == count(output, format), "the input for this rank must have the size of its output");
  const bool even = std::all_of(counts.begin(), counts.end(), [&](uint64_t n) { return n == counts[0]; });
  TORCH_CHECK(even || hccl::api().HcclReduceScatterV, "This HCCL cannot reduce_scatter shares of different size.");
  auto room = std::make_shared<at::Tensor>();
  Launch call{OpType::REDUCE_SCATTER, "hccl:reduce_scatter", inputs[0], {output}, opts.asyncOp, opts.timeout};
  call.prepare = [=, this, asked = opts.reduceOp, sources = inputs[0]](Tensors& made) -> Call {
    const at::Tensor& all = made.emplace_back(scaled_input(flat(sources), asked, size_));
    *room = room_for_reduction(output);
    void *from = all.data_ptr(), *to = room->data_ptr();
    return [=, own = count(output, format), offsets = offsets_of(counts)](HcclComm comm, aclrtStream stream) {
      const auto& api = hccl::api();
      HCCL_CHECK(
          even ? api.HcclReduceScatter(from, to, own, format.type, op, comm, stream)
               : api.HcclReduceScatterV(from, counts.data(), offsets.data(), to, own, format.type, op, comm, stream));
    };
  };
  call.after = [=, this, op = opts.reduceOp]() mutable {
    scale_output(*room, op, size_);
    take_from_room(*room, output);
  };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                            const c10d::ReduceScatterOptions& opts) {
  check_pairs(outputs, inputs);
  return coalesced(inputs.size(), [&](size_t i) { _reduce_scatter_base(outputs[i], inputs[i], opts); });
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                   const c10d::GatherOptions& opts) {
  const at::Tensor input = single(inputs);
  const bool root = rank_ == opts.rootRank;
  Tensors targets = of_root(outputs, opts.rootRank, rank_, size_);
  check_alike(targets, input);
  const Format format = moving(input.scalar_type());
  Counts sent(size_, 0), received = root ? counts_of(targets, format) : Counts(size_, 0);
  sent[opts.rootRank] = count(input, format);
  auto all = std::make_shared<at::Tensor>();
  const uint64_t total = std::accumulate(received.begin(), received.end(), uint64_t{0});
  Launch call{OpType::GATHER, "hccl:gather", {input}, targets, opts.asyncOp, opts.timeout};
  call.prepare = [=](Tensors& made) {
    const at::Tensor& source = made.emplace_back(input.contiguous());
    *all = at::empty({static_cast<int64_t>(total / format.per_element)}, input.options());
    return move(all->data_ptr(), received, source.data_ptr(), sent, format.type);
  };
  call.after = [=]() mutable { copy_from_flat(*all, targets); };
  return launch(std::move(call));
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                    const c10d::ScatterOptions& opts) {
  at::Tensor output = single(outputs);
  const bool root = rank_ == opts.rootRank;
  const Tensors sources = of_root(inputs, opts.rootRank, rank_, size_);
  check_alike(sources, output);
  const Format format = moving(output.scalar_type());
  Counts received(size_, 0), sent = root ? counts_of(sources, format) : Counts(size_, 0);
  received[opts.rootRank] = count(output, format);
  auto room = std::make_shared<at::Tensor>();
  Launch call{OpType::SCATTER, "hccl:scatter", sources, {output}, opts.asyncOp, opts.timeout};
  call.prepare = [=](Tensors& made) {
    const at::Tensor& all = made.emplace_back(root ? flat(sources) : output);
    *room = room_for(output);
    return move(room->data_ptr(), received, all.data_ptr(), sent, format.type);
  };
  call.after = [=]() mutable { take_from_room(*room, output); };
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
  call.prepare = [=](Tensors&) { return move(output.data_ptr(), received, input.data_ptr(), sent, format.type); };
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
  auto to = std::make_shared<at::Tensor>();
  Launch call{OpType::ALLTOALL, "hccl:all_to_all", inputs, outputs, opts.asyncOp, opts.timeout};
  call.prepare = [=, sources = inputs](Tensors& made) {
    const at::Tensor& from = made.emplace_back(flat(sources));
    *to = at::empty({static_cast<int64_t>(total / format.per_element)}, from.options());
    return move(to->data_ptr(), received, from.data_ptr(), sent, format.type);
  };
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
  call.prepare = [=](Tensors&) -> Call {
    void *from = input.data_ptr(), *to = output.data_ptr();
    const uint64_t own = count(input, format);
    if (!hccl::api().HcclAllGatherV) return move(to, counts, from, {}, format.type, own);
    return [=, offsets = offsets_of(counts)](HcclComm comm, aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclAllGatherV(from, own, to, counts.data(), offsets.data(), format.type, comm, stream));
    };
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
  Launch call{OpType::_REDUCE_SCATTER_BASE, "hccl:reduce_scatter_uneven", {input}, {output}, async,
              c10d::kUnsetTimeout};
  auto room = std::make_shared<at::Tensor>();
  call.prepare = [=, this](Tensors& made) {
    const at::Tensor& scaled = made.emplace_back(scaled_input(input, op, size_));
    *room = reduces_in_place(output) ? output : room_for_reduction(output);
    return [=, from = scaled.data_ptr(), to = room->data_ptr(), own = count(output, format),
            offsets = offsets_of(counts)](HcclComm comm, aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclReduceScatterV(from, counts.data(), offsets.data(), to, own, format.type, hccl_op,
                                                comm, stream));
    };
  };
  call.after = [=, this]() mutable {
    scale_output(*room, op, size_);
    take_from_room(*room, output);
  };
  return launch(std::move(call));
}

// An all_reduce of one element, for which the host waits; a sum of numbers, as every HCCL can do it.
ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& opts) {
  c10::DeviceIndex index = any_device();
  if (!opts.device_ids.empty()) index = checked_device(opts.device_ids.front());
  if (opts.device) index = opts.device->index();
  DeviceGuard guard(index);
  const at::Tensor token =
      at::ones({1}, at::TensorOptions().dtype(at::kFloat).device(c10::DeviceType::PrivateUse1, index));
  Launch call{OpType::BARRIER, "hccl:barrier", {token}, {token}, opts.asyncOp, opts.timeout};
  call.barrier = true;
  call.prepare = [=](Tensors&) {
    return [data = token.data_ptr()](HcclComm comm, aclrtStream stream) {
      HCCL_CHECK(hccl::api().HcclAllReduce(data, data, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    };
  };
  return launch(std::move(call));
}

}  // namespace npu::distributed
