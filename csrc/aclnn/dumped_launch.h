// One launch that a dump may want; see Note [Dump] in dump/session.h. Lives around it, on the calling thread.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "aclnn/op.h"
#include "dump/session.h"

namespace npu::ops {

class DumpedLaunch {
 public:
  // Waits for the stream and writes the inputs, unless the dump does not want this launch.
  DumpedLaunch(const AclOp& op, PhaseOne phase_one, const Packer& packer);
  // Waits for the operator and writes its outputs. `shapes`: those of the last outputs, where the device has said them.
  void finish(const std::vector<std::vector<int64_t>>& shapes = {});
  ~DumpedLaunch();  // unfinished: the index says that the launch failed
  DumpedLaunch(const DumpedLaunch&) = delete;

 private:
  void add_line(const std::string& error);

  std::shared_ptr<dump::Session> session_;  // null: not wanted
  std::vector<dump::DeviceArray> outputs_;
  std::string stem_;  // of the names of its files
  std::string line_, outputs_text_;
};

}  // namespace npu::ops
