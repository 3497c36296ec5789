// An HCCL communicator of one card: made through the store, destroyed once, asked for errors.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "hccl.h"
#include "runtime/stream.h"

namespace npu::distributed {

// Keys and values that users put into ProcessGroupHCCL.Options.hccl_config.
using HcclConfigMap = std::map<std::string, std::variant<int64_t, std::string>>;

struct CommunicatorSettings {
  std::string name;                      // at most 127 characters
  std::chrono::milliseconds timeout{0};  // for a collective, and for all ranks to come to the first one
  int buffer_megabytes = 200;
  bool deterministic = false;
  HcclConfigMap options;
  std::vector<int> members;  // ranks of the group, by rank of the communicator
};

struct Failure {
  std::string text;
  bool timed_out = false;
};

// When its group is made: a rank that waits for this one to connect then learns of the end of its process.
void announce_process(c10d::Store& store, int rank);

class Communicator {
 public:
  // Meets the other ranks under `key` of the store, on the bound card. Blocks until they are there.
  static std::shared_ptr<Communicator> connect(c10d::Store& store, const std::string& key, int rank, int ranks,
                                               const CommunicatorSettings& settings);
  ~Communicator() { destroy(); }
  Communicator(const Communicator&) = delete;

  HcclComm handle() const;           // throws when it was destroyed
  std::optional<Failure> failure();  // what went wrong in the background, if anything; also when it was destroyed
  std::string name() const;
  void destroy() noexcept;  // what still runs fails

  // Before each use, on the calling thread: work on `stream` from now on stands behind what the communicator did on
  // another one. Nothing says that HCCL takes two streams at once.
  void follow(Stream stream);

  // Number of the last collective that is known to be good. See Note [Which collective failed].
  uint64_t last_good() const { return last_good_; }
  void set_last_good(uint64_t number);

 private:
  explicit Communicator(HcclComm handle) : handle_(handle) {}
  void ask();

  mutable std::mutex mutex_;  // of the following
  HcclComm handle_ = nullptr;
  std::optional<Failure> failure_;
  std::optional<Stream> last_stream_;
  std::atomic<uint64_t> last_good_{0};
};

}  // namespace npu::distributed
