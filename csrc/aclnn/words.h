// The words of a packed call, see Note [Packed calls] in pack.h. Private to this folder.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>

#include "acl_types.h"

namespace npu::ops {

// Word layouts. 0 stands for an absent object; every other object begins with a non-zero head word.
//   tensor        1 | dtype << 8 | dim << 16, sizes, strides, offset, storage bytes; one in a private format has
//                 format << 32 | count << 48 in its head as well, and then that many sizes of its storage
//   tensor list   2 | count << 8, then each tensor or 0
//   scalar        3 | dtype << 8, 2 words of value
//   scalar list   4 | count << 8, then each scalar
//   int array     5 | count << 8, then the values          bool array    6 | count << 8, then one word each
//   text          7 | bytes << 8, then the bytes, padded with zeros
enum Head : uint64_t { kTensor = 1, kTensorList, kScalar, kScalarList, kInts, kBools, kText };

// A tensor's words, taken apart.
struct TensorWords {
  explicit TensorWords(const uint64_t* word) : present(*word != 0), end(word + 1) {
    if (!present) return;
    const size_t dim = *word >> 16 & 0xffff, blocks = *word >> 48;
    const auto* number = reinterpret_cast<const int64_t*>(end);
    type = static_cast<aclDataType>(*word >> 8 & 0xff);
    format = static_cast<aclFormat>(*word >> 32 & 0xffff);
    sizes = {number, dim};
    strides = {number + dim, dim};
    offset = number[2 * dim];
    storage_bytes = end[2 * dim + 1];
    stored = {number + 2 * dim + 2, blocks};
    end += 2 * dim + 2 + blocks;
  }
  bool present;
  const uint64_t* end;  // the word behind
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  c10::IntArrayRef sizes, strides, stored;  // stored: of its blocks, in a private format
  int64_t offset = 0;
  uint64_t storage_bytes = 0;
};

}  // namespace npu::ops
