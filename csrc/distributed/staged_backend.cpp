#include "distributed/staged_backend.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty_like.h>

#include "distributed/types.h"

namespace npu::distributed {

namespace {

using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;  // npu tensor, where its values come from

at::Tensor on_host(const at::Tensor& tensor) {
  check_tensor(tensor);
  return tensor.to(at::kCPU);
}
at::Tensor room_on_host(const at::Tensor& tensor) {
  check_tensor(tensor);
  return at::empty_like(tensor, tensor.options().device(at::kCPU));
}

std::vector<at::Tensor> on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(on_host(tensor));
  return result;
}
std::vector<at::Tensor> room_on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& tensor : tensors) result.push_back(room_on_host(tensor));
  return result;
}

Copies pairs(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  Copies copies;
  for (size_t i = 0; i < to.size(); ++i) copies.emplace_back(to[i], from[i]);
  return copies;
}

// gloo has no AVG: a sum, divided on the host.
template <class Options>
Options summing(Options options) {
  if (options.reduceOp.op_ == c10d::ReduceOp::AVG) options.reduceOp.op_ = c10d::ReduceOp::SUM;
  return options;
}

class StagedWork final : public c10d::Work {
 public:
  StagedWork(std::vector<c10::intrusive_ptr<c10d::Work>> inner, Copies copies, std::vector<at::Tensor> outputs)
      : inner_(std::move(inner)), copies_(std::move(copies)), outputs_(std::move(outputs)) {}

  bool isCompleted() override {
    for (const auto& work : inner_)
      if (!work->isCompleted()) return false;
    return true;
  }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : inner_) work->wait(timeout);
    synchronize();
    return true;
  }
  void synchronize() override {
    Copies copies;
    copies.swap(copies_);
    for (auto& [to, from] : copies) to.copy_(from);
  }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    std::vector<c10::Device> devices;
    if (!outputs_.empty()) devices.push_back(outputs_[0].device());
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
    future->markCompleted(c10::IValue(outputs_));
    return future;
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> inner_;
  Copies copies_;
  std::vector<at::Tensor> outputs_;
};

}  // namespace

StagedBackend::StagedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string name)
    : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), name_(std::move(name)) {}

StagedBackend::WorkPtr StagedBackend::finish(WorkPtr inner, Copies copies, Tensors outputs) {
  std::vector<WorkPtr> works;
  if (inner) works.push_back(std::move(inner));
  auto work = c10::make_intrusive<StagedWork>(std::move(works), std::move(copies), std::move(outputs));
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

void StagedBackend::startCoalescing() { coalescing_ = true; }

StagedBackend::WorkPtr StagedBackend::endCoalescing() {
  coalescing_ = false;
  std::vector<WorkPtr> works;
  works.swap(coalesced_);
  return c10::make_intrusive<StagedWork>(std::move(works), Copies{}, Tensors{});
}

StagedBackend::WorkPtr StagedBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  Tensors host = on_host(tensors);
  if (opts.reduceOp.op_ == c10d::ReduceOp::PREMUL_SUM) host[0] = scaled_input(host[0], opts.reduceOp);
  auto options = summing(opts);
  if (options.reduceOp.op_ == c10d::ReduceOp::PREMUL_SUM) options.reduceOp = c10d::ReduceOp::SUM;
  auto work = inner_->allreduce(host, options);
  if (opts.reduceOp.op_ == c10d::ReduceOp::AVG) {
    work->wait();
    work.reset();
    for (at::Tensor& tensor : host) scale_output(tensor, opts.reduceOp, getSize());
  }
  return finish(work, pairs(tensors, host), tensors);
}

StagedBackend::WorkPtr StagedBackend::allreduce_coalesced(Tensors& tensors,
                                                          const c10d::AllreduceCoalescedOptions& opts) {
  startCoalescing();
  for (at::Tensor& tensor : tensors) {
    Tensors one{tensor};
    allreduce(one, opts);
  }
  return endCoalescing();
}

StagedBackend::WorkPtr StagedBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  Tensors host = on_host(tensors);
  return finish(inner_->broadcast(host, opts), pairs(tensors, host), tensors);
}

