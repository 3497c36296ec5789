// Rules that tables use to state the outputs of non-structured operators: each gives shape and type, nothing is
// computed.
#pragma once

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/TypeProperties.h>

#include "aclnn/op.h"
#include "ops/checks/common.h"
#include "ops/tensor.h"

namespace npu::ops {

using Sizes = c10::SmallVector<int64_t, 6>;

struct Spec {
  Sizes sizes;
  at::ScalarType dtype;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  Sizes strides = {};  // instead of the format
};

inline Tensor make(const Spec& s) {
  return s.strides.empty() ? empty(s.sizes, s.dtype, s.format) : empty_strided(s.sizes, s.strides, s.dtype);
}

// An out= tensor that receives an operator's output: resized with upstream's warning; a stand-in is used, and copied
// back by finish(), when its type or strides are not what the operator writes, or when it is part of one of the
// `inputs`. One that is an input keeps its shape, and may not overlap an input of the same shape in part.
class Target {
 public:
  enum class Type : uint8_t { cast, exact };  // whether the result may be cast to the type of `out`
  Target(const Tensor& out, const Spec& spec, std::initializer_list<const Tensor*> inputs = {}, Type type = Type::cast);
  const Tensor& tensor() const { return stand_in_.defined() ? stand_in_ : out_; }
  void finish() const {
    if (stand_in_.defined()) out_.copy_(stand_in_);
  }

