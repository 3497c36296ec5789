// The handle of a collective that was handed to the device. Completion is what its events say; failure is what the
// communicator or the watchdog says. wait() makes the current stream wait, not the host.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/event.h"

namespace npu::distributed {

class WorkHCCL final : public c10d::Work {
 public:
  struct Description {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = "";  // for profilers, as upstream has it: "hccl:all_reduce"
    uint64_t number = 0;     // in the group: collectives, or sends and receives
    std::chrono::milliseconds timeout{0};
    bool timed = false, barrier = false;
  };
  WorkHCCL(int rank, Description description, std::vector<at::Tensor> outputs, c10::Device device, bool blocking);

  // ---- As c10d asks ----
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void abort() override;
  std::vector<at::Tensor> result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override { return description_.number; }

  // ---- For the process group, while the work is being launched ----
  void begin(Stream stream);  // `stream` is where it runs; several for a batch
  void end(Stream stream, std::shared_ptr<Communicator> communicator);
  void keep(std::vector<at::Tensor> tensors);  // alive until the work is waited for, or done

  // ---- For the watchdog ----
  std::optional<uint64_t> trace;  // entry of the flight recorder
  const Description& description() const { return description_; }
  bool is_late(std::chrono::milliseconds limit) const { return std::chrono::steady_clock::now() - start_ > limit; }
  std::optional<std::string> error() const;  // of its communicators
  void fail(const std::string& text);        // what wait() and later calls throw
  void release();                            // done: lets go of the tensors
  std::string describe() const;              // "all_reduce #3"

 private:
  void throw_if_failed() const;
  void block_current_stream();
  void block_host(std::chrono::milliseconds timeout);

  const Description description_;
  const c10::Device device_;
  const bool blocking_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<at::Tensor> outputs_, kept_;
  std::vector<Stream> streams_;
  std::vector<Event> begins_, ends_;
  std::vector<std::shared_ptr<Communicator>> communicators_;
  std::string failure_;  // under mutex_
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace npu::distributed
