// An HCCL communicator of one card: made through the store, destroyed once, asked for errors.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "hccl.h"

namespace npu::distributed {

// Keys and values that users put into ProcessGroupHCCL.Options.hccl_config.
using HcclConfigMap = std::map<std::string, std::variant<int64_t, std::string>>;

struct CommunicatorSettings {
  std::string name;                      // at most 127 characters
  std::chrono::milliseconds timeout{0};  // for a collective, and for all ranks to come to the first one
  int buffer_megabytes = 200;
  bool deterministic = false;
  HcclConfigMap options;
};

class Communicator {
 public:
  // Meets the other ranks under `key` of the store, on the bound card. Blocks until they are there.
  static std::shared_ptr<Communicator> connect(c10d::Store& store, const std::string& key, int rank, int ranks,
                                               const CommunicatorSettings& settings);
  ~Communicator() { destroy(); }
  Communicator(const Communicator&) = delete;

  HcclComm handle() const;                   // throws when it was destroyed
  std::optional<std::string> error() const;  // what went wrong in the background, if anything
  std::string name() const;
  void destroy() noexcept;  // what still runs fails

 private:
  explicit Communicator(HcclComm handle) : handle_(handle) {}
  mutable std::mutex mutex_;
  HcclComm handle_ = nullptr;
};

}  // namespace npu::distributed