 private:
  const Tensor& out_;
  Tensor stand_in_;
};

inline Spec sized(at::IntArrayRef sizes, at::ScalarType dtype) { return {Sizes(sizes.begin(), sizes.end()), dtype}; }
inline Spec sized(at::IntArrayRef sizes, const Tensor& t) { return sized(sizes, t.scalar_type()); }
// Ranges fill an out= tensor of any shape that has the right number of elements.
inline Spec ranged(int64_t elements, const Tensor& out) {
  return out.numel() == elements ? sized(out.sizes(), out) : sized({elements}, out);
}
inline Spec identity(int64_t n, int64_t m, const Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  return sized({n, m}, out);
}
inline Spec like(const Tensor& t, at::ScalarType dtype) {
  return {Sizes(t.sizes().begin(), t.sizes().end()), dtype, t.suggest_memory_format()};
}
inline Spec like(const Tensor& t) { return like(t, t.scalar_type()); }

template <class... T>
at::ScalarType promote(const T&... operands) {
  at::native::ResultTypeState state{};
  ((state = at::native::update_result_type_state(operands, state)), ...);
  return at::native::result_type(state);
}

// The operands' shapes broadcast, with the strides that TensorIterator gives a result.
Spec iterated(at::ScalarType dtype, std::initializer_list<const Tensor*> operands);
template <class... T>
Spec elementwise(at::ScalarType dtype, const Tensor& first, const T&... rest) {
  if (C10_UNLIKELY(!(first.is_contiguous() && ... && rest.is_contiguous()))) return iterated(dtype, {&first, &rest...});
  if ((true && ... && (rest.sizes() == first.sizes()))) return sized(first.sizes(), dtype);
  std::vector<int64_t> sizes = first.sizes().vec();
  ((sizes = at::infer_size(sizes, rest.sizes())), ...);
  return sized(sizes, dtype);
}
inline Spec elementwise(const Tensor& t) { return elementwise(t.scalar_type(), t); }

// The shape of `t` with dimension `dim` of another length.
inline Spec with_dim(const Tensor& t, int64_t dim, int64_t length) {
  Spec s = sized(t.sizes(), t);
  if (!s.sizes.empty()) s.sizes[at::maybe_wrap_dim(dim, t.dim())] = length;
  return s;
}

Spec reduced(const Tensor& t, at::OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype);
// The dimensions of a reduction as operators take them: every one by its number, or an empty list, for all of them.
c10::DimVector every_dim(const Tensor& t, at::OptionalIntArrayRef dims = std::nullopt);
inline at::IntArrayRef or_empty(at::OptionalIntArrayRef dims) { return dims.has_value() ? *dims : at::IntArrayRef(); }

inline at::ScalarType real_type(at::ScalarType t) { return c10::toRealValueType(t); }
inline at::ScalarType real_type(const Tensor& t) { return real_type(t.scalar_type()); }
inline at::ScalarType complex_type(const Tensor& t) { return c10::toComplexType(t.scalar_type()); }
// Integers become the default floating type; floating types stay.
inline at::ScalarType float_type(const Tensor& t) {
  return c10::isIntegralType(t.scalar_type(), true) ? c10::typeMetaToScalarType(c10::get_default_dtype())
                                                    : t.scalar_type();
}
// Sums of small integers are kept in int64.
inline at::ScalarType sum_type(const Tensor& t, std::optional<at::ScalarType> asked = std::nullopt) {
  return asked.value_or(c10::isIntegralType(t.scalar_type(), true) ? at::kLong : t.scalar_type());
}
// float16 and bfloat16 -> float32: the type in which statistics are kept.
inline at::ScalarType statistics_type(at::ScalarType t) {
  return t == at::kHalf || t == at::kBFloat16 ? at::kFloat : t;
}

// Shape of a batch of matrices: the batches of `a` and `b` broadcast, then `rows` and `columns`.
Spec batched(const Tensor& a, const Tensor& b, int64_t rows, int64_t columns);
// The batch of `t`, then `tail`: one vector or number for each matrix.
Spec for_each_matrix(const Tensor& t, at::IntArrayRef tail, at::ScalarType dtype);

// Output of a pooling that states its last dimensions.
Spec pooled(const Tensor& t, at::IntArrayRef output_size);
// Output of a pooling window over the last dimensions.
Spec windowed(const Tensor& t, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
              at::IntArrayRef dilation, bool ceil_mode, at::ScalarType dtype);
// `padding` as in torch.nn.functional.pad: pairs, last dimension first.
Spec padded(const Tensor& t, at::IntArrayRef padding);
Spec unfolded(const Tensor& t, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
              at::IntArrayRef stride);
Spec folded(const Tensor& t, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef dilation,
            at::IntArrayRef padding, at::IntArrayRef stride);
// A loss: the shape of its inputs, or one number.
inline Spec loss(int64_t reduction, Spec each) { return reduction == 0 ? each : Spec{{}, each.dtype}; }

inline int64_t largest(at::IntArrayRef values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Real to complex and complex to real transforms: the last of `dims` changes its length.
Spec half_spectrum(const Tensor& t, at::IntArrayRef dims, bool onesided);
Spec real_signal(const Tensor& t, at::IntArrayRef dims, int64_t length);

// Segments of `data` along `axis`, counted by lengths or offsets.
Spec segments(const Tensor& data, const std::optional<Tensor>& lengths, const std::optional<Tensor>& offsets,
              int64_t axis);

// Memory of conjugated and negated views: matrix products meet them, other operators do not.
inline c10::MaybeOwned<Tensor> resolved(const Tensor& t) {
  if (C10_LIKELY(!t.is_conj() && !t.is_neg())) return c10::MaybeOwned<Tensor>::borrowed(t);
  return c10::MaybeOwned<Tensor>::owned(t.resolve_conj().resolve_neg());
}

// The one operator without a rule of its own for efficient zero tensors, which have no memory, is dot.
inline Tensor with_memory(const Tensor& t) { return C10_UNLIKELY(t._is_zerotensor()) ? t.clone() : t; }

inline Tensor transposed(const Tensor& t) { return t.dim() < 2 ? t : t.mT(); }

// A learning rate that is a tensor: on the card it is passed as such, else as a number.
inline std::optional<Tensor> card_rate(const Tensor& lr) {
  return is_npu(lr) ? std::optional<Tensor>(lr) : std::nullopt;
}
inline double host_rate(const Tensor& lr) { return is_npu(lr) ? 0.0 : lr.item<double>(); }

// Whether one launch can take these lists: same lengths, and element by element same card, floating type, shape and
// strides.
bool fast_lists(at::ArrayRef<at::TensorList> lists, at::ArrayRef<c10::Scalar> numbers = {});
inline Tensor empty_as(const Tensor& t) { return empty_strided(t.sizes(), t.strides(), t.scalar_type()); }

// The in-place form of an operator that has none: the result must fit `self`.
Tensor& store(Tensor& self, const Tensor& result);

int32_t div_mode(std::optional<std::string_view> rounding_mode);  // 0 true, 1 trunc, 2 floor
int64_t scatter_mode(std::string_view reduce);                    // 1 sum, 2 product, 3 largest, 4 smallest, 5 mean
int64_t qr_mode(std::string_view mode);                           // 0 reduced, 1 complete, 2 only r
// Absent scales and bounds are passed as a number that stands for "none".
inline double or_zero(std::optional<double> scale) { return scale.value_or(0.0); }
inline double or_minus_one(std::optional<double> scale) { return scale.value_or(-1.0); }
std::vector<c10::Scalar> scalars(std::optional<c10::ArrayRef<double>> values);

}  // namespace npu::ops
