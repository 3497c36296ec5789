// A captured graph: torch.accelerator.Graph and torch.npu.NPUGraph over the provider's aclmdlRI. See Note [Capture] in
// graph.cpp. Not for two threads at once.
#pragma once

#include <ATen/core/GraphImplInterface.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "runtime/capture.h"
#include "runtime/stream.h"

namespace npu {

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& args);
  ~Graph() override;

  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override;
  void debug_dump(const std::string& path) override;

 private:
  int end_capture();  // the provider's code; not 0: there is no graph
  void start_allocating(const Stream& stream);
  void stop_allocating() noexcept;
  void release_pool() noexcept;

  enum class State { empty, capturing, captured };
  const bool keep_graph_;
  State state_ = State::empty;
  std::optional<Stream> stream_;                   // of the capture
  c10::MempoolId_t pool_{0, 0}, host_pool_{0, 0};  // of the card's memory, of pinned memory
  std::atomic<bool> host_pool_used_{false};
  aclmdlRI model_ = nullptr;
  std::unique_ptr<Capture> capture_;
};

// Task groups: what a captured stream is given between begin and end can be exchanged later, by giving `stream` the
// same calls between begin_update and end_update.
void begin_task_group(Stream stream);
uintptr_t end_task_group(Stream stream);
void begin_task_update(Stream stream, uintptr_t group);
void end_task_update(Stream stream);

// An event that graphs share with the rest of the world. In a capture its record, wait and reset are tasks of the
// graph.
class ExternalEvent {
 public:
  ExternalEvent();  // on the current card
  ~ExternalEvent();
  ExternalEvent(const ExternalEvent&) = delete;
  void record(Stream stream);
  void wait(Stream stream);
  void reset(Stream stream);

 private:
  const c10::DeviceIndex device_;
  aclrtEvent event_ = nullptr;
};

}  // namespace npu