StagedBackend::WorkPtr StagedBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  Tensors host = on_host(tensors);
  inner_->reduce(host, summing(opts))->wait();
  if (getRank() != opts.rootRank) return finish(nullptr, {}, tensors);  // gloo uses the others' tensors as scratch
  scale_output(host[0], opts.reduceOp, getSize());
  return finish(nullptr, pairs(tensors, host), tensors);
}

StagedBackend::WorkPtr StagedBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& opts) {
  std::vector<Tensors> host_outputs{room_on_host(outputs.at(0))};
  Tensors host_inputs = on_host(inputs);
  return finish(inner_->allgather(host_outputs, host_inputs, opts), pairs(outputs[0], host_outputs[0]), outputs[0]);
}

StagedBackend::WorkPtr StagedBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& opts) {
  at::Tensor host_output = room_on_host(output), host_input = on_host(input);
  return finish(inner_->_allgather_base(host_output, host_input, opts), {{output, host_output}}, {output});
}

StagedBackend::WorkPtr StagedBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& opts) {
  startCoalescing();
  for (size_t i = 0; i < inputs.size(); ++i) _allgather_base(outputs[i], inputs[i], opts);
  return endCoalescing();
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& opts) {
  Tensors host_outputs = room_on_host(outputs);
  std::vector<Tensors> host_inputs{on_host(inputs.at(0))};
  inner_->reduce_scatter(host_outputs, host_inputs, summing(opts))->wait();
  scale_output(host_outputs[0], opts.reduceOp, getSize());
  return finish(nullptr, pairs(outputs, host_outputs), outputs);
}

StagedBackend::WorkPtr StagedBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::ReduceScatterOptions& opts) {
  at::Tensor host_output = room_on_host(output), host_input = on_host(input);
  inner_->_reduce_scatter_base(host_output, host_input, summing(opts))->wait();
  scale_output(host_output, opts.reduceOp, getSize());
  return finish(nullptr, {{output, host_output}}, {output});
}

StagedBackend::WorkPtr StagedBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::ReduceScatterOptions& opts) {
  startCoalescing();
  for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], opts);
  return endCoalescing();
}

StagedBackend::WorkPtr StagedBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& opts) {
  std::vector<Tensors> host_outputs;
  for (const Tensors& list : outputs) host_outputs.push_back(room_on_host(list));
  Tensors host_inputs = on_host(inputs);
  auto work = inner_->gather(host_outputs, host_inputs, opts);
  if (outputs.empty()) return finish(work, {}, {});
  return finish(work, pairs(outputs[0], host_outputs[0]), outputs[0]);
}

StagedBackend::WorkPtr StagedBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& opts) {
  Tensors host_outputs = room_on_host(outputs);
  std::vector<Tensors> host_inputs;
  for (const Tensors& list : inputs) host_inputs.push_back(on_host(list));
  return finish(inner_->scatter(host_outputs, host_inputs, opts), pairs(outputs, host_outputs), outputs);
}

StagedBackend::WorkPtr StagedBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits,
                                                    const c10d::AllToAllOptions& opts) {
  at::Tensor host_output = room_on_host(output), host_input = on_host(input);
  return finish(inner_->alltoall_base(host_output, host_input, output_splits, input_splits, opts),
                {{output, host_output}}, {output});
}

// gloo has only the form for one tensor.
StagedBackend::WorkPtr StagedBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  std::vector<int64_t> received, sent;
  for (const at::Tensor& tensor : outputs) received.push_back(tensor.numel());
  for (const at::Tensor& tensor : inputs) sent.push_back(tensor.numel());
  at::Tensor host_input = flat(on_host(inputs)), host_output = flat(room_on_host(outputs));
  inner_->alltoall_base(host_output, host_input, received, sent, opts)->wait();
  copy_from_flat(host_output, outputs);
  return finish(nullptr, {}, outputs);
}

StagedBackend::WorkPtr StagedBackend::barrier(const c10d::BarrierOptions& opts) { return inner_->barrier(opts); }

StagedBackend::WorkPtr StagedBackend::send(Tensors& tensors, int peer, int tag) {
  Tensors host = on_host(tensors);
  return finish(inner_->send(host, peer, tag), {}, {});
}

StagedBackend::WorkPtr StagedBackend::recv(Tensors& tensors, int peer, int tag) {
  Tensors host = room_on_host(tensors);
  return finish(inner_->recv(host, peer, tag), pairs(tensors, host), tensors);
}

}  // namespace npu::distributed
