// The handle of a collective that was handed to the device, as c10d asks for it. wait() makes the current stream wait,
// not the host.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <memory>
#include <vector>

#include "distributed/execution.h"

namespace npu::distributed {

class WorkHCCL final : public c10d::Work {
 public:
  WorkHCCL(int rank, std::shared_ptr<Execution> execution, std::vector<at::Tensor> outputs, bool blocking);

  bool isCompleted() override;
  bool isSuccess() const override { return !execution_->failure(); }
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void abort() override { execution_->abort(); }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override { return execution_->duration(); }
  uint64_t getSequencenumber() const override { return execution_->description().number; }

 private:
  void throw_if_failed() const;
  void block_host(std::chrono::milliseconds timeout);

  const std::shared_ptr<Execution> execution_;
  const std::vector<at::Tensor> outputs_;
  const bool blocking_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace npu::distributed
