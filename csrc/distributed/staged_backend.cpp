#include "distributed/staged_backend.h"

#include <algorithm>
#include <numeric>

#include "distributed/host_values.h"
#include "distributed/staged_work.h"
#include "distributed/types.h"
#include "runtime/stream.h"

namespace npu::distributed {

namespace {

// How many bytes each rank's share has.
std::vector<int64_t> byte_counts(const std::vector<at::Tensor>& tensors) {
  std::vector<int64_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(static_cast<int64_t>(tensor.nbytes()));
  return counts;
}

std::vector<int64_t> byte_counts(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks) {
  const auto counts = counts_of(tensor, splits, ranks, {HCCL_DATA_TYPE_INT8, tensor.dtype().itemsize()});
  return {counts.begin(), counts.end()};
}

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string name)
    : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), name_(std::move(name)) {}

StagedBackend::WorkPtr StagedBackend::start(const char* what, std::vector<WorkPtr> inner, Tensors outputs,
                                            std::function<void()> finish) {
  auto work = c10::make_intrusive<StagedWork>(c10::str(what, " between hosts failed on rank ", getRank()),
                                              std::move(inner), std::move(outputs), std::move(finish));
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

void StagedBackend::startCoalescing() {
  TORCH_CHECK(!coalescing_, "Coalescing has already been started on this group.");
  coalescing_ = true;
}

StagedBackend::WorkPtr StagedBackend::endCoalescing() {
  coalescing_ = false;
  std::vector<WorkPtr> works;
  works.swap(coalesced_);
  return start("a batch", std::move(works), {}, [] {});
}

// Also inside of startCoalescing() ... endCoalescing(), which torch's coalescing manager puts around it.
StagedBackend::WorkPtr StagedBackend::coalesced(size_t count, const std::function<WorkPtr(size_t)>& call) {
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < count; ++i) works.push_back(call(i));
  if (coalescing_) return works.empty() ? nullptr : works.back();
  return start("a batch", std::move(works), {}, [] {});
}

// ---- Reductions ----

StagedBackend::WorkPtr StagedBackend::reduce_all(const char* what, const at::Tensor& host, const c10d::ReduceOp& op,
                                                 std::chrono::milliseconds timeout, Tensors outputs,
                                                 std::function<void(const at::Tensor&)> finish) {
  auto reduction = std::make_shared<HostReduction>(host, op, getSize());
  c10d::AllreduceOptions options;
  options.reduceOp = reduction->op;
  options.timeout = timeout;
  auto work = inner_->allreduce(reduction->values, options);
  return start(what, {std::move(work)}, std::move(outputs), [=] { finish(reduction->result()); });
}

StagedBackend::WorkPtr StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor tensor = single(tensors);
  return reduce_all("all_reduce", on_host(tensor), opts.reduceOp, opts.timeout, tensors,
                    [=](const at::Tensor& result) { to_device(result, tensor); });
}

StagedBackend::WorkPtr StagedBackend::allreduce_coalesced(Tensors& tensors,
                                                          const c10d::AllreduceCoalescedOptions& opts) {
  return coalesced(tensors.size(), [&](size_t i) {
    Tensors one{tensors[i]};
    return allreduce(one, opts);
  });
}

StagedBackend::WorkPtr StagedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor tensor = single(tensors);
  auto reduction = std::make_shared<HostReduction>(on_host(tensor), opts.reduceOp, getSize());
  auto options = opts;
  options.reduceOp = reduction->op;
  auto work = inner_->reduce(reduction->values, options);
  return start("reduce", {std::move(work)}, tensors, [=, root = getRank() == opts.rootRank] {
    if (root) to_device(reduction->result(), tensor);
  });
}

