// A backend for npu tensors that lets a backend for CPU tensors do the work, through host memory. softnpu's HCCL
// connects the ranks of one host; between hosts torch's own gloo takes over this way. The host waits for every
// operation.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace npu::distributed {

class StagedBackend final : public c10d::Backend {
 public:
  StagedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::string name);

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  // Ranks have different shares, given in elements of the first dimension.
  WorkPtr allgather_uneven(at::Tensor& output, at::Tensor& input, std::vector<int64_t> splits, bool async);
  WorkPtr reduce_scatter_uneven(at::Tensor& output, at::Tensor& input, std::vector<int64_t> splits,
                                const c10d::ReduceOp& op, bool async);
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;

 private:
  // The handle of what the inner backend was given; `finish` brings the results to the npu.
  WorkPtr start(const char* what, std::vector<WorkPtr> inner, Tensors outputs, std::function<void()> finish);
  WorkPtr coalesced(size_t count, const std::function<WorkPtr(size_t)>& call);
  WorkPtr reduce_all(const char* what, const at::Tensor& host, const c10d::ReduceOp& op,
                     std::chrono::milliseconds timeout, Tensors outputs, std::function<void(const at::Tensor&)> finish);
  WorkPtr scatter_reduced(const at::Tensor& host, const at::Tensor& output, const std::vector<uint64_t>& counts,
                          const c10d::ReduceOp& op, std::chrono::milliseconds timeout);
  WorkPtr gather_all(const Tensors& outputs, std::vector<int64_t> counts, const at::Tensor& input,
                     std::chrono::milliseconds timeout);
  WorkPtr move(const char* what, const Tensors& outputs, std::vector<int64_t> received, at::Tensor bytes,
               std::vector<int64_t> sent, std::chrono::milliseconds timeout);

  const c10::intrusive_ptr<c10d::Backend> inner_;
  const std::string name_;
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
  const std::shared_ptr<std::deque<at::Tensor>> to_self_ = std::make_shared<std::deque<at::Tensor>>();
};

}  // namespace npu::distributed
