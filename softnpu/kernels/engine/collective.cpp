#include "kernels/engine/collective.h"

#include <ATen/ops/from_blob.h>

#include "kernels/engine/require.h"
#include "runtime/address.h"
#include "runtime/error.h"
#include "runtime/groups.h"

namespace softnpu::kernels {

namespace {

HcclDataType type_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return HCCL_DATA_TYPE_FP32;
    case at::kHalf:
      return HCCL_DATA_TYPE_FP16;
    case at::kBFloat16:
      return HCCL_DATA_TYPE_BFP16;
    default:
      fail(ACLNN_ERR_PARAM_INVALID, "a collective of %s is not supported, expected float32, float16 or bfloat16",
           c10::toString(t.scalar_type()));
  }
}

const void* address(const Tensor& t) { return device_address(t.const_data_ptr()); }

Group group_of(const std::string& name, const Tensor& t) { return group_at(name, address(t)); }

}  // namespace

Group group_at(const std::string& name, const void* memory) {
  const int card = card_of(memory);
  const Group group = find_group(name, card);
  if (!group.communicator)
    fail(ACLNN_ERR_PARAM_INVALID, "there is no communicator \"%s\" on card %d", name.c_str(), card);
  return group;
}

Group group_at(const std::string& name, const void* memory, int64_t ranks) {
  const Group group = group_at(name, memory);
  if (static_cast<int64_t>(group.ranks) != ranks)
    fail(ACLNN_ERR_PARAM_INVALID, "the communicator has %u ranks, the arguments say %lld", group.ranks,
         static_cast<long long>(ranks));
  return group;
}

Collective all_gather(const std::string& name, const Tensor& send, const Tensor& recv) {
  const Group group = group_of(name, recv);
  if (static_cast<uint64_t>(recv.numel()) != static_cast<uint64_t>(send.numel()) * group.ranks)
    fail(ACLNN_ERR_PARAM_INVALID, "the gathered tensor has %lld elements, expected %lld of each of %u ranks",
         static_cast<long long>(recv.numel()), static_cast<long long>(send.numel()), group.ranks);
  return {Collective::Kind::all_gather,        group.communicator, address(send), address(recv),
          static_cast<uint64_t>(send.numel()), type_of(send)};
}

Collective all_reduce(const std::string& name, const Tensor& result) {
  const Group group = group_of(name, result);
  return {Collective::Kind::all_reduce,
          group.communicator,
          address(result),
          address(result),
          static_cast<uint64_t>(result.numel()),
          type_of(result),
          true};
}

Collective reduce_scatter(const std::string& name, const Call& call, const Tensor& result) {
  const Group group = group_of(name, result);
  const uint64_t bytes = static_cast<uint64_t>(result.nbytes()) * group.ranks;
  if (bytes > call.workspace_bytes)
    fail(ACLNN_ERR_PARAM_INVALID, "the rows of self do not divide into those of out for each of %u ranks", group.ranks);
  return {Collective::Kind::reduce_scatter,
          group.communicator,
          call.workspace,
          address(result),
          static_cast<uint64_t>(result.numel()),
          type_of(result),
          true};
}

Collective rows_to_all(const Group& group, at::IntArrayRef send_counts, at::IntArrayRef recv_counts, const void* send,
                       const void* recv, int64_t bytes) {
  Collective part{Collective::Kind::all_to_all_v, group.communicator, send, recv, 0, HCCL_DATA_TYPE_INT8};
  const at::IntArrayRef counts[] = {send_counts, recv_counts};
  for (int i = 0; i < 2; ++i) {
    if (counts[i].size() % group.ranks)
      fail(ACLNN_ERR_PARAM_INVALID, "send_counts and recv_counts do not have as many numbers for each of %u ranks",
           group.ranks);
    const size_t experts = counts[i].size() / group.ranks;
    uint64_t offset = 0;
    for (uint32_t rank = 0; rank < group.ranks; ++rank) {
      uint64_t rows = 0;
      for (const int64_t each : counts[i].slice(rank * experts, experts)) rows += each;
      part.tables[2 * i].push_back(rows * bytes);
      part.tables[2 * i + 1].push_back(offset);
      offset += rows * bytes;
    }
  }
  return part;
}

