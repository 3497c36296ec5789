// How an operator reaches the device: NPU_EXEC(aclnnX, arguments...) serialises the arguments once, and everything else
// (executor cache, descriptors, workspace, task queue) works on those words. Called with the tensors' card current.
#pragma once

#include <vector>

#include "aclnn.h"
#include "aclnn/missing_op.h"
#include "aclnn/pack.h"
#include "aclnn_types.h"  // generated from abi/aclnn.yaml: npu::ops::abi::aclnnX = Abi<C types...>

namespace npu::ops {

// One operator of the provider. A static object per call site; symbols are resolved at its first launch.
struct AclOp {
  const char* name;
  void* phase_one = nullptr;
  aclnnLaunch phase_two = nullptr;
};

using PhaseOne = int (*)(void* function, Unpacker& arguments, uint64_t* workspace_size, aclOpExecutor** executor);

template <class... C>
int phase_one(void* function, Unpacker& arguments, uint64_t* workspace_size, aclOpExecutor** executor) {
  using Function = int (*)(C..., uint64_t*, aclOpExecutor**);
  struct Call {  // its braces take the arguments in their order
    Call(Function function, uint64_t* workspace_size, aclOpExecutor** executor, C... each)
        : code(function ? function(each..., workspace_size, executor) : 0) {}  // without one: a survey
    int code;
  };
  return Call{reinterpret_cast<Function>(function), workspace_size, executor, arguments.take<C>()...}.code;
}

// Finds or builds the executor and launches it on the current stream, by way of the task queue.
void launch(AclOp& op, PhaseOne phase_one, Packer& arguments);

template <class... C, class... A>
void exec(AclOp& op, abi::Abi<C...>, const A&... arguments) {
  static_assert(sizeof...(C) == sizeof...(A), "number of arguments differs from abi/aclnn.yaml");
  Packer packer;
  packer.words.push_back(reinterpret_cast<uint64_t>(&op));
  (pack<C>(packer, arguments), ...);
  launch(op, &phase_one<C...>, packer);
}

// For operators whose output size depends on data: launches, waits, and returns the output shapes of `outputs`, which
// the device rewrote. Always runs on the calling thread.
std::vector<std::vector<int64_t>> launch_and_read_shapes(AclOp& op, PhaseOne phase_one, Packer& arguments, int outputs);

template <class... C, class... A>
std::vector<std::vector<int64_t>> exec_and_read_shapes(AclOp& op, abi::Abi<C...>, int outputs, const A&... arguments) {
  static_assert(sizeof...(C) == sizeof...(A), "number of arguments differs from abi/aclnn.yaml");
  Packer packer;
  packer.words.push_back(reinterpret_cast<uint64_t>(&op));
  (pack<C>(packer, arguments), ...);
  return launch_and_read_shapes(op, &phase_one<C...>, packer, outputs);
}

bool has_op(const char* name);  // whether the provider implements it

}  // namespace npu::ops

#define NPU_EXEC(name, ...)                                          \
  do {                                                               \
    static constinit ::npu::ops::AclOp npu_op_{#name};               \
    ::npu::ops::exec(npu_op_, ::npu::ops::abi::name{}, __VA_ARGS__); \
  } while (0)

// The last `outputs` tensor arguments get their size from the data; evaluates to their shapes.
#define NPU_EXEC_SHAPES(name, outputs, ...)                                                          \
  ([&] {                                                                                             \
    static constinit ::npu::ops::AclOp npu_op_{#name};                                               \
    return ::npu::ops::exec_and_read_shapes(npu_op_, ::npu::ops::abi::name{}, outputs, __VA_ARGS__); \
  }())
