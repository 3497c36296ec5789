// Operators that are a kernel and a collective, one after the other on the stream of the call, or a collective between
// two kernels. A table states the collective under `collectives`; it is submitted through HCCL's C functions.
#pragma once

#include <c10/util/FunctionRef.h>

#include "hccl.h"
#include "kernels/engine/plan.h"
#include "runtime/groups.h"

namespace softnpu::kernels {

struct Collective {
  enum class Kind : uint8_t { all_gather, all_reduce, reduce_scatter, all_to_all_v } kind;
  HcclComm communicator;
  const void* send;  // device addresses
  const void* recv;
  uint64_t count;  // of elements, as the C function has it
  HcclDataType type;
  bool behind = false;                               // the kernel makes what is sent
  std::array<std::vector<uint64_t>, 4> tables = {};  // counts and offsets of all_to_all_v: sent, received

  void submit(aclrtStream stream) const;  // throws Failure
};

// For the tables. `group` names a communicator of the tensors' card; the kernel's result is added up, and scattered
// from the workspace. Throw Failure for what does not fit the number of ranks.
Collective all_gather(const std::string& group, const Tensor& send, const Tensor& recv);
Collective all_reduce(const std::string& group, const Tensor& result);
Collective reduce_scatter(const std::string& group, const Call& call, const Tensor& result);
// Rows for the experts of each rank, all of rank 0 first.
Collective all_to_all_v(const std::string& group, at::IntArrayRef send_counts, at::IntArrayRef recv_counts,
                        const Tensor& send, const Tensor& recv);
// The same with the rows that the kernel left in the workspace.
Collective all_to_all_v(const std::string& group, at::IntArrayRef send_counts, at::IntArrayRef recv_counts,
                        const Call& call, const Tensor& recv);
// Of rows of `bytes` each, between two device addresses.
Collective rows_to_all(const Group& group, at::IntArrayRef send_counts, at::IntArrayRef recv_counts, const void* send,
                       const void* recv, int64_t bytes);
// The communicator of that name on the card of some device memory; with `ranks`, one of as many.
Group group_at(const std::string& name, const void* memory);
Group group_at(const std::string& name, const void* memory, int64_t ranks);
// Equal blocks of bytes for each rank: the workspace into `recv`, or its first half into its second half.
Collective all_to_all(const std::string& group, const Call& call, const Tensor& recv, int64_t ranks);
Collective exchange(const std::string& group, const Call& call, int64_t ranks);

// The call's workspace from byte `at` as a tensor of the kernel.
Tensor scratch(const Call& call, at::IntArrayRef sizes, at::ScalarType type, int64_t at = 0);

// Takes the call of `executor` for its launch on `card`; `prepare` may refuse it.
Call* take(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* executor, int card,
           c10::function_ref<void(Call&)> prepare);
// `first` runs before the collective, where there is one, and the kernel behind it.
int launch(const Operator& op, Collective (*collective)(Call&), const Operator* first, void* workspace,
           uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

}  // namespace softnpu::kernels

namespace softnpu::kernels::require {

void product(const Tensor& a, const Tensor& b, int64_t rows, const Tensor& out);  // out is [rows, columns of b]
void dense(const Tensor& t, const char* name);
void sum(const std::string& reduction);
void sent(const Tensor& t, const char* name, at::IntArrayRef counts,
          const char* of);  // as many rows as counts add up to
// Phase one: the kernel needs a result of its own before it is scattered.
void scratch(Call& call, const Tensor& a, const Tensor& b);
void scratch(Call& call, uint64_t bytes);

}  // namespace softnpu::kernels::require