namespace {

Collective blocks_to_all(const Group& group, const void* send, const void* recv, uint64_t bytes) {
  if (bytes % group.ranks)
    fail(ACLNN_ERR_PARAM_INVALID, "what is sent does not divide into equal parts for %u ranks", group.ranks);
  const std::vector<int64_t> each(group.ranks, static_cast<int64_t>(bytes / group.ranks));
  return rows_to_all(group, each, each, send, recv, 1);
}

}  // namespace

Collective all_to_all_v(const std::string& name, at::IntArrayRef send_counts, at::IntArrayRef recv_counts,
                        const Tensor& send, const Tensor& recv) {
  return rows_to_all(group_of(name, recv), send_counts, recv_counts, address(send), address(recv),
                     send.size(1) * send.element_size());
}

Collective all_to_all_v(const std::string& name, at::IntArrayRef send_counts, at::IntArrayRef recv_counts,
                        const Call& call, const Tensor& recv) {
  auto part = rows_to_all(group_of(name, recv), send_counts, recv_counts, call.workspace, address(recv),
                          recv.size(1) * recv.element_size());
  part.behind = true;
  return part;
}

Collective all_to_all(const std::string& name, const Call& call, const Tensor& recv, int64_t ranks) {
  const Group group = group_at(name, address(recv), ranks);
  auto part = blocks_to_all(group, call.workspace, address(recv), recv.nbytes());
  part.behind = true;
  return part;
}

Collective exchange(const std::string& name, const Call& call, int64_t ranks) {
  const Group group = group_at(name, call.workspace, ranks);
  const uint64_t half = call.workspace_bytes / 2;
  return blocks_to_all(group, call.workspace, static_cast<char*>(call.workspace) + half, half);
}

void Collective::submit(aclrtStream stream) const {
  void *from = const_cast<void*>(send), *to = const_cast<void*>(recv);
  HcclResult result = HCCL_SUCCESS;
  switch (kind) {
    case Kind::all_gather:
      result = HcclAllGather(from, to, count, type, communicator, stream);
      break;
    case Kind::all_reduce:
      result = HcclAllReduce(from, to, count, type, HCCL_REDUCE_SUM, communicator, stream);
      break;
    case Kind::reduce_scatter:
      result = HcclReduceScatter(from, to, count, type, HCCL_REDUCE_SUM, communicator, stream);
      break;
    case Kind::all_to_all_v:
      result = HcclAlltoAllV(from, tables[0].data(), tables[1].data(), type, to, tables[2].data(), tables[3].data(),
                             type, communicator, stream);
      break;
  }
  if (result == HCCL_SUCCESS) return;
  const char* words = take_message();
  fail(ACLNN_ERR_INNER, "the collective was refused: %s", words ? words : "unknown");
}

Tensor scratch(const Call& call, at::IntArrayRef sizes, at::ScalarType type, int64_t at) {
  return at::from_blob(static_cast<char*>(kernel_address(call.workspace)) + at, sizes, at::TensorOptions(type));
}

namespace require {

void sent(const Tensor& t, const char* name, at::IntArrayRef counts, const char* of) {
  rank(t, name, 2, 2);
  dense(t, name);
  int64_t rows = 0;
  for (const int64_t each : counts) {
    TORCH_CHECK(each >= 0 && each <= t.size(0), of, " has ", each, ", expected 0 to ", t.size(0));
    rows += each;
  }
  TORCH_CHECK(rows == t.size(0), of, " add up to ", rows, ", ", name, " has ", t.size(0), " rows");
}

void product(const Tensor& a, const Tensor& b, int64_t rows, const Tensor& out) {
  rank(b, "x2", 2, 2);
  rank(a, "x1", 2, 3);
  one_type({a, b, out});
  TORCH_CHECK(a.size(-1) == b.size(0), "x1 has ", a.size(-1), " columns, x2 ", b.size(0), " rows");
  numbers(out, "out", rows * b.size(1));
  dense(out, "out");
}

void dense(const Tensor& t, const char* name) { TORCH_CHECK(t.is_contiguous(), name, " is not contiguous"); }

void sum(const std::string& reduction) {
  TORCH_CHECK(reduction == "sum", "reduce_op is ", reduction, ", expected sum");
}

void scratch(Call& call, const Tensor& a, const Tensor& b) {
  call.workspace_bytes = static_cast<uint64_t>(a.size(0) * b.size(1)) * a.element_size();
}

void scratch(Call& call, uint64_t bytes) { call.workspace_bytes = bytes; }

}  // namespace require

}  // namespace softnpu::kernels
