// The handle of an operation of StagedBackend: done when the other backend's works are, and the results are on the npu.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace npu::distributed {

class StagedWork final : public c10d::Work {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `finish` brings the results to the npu, on the stream that is current in the wait. Called once.
  StagedWork(std::string title, std::vector<WorkPtr> inner, std::vector<at::Tensor> outputs,
             std::function<void()> finish);

  bool isCompleted() override;
  bool isSuccess() const override { return !exception_; }
  bool wait(std::chrono::milliseconds timeout) override;  // throws with the title in front of the other backend's words
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;  // waits: a completed one

 private:
  [[noreturn]] void fail(const char* text);

  const std::string title_;
  const std::vector<WorkPtr> inner_;
  const std::vector<at::Tensor> outputs_;
  std::mutex waiting_;  // of the following: one thread waits, others wait for it
  std::function<void()> finish_;
};

}  // namespace npu::distributed
