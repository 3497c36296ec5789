// The flight recorder: a ring of the last collectives of this process, written out in torch's format, so that torch's
// own analyser (python -m torch.distributed.flight_recorder.fr_trace) reads it. Off unless TORCH_HCCL_TRACE_BUFFER_SIZE
// is set.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace npu::distributed {

class FlightRecorder {
 public:
  static FlightRecorder& get();

  struct Operation {
    std::string group, description;
    std::string title;  // "hccl:all_reduce"
    uint64_t number = 0;
    bool point_to_point = false;
    std::chrono::milliseconds timeout{0};
  };
  bool enabled() const { return capacity_ > 0; }
  // Where the entry is, for done(); nothing when the recorder is off.
  std::optional<uint64_t> record(Operation operation, const std::vector<at::Tensor>& inputs,
                                 const std::vector<at::Tensor>& outputs);
  void done(std::optional<uint64_t> id);
  void set_ranks(const std::string& group, std::vector<uint64_t> ranks);

  std::string dump(bool with_collectives, bool with_stacks, bool only_active);  // pickled
  // Writes the dump to the file of TORCH_HCCL_DEBUG_INFO_TEMP_FILE; the path, empty when it could not be written.
  std::string write_file(int rank);

 private:
  FlightRecorder();
  struct Shape {
    std::vector<int64_t> sizes;
    at::ScalarType type;
  };
  struct Entry {
    uint64_t id;
    Operation operation;
    std::vector<Shape> inputs, outputs;
    int64_t created, completed = 0;  // nanoseconds
    std::shared_ptr<torch::CapturedTraceback> stack;
  };
  struct Group {
    std::vector<uint64_t> ranks;
    uint64_t enqueued = 0, completed = 0;
  };
  c10::IValue describe(const Entry& entry) const;

  const size_t capacity_;
  const bool cpp_stacks_;
  std::mutex mutex_;
  std::deque<Entry> entries_;
  std::map<std::string, Group> groups_;
  uint64_t next_ = 0;
};

}  // namespace npu::distributed
