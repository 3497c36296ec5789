// A dump under way: its folder, index and limits. Started and stopped from Python; written to by every thread that
// launches operators (aclnn/dumped_launch.cpp).
//
// Note [Dump]
// ~~~~~~~~~~~
// While there is a session, a launch is made alone: the stream is waited for, the inputs are copied to the host, the
// operator runs and is waited for, and the outputs are copied. So it does not matter which stream, thread or level of
// the task queue it belongs to, and an operator in place does not overwrite what is called its input. The ATen
// operator comes from torch's observers of the dispatcher (dump/operators.h), which see autograd's threads too.
//   The folder is made by the first launch. index.jsonl has one JSON object a line: first one about the dump, then one
// for each launch, and {"stopped": reason} if the dump ended itself.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dump/host_array.h"

namespace npu::dump {

struct Options {
  std::string path = ".";                          // where the folder is made
  std::vector<std::string> operators;              // shell patterns of ATen or aclnn names; none: every operator
  std::vector<std::pair<int64_t, int64_t>> steps;  // first and last; none: every step
  bool inputs = true, outputs = true;
  bool data = true;    // false: statistics only
  uint64_t limit = 0;  // bytes of all files together
};

void start(Options options);  // ends the one before
void stop();
std::string folder();  // of the session under way; empty before its first launch

class Session {
 public:
  explicit Session(Options options) : options_(std::move(options)) {}
  static std::shared_ptr<Session> current();

  const Options& options() const { return options_; }
  bool wants(const std::string& aten, const char* aclnn, int64_t step) const;
  uint64_t next_order() { return order_++; }
  // The JSON object of a tensor, whose file is written unless statistics are enough. `name` is the file's, without end.
  std::string describe(const HostArray& array, const std::string& name);
  void append(const std::string& line);  // to the index
  std::string folder();

 private:
  bool open();  // makes the folder, with the lock
  bool has_room(uint64_t bytes);
  void give_up(const std::string& reason);  // with the lock; the program goes on

  const Options options_;
  std::atomic<uint64_t> order_{0};
  std::mutex mutex_;
  std::string folder_;
  uint64_t used_ = 0;
  bool has_index_ = false, ended_ = false;
};

}  // namespace npu::dump
