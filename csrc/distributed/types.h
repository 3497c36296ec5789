// Tensors, reductions and their numbers in HCCL.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <vector>

#include "hccl.h"

namespace npu::distributed {

// A type as HCCL transports it, and how many of them an element is.
struct Format {
  HcclDataType type;
  uint64_t per_element = 1;
};

// For operations that only move data: any type, by its size where HCCL has no number for it.
Format moving(at::ScalarType type);
// For reductions: throws for types without arithmetic in HCCL. Complex numbers are pairs, and can only be summed; bool
// and uint8 are reduced as int32, so that scaled_input() makes other memory of them, and the result needs room.
Format reducing(at::ScalarType type, const c10d::ReduceOp& op);
bool is_byte(at::ScalarType type);  // bool or uint8
// AVG and PREMUL_SUM are sums here, their scaling is done around them; a sum of booleans is "or". Throws for bitwise
// ones.
HcclReduceOp reduction(const c10d::ReduceOp& op, at::ScalarType type);

// Around a reduction, on the current stream. PREMUL_SUM multiplies what goes in. AVG divides what comes out; float16,
// whose sums are soon infinite, is divided on the way in.
at::Tensor scaled_input(const at::Tensor& input, const c10d::ReduceOp& op, int ranks);
void scale_output(at::Tensor& output, const c10d::ReduceOp& op, int ranks);

c10::DeviceIndex checked_device(int64_t index);  // throws for one that there is not

// One dense npu tensor, as c10d hands it over; throws in upstream's words.
const at::Tensor& single(const std::vector<at::Tensor>& tensors);
void check_tensor(const at::Tensor& tensor);
void check_pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs);  // as many of each
// All of one type, on one device.
void check_alike(const std::vector<at::Tensor>& tensors, const at::Tensor& other);

void check_root(int64_t root, int ranks);
// The tensors of a gather or scatter: one for each rank on the root, none elsewhere.
std::vector<at::Tensor> of_root(const std::vector<std::vector<at::Tensor>>& lists, int64_t root, int rank, int ranks);

// How many elements are transported: of a tensor; for each of some; for each rank's rows of the first dimension (no
// splits: equal shares).
uint64_t count(const at::Tensor& tensor, const Format& format);
uint64_t bytes_of(const std::vector<at::Tensor>& tensors);
std::vector<uint64_t> counts_of(const std::vector<at::Tensor>& tensors, const Format& format);
std::vector<uint64_t> counts_of(const at::Tensor& tensor, const std::vector<int64_t>& splits, int ranks,
                                const Format& format);

// Lists travel as one row of their elements' order, so that the ranks' memory formats may differ.
at::Tensor flat(const std::vector<at::Tensor>& tensors);  // a copy, end to end
void copy_from_flat(const at::Tensor& source, std::vector<at::Tensor>& tensors);
at::Tensor room_for(const at::Tensor& output);  // for one of them: the output itself unless its format is another
at::Tensor room_for_reduction(const at::Tensor& output);  // the same, and unless its type is another in HCCL
void take_from_room(const at::Tensor& room, at::Tensor& output);

}  // namespace npu::distributed