// gloo reduces everything everywhere in any case.
StagedBackend::WorkPtr StagedBackend::scatter_reduced(const at::Tensor& host, const at::Tensor& output,
                                                      const std::vector<uint64_t>& counts, const c10d::ReduceOp& op,
                                                      std::chrono::milliseconds timeout) {
  const auto begin = std::accumulate(counts.begin(), counts.begin() + getRank(), uint64_t{0});
  TORCH_CHECK_VALUE(counts[getRank()] == static_cast<uint64_t>(output.numel()),
                    "reduce_scatter: this rank's share has ", counts[getRank()], " elements, its output ",
                    output.numel());
  return reduce_all("reduce_scatter", host, op, timeout, {output}, [=](const at::Tensor& result) {
    to_device(result.narrow(0, static_cast<int64_t>(begin), output.numel()), output);
  });
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK(inputs.size() == 1 && static_cast<int>(inputs[0].size()) == getSize(), "Expecting ", getSize(),
              " inputs");
  return scatter_reduced(on_host(inputs[0]), single(outputs), counts_of(inputs[0], {HCCL_DATA_TYPE_INT8}),
                         opts.reduceOp, opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::ReduceScatterOptions& opts) {
  check_alike({output}, input);
  TORCH_CHECK_VALUE(output.numel() * getSize() == input.numel(),
                    "input tensor must be the same size as output size times world size");
  const std::vector<uint64_t> counts(getSize(), static_cast<uint64_t>(output.numel()));
  return scatter_reduced(on_host(input), output, counts, opts.reduceOp, opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::ReduceScatterOptions& opts) {
  check_pairs(outputs, inputs);
  return coalesced(inputs.size(), [&](size_t i) { return _reduce_scatter_base(outputs[i], inputs[i], opts); });
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter_uneven(at::Tensor& output, at::Tensor& input,
                                                            std::vector<int64_t> splits, const c10d::ReduceOp& op,
                                                            bool) {
  return scatter_reduced(on_host(input), output, counts_of(input, splits, getSize(), {HCCL_DATA_TYPE_INT8}), op,
                         c10d::kUnsetTimeout);
}

// ---- What only moves data: as bytes, because gloo does not have all types ----

StagedBackend::WorkPtr StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor tensor = single(tensors), host = on_host(tensor);
  Tensors bytes{bytes_of(host)};
  return start("broadcast", {inner_->broadcast(bytes, opts)}, tensors, [=] { to_device(host, tensor); });
}

StagedBackend::WorkPtr StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& opts) {
  check_alike({output}, input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(),
                    "output tensor size must be equal to world_size times input tensor size");
  Tensors outputs{output};
  return gather_all(outputs, byte_counts(Tensors(getSize(), input)), input, opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& opts) {
  const at::Tensor input = single(inputs);
  TORCH_CHECK(outputs.size() == 1 && static_cast<int>(outputs[0].size()) == getSize(), "Expecting ", getSize(),
              " outputs");
  check_alike(outputs[0], input);
  return gather_all(outputs[0], byte_counts(outputs[0]), input, opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& opts) {
  check_pairs(outputs, inputs);
  return coalesced(inputs.size(), [&](size_t i) { return _allgather_base(outputs[i], inputs[i], opts); });
}

StagedBackend::WorkPtr StagedBackend::allgather_uneven(at::Tensor& output, at::Tensor& input,
                                                       std::vector<int64_t> splits, bool) {
  check_alike({output}, input);
  Tensors outputs{output};
  return gather_all(outputs, byte_counts(output, splits, getSize()), input, c10d::kUnsetTimeout);
}

// gloo gathers equal shares; others travel as an all_to_all in which this rank sends the same to everybody.
StagedBackend::WorkPtr StagedBackend::gather_all(const Tensors& outputs, std::vector<int64_t> counts,
                                                 const at::Tensor& input, std::chrono::milliseconds timeout) {
  const at::Tensor bytes = bytes_of(on_host(input));
  TORCH_CHECK_VALUE(counts[getRank()] == bytes.numel(), "the output for this rank must have the size of its input");
  if (std::any_of(counts.begin(), counts.end(), [&](int64_t count) { return count != counts[0]; }))
    return move("all_gather", outputs, std::move(counts), bytes.repeat({getSize()}),
                std::vector<int64_t>(getSize(), bytes.numel()), timeout);
  const at::Tensor host = room_on_host(outputs);
  at::Tensor all = bytes_of(host), mine = bytes;
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  return start("all_gather", {inner_->_allgather_base(all, mine, options)}, outputs, [=] { to_device(host, outputs); });
}

// The general movement: counts are in bytes, one for each rank. Without outputs nothing is received.
StagedBackend::WorkPtr StagedBackend::move(const char* what, const Tensors& outputs, std::vector<int64_t> received,
                                           at::Tensor bytes, std::vector<int64_t> sent,
                                           std::chrono::milliseconds timeout) {
  const at::Tensor host = outputs.empty() ? bytes.narrow(0, 0, 0) : room_on_host(outputs);
  at::Tensor room = bytes_of(host);
  c10d::AllToAllOptions options;
  options.timeout = timeout;
  auto work = inner_->alltoall_base(room, bytes, received, sent, options);
  return start(what, {std::move(work)}, outputs, [=] { to_device(host, outputs); });
}

StagedBackend::WorkPtr StagedBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& opts) {
  const Tensors targets = of_root(outputs, opts.rootRank, getRank(), getSize());
  check_alike(targets, single(inputs));
  const at::Tensor bytes = bytes_of(on_host(inputs[0]));
  std::vector<int64_t> sent(getSize(), 0);
  sent[opts.rootRank] = bytes.numel();
  auto received = targets.empty() ? std::vector<int64_t>(getSize(), 0) : byte_counts(targets);
  return move("gather", targets, std::move(received), bytes, std::move(sent), opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& opts) {
  const Tensors sources = of_root(inputs, opts.rootRank, getRank(), getSize());
  check_alike(sources, single(outputs));
  std::vector<int64_t> received(getSize(), 0);
  received[opts.rootRank] = static_cast<int64_t>(outputs[0].nbytes());
  auto sent = sources.empty() ? std::vector<int64_t>(getSize(), 0) : byte_counts(sources);
  const at::Tensor host = sources.empty() ? room_on_host(outputs).narrow(0, 0, 0) : on_host(sources);
  return move("scatter", outputs, std::move(received), bytes_of(host), std::move(sent), opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits,
                                                    const c10d::AllToAllOptions& opts) {
  check_alike({output}, input);
  return move("all_to_all", {output}, byte_counts(output, output_splits, getSize()), bytes_of(on_host(input)),
              byte_counts(input, input_splits, getSize()), opts.timeout);
}

StagedBackend::WorkPtr StagedBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  TORCH_CHECK_VALUE(static_cast<int>(inputs.size()) == getSize() && static_cast<int>(outputs.size()) == getSize(),
                    "requires one input and one output for each rank");
  check_alike(outputs, inputs[0]);
  return move("all_to_all", outputs, byte_counts(outputs), bytes_of(on_host(inputs)), byte_counts(inputs),
              opts.timeout);
}

// gloo has no connection of a rank with itself: what is sent there waits in a list for its receive.
StagedBackend::WorkPtr StagedBackend::send(Tensors& tensors, int peer, int tag) {
  if (peer == getRank()) {
    to_self_->push_back(on_host(single(tensors)));
    return start("send", {}, {}, [] {});
  }
  Tensors bytes{bytes_of(on_host(single(tensors)))};
  return start("send", {inner_->send(bytes, peer, tag)}, {}, [] {});
}

StagedBackend::WorkPtr StagedBackend::recv(Tensors& tensors, int peer, int tag) {
  const at::Tensor tensor = single(tensors);
  if (peer == getRank())
    return start("recv", {}, tensors, [tensor, sent = to_self_] {
      TORCH_CHECK_VALUE(!sent->empty(), "this rank has not sent to itself what it wants to receive");
      const at::Tensor host = sent->front();
      sent->pop_front();
      TORCH_CHECK_VALUE(host.scalar_type() == tensor.scalar_type() && host.numel() == tensor.numel(), "sent ",
                        host.numel(), " elements of type ", host.scalar_type(), ", expected ", tensor.numel(), " of ",
                        tensor.scalar_type());
      to_device(host, tensor);
    });
  const at::Tensor host = room_on_host(tensor);
  Tensors bytes{bytes_of(host)};
  return start("recv", {inner_->recv(bytes, peer, tag)}, tensors, [=] { to_device(host, tensor); });
}

StagedBackend::WorkPtr StagedBackend::barrier(const c10d::BarrierOptions& opts) {
  current_stream().synchronize();
  return start("barrier", {inner_->barrier(opts)}, {}, [] {});
}

}  // namespace npu::distributed
