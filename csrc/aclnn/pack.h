// Arguments of an operator as a row of words, and back.
//
// Note [Packed calls]: the serialised arguments are at once the key of the executor cache, the payload of the task
// queue and the source from which descriptors are built on a cache miss. They hold addresses and metadata, never an
// at::Tensor: memory is returned to the caching allocator in stream order, so an address stays valid until the launch
// has run.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/MaybeOwned.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include "aclnn.h"
#include "aclnn/dtype.h"

namespace npu::ops {

// A tensor in a private format: where its description and its address stand. See runtime/storage_format.h.
struct FormattedArgument {
  size_t word, address;
  at::Tensor tensor;
};

class Packer {
 public:
  void add(const at::Tensor& t);
  void add(const c10::MaybeOwned<at::Tensor>& t) { add(*t); }
  void add(const std::optional<at::Tensor>& t) { t.has_value() ? add(*t) : add_null(); }
  void add(const at::OptionalTensorRef& t) { t.has_value() ? add(*t) : add_null(); }
  void add_null() { words.push_back(0); }
  void add_list(at::ITensorListRef list);
  void add_list(c10::ArrayRef<std::optional<at::Tensor>> list);
  void add_list(const c10::List<std::optional<at::Tensor>>& list);
  void add_list(at::IOptTensorListRef list);
  void add(const c10::Scalar& s);
  void add(c10::ArrayRef<c10::Scalar> scalars);
  void add(c10::IntArrayRef ints);
  void add_bools(c10::ArrayRef<bool> bools);
  void add(std::string_view text);
  void add_word(uint64_t w) { words.push_back(w); }
  // Says of the tensor at `word` that its memory is in a private format.
  void describe(size_t word, aclFormat format, c10::IntArrayRef stored);
  void rename(const void* op);  // makes this a call of another operator

  c10::SmallVector<uint64_t, 128> words;
  c10::SmallVector<void*, 12> addresses;
  c10::DeviceIndex device = -1;                               // of the first tensor
  std::unique_ptr<std::vector<FormattedArgument>> formatted;  // null for nearly every call

 private:
  void note_format(const at::Tensor& t, size_t word);
};

// Rebuilds C arguments from packed words; owns the ACL objects it creates.
class Unpacker {
 public:
  Unpacker(const uint64_t* words, void* const* addresses) : word_(words), address_(addresses) {}
  // Makes no tensors, but lists where they begin.
  Unpacker(const uint64_t* words, std::vector<const uint64_t*>* starts) : word_(words), starts_(starts) {}
  ~Unpacker();
  template <class C>
  C take();
  // Shapes of the last `count` tensors taken, as the device left them.
  std::vector<std::vector<int64_t>> view_shapes(int count) const;

 private:
  const aclTensor* tensor();
  const uint64_t* word_;
  void* const* address_ = nullptr;
  std::vector<const uint64_t*>* starts_ = nullptr;
  c10::SmallVector<std::pair<const void*, int (*)(const void*)>, 12> owned_;
};

// Conversion of one C++ argument to the words of the C type that abi/aclnn.yaml asks for.
template <class C, class A>
void pack(Packer& p, const A& a) {
  if constexpr (std::is_same_v<A, std::nullopt_t> || std::is_same_v<A, std::nullptr_t>) {
    static_assert(std::is_pointer_v<C>, "only objects may be absent");
    p.add_null();
  } else if constexpr (std::is_same_v<C, const aclTensor*>) {
    p.add(a);
  } else if constexpr (std::is_same_v<C, const aclTensorList*>) {
    if constexpr (std::is_same_v<A, std::optional<at::TensorList>>) {
      a.has_value() ? p.add_list(*a) : p.add_null();
    } else {
      p.add_list(a);
    }
  } else if constexpr (std::is_same_v<C, const aclScalar*>) {
    if constexpr (std::is_same_v<A, std::optional<c10::Scalar>>) {
      a.has_value() ? p.add(*a) : p.add_null();
    } else {
      p.add(c10::Scalar(a));
    }
  } else if constexpr (std::is_same_v<C, const aclScalarList*>) {
    p.add(c10::ArrayRef<c10::Scalar>(a));
  } else if constexpr (std::is_same_v<C, const aclIntArray*>) {
    if constexpr (std::is_same_v<A, at::OptionalIntArrayRef> || std::is_same_v<A, std::optional<c10::IntArrayRef>>) {
      a.has_value() ? p.add(*a) : p.add_null();
    } else {
      p.add(c10::IntArrayRef(a));
    }
  } else if constexpr (std::is_same_v<C, const aclBoolArray*>) {
    if constexpr (std::is_same_v<A, std::optional<std::array<bool, 2>>>) {
      a.has_value() ? p.add_bools(*a) : p.add_null();
    } else {
      p.add_bools(a);
    }
  } else if constexpr (std::is_same_v<C, const char*>) {
    p.add(std::string_view(a));
  } else if constexpr (std::is_same_v<C, aclDataType>) {
    p.add_word(static_cast<uint64_t>(acl_type(a)));
  } else if constexpr (std::is_floating_point_v<C>) {
    static_assert(std::is_arithmetic_v<A>);
    p.add_word(std::bit_cast<uint64_t>(static_cast<double>(a)));
  } else {
    static_assert(std::is_integral_v<C> && std::is_integral_v<A>, "argument type differs from abi/aclnn.yaml");
    p.add_word(static_cast<uint64_t>(a));
  }
}

}  // namespace npu::ops
