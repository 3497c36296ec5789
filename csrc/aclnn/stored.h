// Tensors of bytes that stand for numbers of another type: float4 in pairs, hifloat8, and the scales of MX blocks. A
// row writes Stored{tensor, ACL_...} for such an argument, and TypeNumber{ACL_...} for a type that torch may lack.
#pragma once

#include <optional>
#include <vector>

#include "aclnn/pack.h"

namespace npu::ops {

struct Stored {
  at::Tensor tensor;
  aclDataType type;
};
// All tensors of a list; as their own types without one.
struct StoredList {
  std::vector<at::Tensor> tensors;
  std::optional<aclDataType> type;
  bool is_absent = false;
};
struct TypeNumber {
  aclDataType type;
};

inline bool in_pairs(aclDataType type) { return type == ACL_FLOAT4_E2M1 || type == ACL_FLOAT4_E1M2; }

void add_stored(Packer& packer, const at::Tensor& t, aclDataType type);

template <class C>
void pack(Packer& p, const Stored& s) {
  static_assert(std::is_same_v<C, const aclTensor*>, "argument type differs from abi/aclnn.yaml");
  add_stored(p, s.tensor, s.type);
}

void add_stored(Packer& packer, const StoredList& list);

template <class C>
void pack(Packer& p, const StoredList& list) {
  static_assert(std::is_same_v<C, const aclTensorList*>, "argument type differs from abi/aclnn.yaml");
  add_stored(p, list);
}

template <class C>
void pack(Packer& p, const TypeNumber& t) {
  static_assert(std::is_same_v<C, aclDataType> || std::is_integral_v<C>, "argument type differs from abi/aclnn.yaml");
  p.add_word(static_cast<uint64_t>(t.type));
}

}  // namespace npu::ops
