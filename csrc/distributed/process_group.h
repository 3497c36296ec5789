// ProcessGroupHCCL: torch.distributed's backend "hccl". One object per process group and rank; collectives are in
// collectives.cpp, sends and receives in point_to_point.cpp, life and errors in process_group.cpp.
//
// Note [Streams of collectives]
// A collective that its caller waits for at once (async_op=False) runs on the current stream: no events, no hand-over.
// Others run on a stream of the group, which first waits for the current one; work.wait() makes the stream that is
// current then wait for it. Inputs and outputs are kept alive until it is waited for or done (execution.h), so that
// the allocator does not give their memory away. A communicator does one thing at a time: where two collectives follow
// each other on different streams, an event keeps their order (Communicator::follow). Sends and receives have one
// stream and one communicator per peer and direction, batches theirs: a send that waits for its receiver must not hold
// up the receive behind it. HCCL is called through the task queue, behind the operators that make its inputs.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/flight_recorder.h"
#include "distributed/types.h"
#include "distributed/watchdog.h"
#include "distributed/work.h"

namespace npu::distributed {

class ProcessGroupHCCL final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(bool high_priority = false)
        : c10d::Backend::Options("hccl"), is_high_priority_stream(high_priority) {}
    bool is_high_priority_stream;
    HcclConfigMap hccl_config;
  };

  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size, c10::intrusive_ptr<Options> options);
  ~ProcessGroupHCCL() override;

  // ---- Life (process_group.cpp) ----
  const std::string getBackendName() const override { return "hccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  // Of torch.distributed.split_group: the group of these ranks of this one; null for a rank that is not among them.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void eagerConnectSingleDevice(at::Device device) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }
  void enableCollectivesTiming() override { timed_ = true; }
  void waitForPendingWorks() override;
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;
  // Of the card's communicator. Without `connect` none is made: the name is empty before the first collective.
  std::string comm_name(int device, bool connect);
  std::optional<std::string> failure() const;
  std::string inspect();  // inspection.cpp: what it is doing, as JSON; on any thread, without waiting
  // Between stop_device and restart_device: failures of work that was dropped on purpose are no news, nor is their
  // work.
  void pause();
  void resume();
  // After a failure: throws away what is broken; the next collective makes new communicators.
  void rebuild();

  // ---- Collectives (collectives.cpp) ----
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
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
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  // Ranks have different shares, given in elements of the first dimension.
  WorkPtr allgather_uneven(at::Tensor& output, at::Tensor& input, std::vector<int64_t> splits, bool async);
  WorkPtr reduce_scatter_uneven(at::Tensor& output, at::Tensor& input, std::vector<int64_t> splits,
                                const c10d::ReduceOp& op, bool async);

  // ---- Sends and receives (point_to_point.cpp) ----
  WorkPtr send(Tensors& tensors, int peer, int tag) override;
  WorkPtr recv(Tensors& tensors, int peer, int tag) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

 private:
  // What is launched. `prepare` and `after` run operators on its stream; between them goes what `prepare` returns, the
  // call of HCCL. That one may wait in the task queue: it has addresses and counts, never tensors, whose last reference
  // must not be dropped by the queue's consumer. What `prepare` allocates lives in `made` until the call is launched.
  using Call = std::function<void(HcclComm, aclrtStream)>;
  struct Launch {
    c10d::OpType type;
    const char* title;
    Tensors inputs, outputs;
    bool async = true;
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    std::function<Call(Tensors& made)> prepare{};
    std::function<void()> after{};
    bool barrier = false;
  };
  WorkPtr launch(Launch launch);
  WorkPtr coalesced(size_t count, const std::function<void(size_t)>& call);
  WorkPtr transfer(Tensors& tensors, int peer, bool sends);
  struct Item {
    at::Tensor tensor;
    int peer;
    bool sends;
  };
  WorkPtr transfer_batch(std::vector<Item> items, bool collectives);

  void check_usable();  // throws what went wrong before
  void on_failure(const std::string& text);
  // Made at first use; `title` is what needs it, for the error.
  std::shared_ptr<Communicator> communicator(c10::DeviceIndex device, const char* title);
  enum class Direction { there, back, both };
  std::shared_ptr<Communicator> pair_communicator(int peer, Direction direction, const char* title);
  std::shared_ptr<Communicator> find_or_connect(const std::string& key, const std::vector<int>& members,
                                                const char* title);
  static constexpr int kCollectiveStream = -1;  // side_stream's number of the group's own; others are peers'
  Stream side_stream(c10::DeviceIndex device, int which);
  c10::DeviceIndex any_device() const;
  std::vector<std::shared_ptr<Communicator>> all_communicators();
  // What was launched gets into the flight recorder, to the watchdog and to the caller.
  WorkPtr watch(std::shared_ptr<Execution> execution, const Tensors& inputs, const Tensors& outputs);
  int global_rank() const { return global_rank(rank_); }
  int global_rank(int rank) const;
  std::chrono::milliseconds timeout_or_default(std::chrono::milliseconds timeout) const {
    return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const bool blocking_;
  const int reaction_;  // TORCH_HCCL_ASYNC_ERROR_HANDLING
  // Atomic: abort() and questions come from other threads.
  std::atomic<bool> timed_, coalescing_{false}, closed_{false};
  std::vector<int> everyone_;  // 0 to size - 1
  std::atomic<uint64_t> collectives_{0}, transfers_{0};
  std::atomic<int> last_device_{-1};
  std::mutex mutex_;  // of the following
  std::map<std::string, std::shared_ptr<Communicator>> communicators_;
  std::map<std::pair<c10::DeviceIndex, int>, Stream> streams_;
  // A communicator is being made, for which the other ranks are needed.
  struct Connecting {
    std::string title;
    bool everyone;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Connecting> connecting_;
  uint64_t generation_ = 0;  // of communicators: rises with rebuild()
  std::vector<Item> items_;  // of a batch, and its last collective: the thread that coalesces has them
  c10::intrusive_ptr<c10d::Work> last_coalesced_;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace npu::distributed
