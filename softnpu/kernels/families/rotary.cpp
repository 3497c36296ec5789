#include "kernels/families/rotary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"
#include "kernels/engine/simd.h"

namespace softnpu::kernels {

namespace {

enum Mode { half, interleave, quarter, interleave_half };

// Two numbers of a row, turned; Wide is the type of the computation.
template <class T, class Wide>
SOFTNPU_INLINE void turn_pair(T& first, T& second, Wide a, Wide b, Wide cos1, Wide sin1, Wide cos2, Wide sin2) {
  simd::store(first, a * cos1 - b * sin1);
  simd::store(second, b * cos2 + a * sin2);
}

// One row of n numbers.
template <class T, class Wide>
SOFTNPU_INLINE void turn_half(T* out, const T* x, const Wide* cos, const Wide* sin, int64_t n) {
  const int64_t h = n / 2;
  for (int64_t i = 0; i < h; i++)
    turn_pair(out[i], out[i + h], simd::load(x[i]), simd::load(x[i + h]), cos[i], sin[i], cos[i + h], sin[i + h]);
}

template <class T, class Wide>
SOFTNPU_INLINE void turn_row(int64_t mode, T* out, const T* x, const Wide* cos, const Wide* sin, int64_t n) {
  const int64_t h = n / 2;
  if (mode == half) {
    turn_half(out, x, cos, sin, n);
  } else if (mode == quarter) {
    turn_half(out, x, cos, sin, h);
    turn_half(out + h, x + h, cos + h, sin + h, h);
  } else if (mode == interleave) {
    for (int64_t i = 0; i < n; i += 2)
      turn_pair(out[i], out[i + 1], simd::load(x[i]), simd::load(x[i + 1]), cos[i], sin[i], cos[i + 1], sin[i + 1]);
  } else {
    for (int64_t i = 0; i < h; i++)
      turn_pair(out[i], out[i + h], simd::load(x[2 * i]), simd::load(x[2 * i + 1]), cos[i], sin[i], cos[i + h],
                sin[i + h]);
  }
}

// Where each row of `t` begins; its rows are dense.
struct Rows {
  IntArrayRef sizes, strides;

  SOFTNPU_INLINE int64_t at(int64_t row) const {
    int64_t offset = 0;
    for (int64_t dim = static_cast<int64_t>(sizes.size()) - 2; dim >= 0; dim--) {
      offset += row % sizes[dim] * strides[dim];
      row /= sizes[dim];
    }
    return offset;
  }
};

Tensor dense_rows(const Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }

template <class T, class Wide>
void turn(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const Rows to{out.sizes(), out.strides()}, from{x.sizes(), x.strides()}, c{cos.sizes(), cos.strides()},
      s{sin.sizes(), sin.strides()};
  T* out_data = out.mutable_data_ptr<T>();
  const T* x_data = x.const_data_ptr<T>();
  const Wide *cos_data = cos.const_data_ptr<Wide>(), *sin_data = sin.const_data_ptr<Wide>();
  at::parallel_for(0, rows, std::max<int64_t>(1, 32768 / n), [&](int64_t begin, int64_t end) {
    simd::run([&]() __attribute__((always_inline)) {
      for (int64_t row = begin; row < end; row++)
        turn_row(mode, out_data + to.at(row), x_data + from.at(row), cos_data + c.at(row), sin_data + s.at(row), n);
    });
  });
}

Tensor rotated(const Tensor& x, int64_t mode) {
  if (mode == interleave) {
    const auto pairs = x.unflatten(-1, {-1, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  }
  const auto parts = x.unflatten(-1, {mode == quarter ? 2 : 1, 2, -1});
  return at::stack({-parts.select(-2, 1), parts.select(-2, 0)}, -2).flatten(-3);
}

// Numbers side by side into two halves, and back.
Tensor apart(const Tensor& x) { return x.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2); }
Tensor together(const Tensor& x) { return x.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2); }

}  // namespace

int64_t rotary_mode(std::string_view name) {
  static constexpr std::string_view kNames[] = {"half", "interleave", "quarter", "interleave-half"};
  const auto* found = std::find(std::begin(kNames), std::end(kNames), name);
  TORCH_CHECK(found != std::end(kNames), "rotary_mode is ", name,
              ", expected half, interleave, quarter or interleave-half");
  return found - std::begin(kNames);
}

void rotary(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  if (x.numel() == 0) return;
  const auto type = x.scalar_type();
  const auto table = [&](const Tensor& t) {
    return dense_rows(t.to(type == at::kDouble ? at::kDouble : at::kFloat)).expand(x.sizes());
  };
  const auto c = table(cos), s = table(sin);
  const bool direct = out.stride(-1) == 1 && out.scalar_type() == type;
  // A row is written while it is read: in place this is right for the modes that keep numbers where they are.
  const auto from = mode == interleave_half && out.is_alias_of(x) ? x.contiguous().clone() : dense_rows(x);
  auto to = direct ? out : at::empty(x.sizes(), x.options());
  switch (type) {
    case at::kFloat:
      turn<float, float>(to, from, c, s, mode);
      break;
    case at::kHalf:
      turn<at::Half, float>(to, from, c, s, mode);
      break;
    case at::kBFloat16:
      turn<at::BFloat16, float>(to, from, c, s, mode);
      break;
    case at::kDouble:
      turn<double, double>(to, from, c, s, mode);
      break;
    default:
      TORCH_CHECK(false, "rotary position embedding of ", type, " is not implemented");
  }
  if (!direct) out.copy_(to);
}

void rotary_by_matrix(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& matrix) {
  const auto w = wide(x);
  out.copy_(w * wide(cos) + at::matmul(w, matrix.to(w.scalar_type())) * wide(sin));
}

void rotary_backward(Tensor& dx, Tensor& dcos, Tensor& dsin, const Tensor& grad, const Tensor& cos, const Tensor& sin,
                     const Optional& x, int64_t mode) {
  const auto g = wide(grad), c = wide(cos), s = wide(sin);
  const int64_t turned = mode == interleave_half ? int64_t{half} : mode;
  const auto back = g * c - rotated(g * s, turned);  // the transpose of a rotation by 90 degrees is its negative
  dx.copy_(mode == interleave_half ? together(back) : back);
  if (!x) return;
  const auto w = mode == interleave_half ? apart(wide(*x)) : wide(*x);
  dcos.copy_(at::sum_to(g * w, cos.sizes()));
  dsin.copy_(at::sum_to(g * rotated(w, turned), sin.sizes()));
}

void rotary_from_cache(Tensor& query_out, Tensor& key_out, const Tensor& positions, const Tensor& query,
                       const Tensor& key, const Tensor& cache, IntArrayRef sections, int64_t head_size, bool neox,
                       bool interleaved) {
  const int64_t size = cache.size(1), frequencies = size / 2;
  auto rows = at::index_select(wide(cache), 0, positions.reshape({-1}).to(at::kLong));
  if (positions.dim() == 2) {
    rows = rows.view({3, -1, 2, frequencies});
    auto axis = at::zeros({frequencies}, at::kLong);  // whose position a frequency follows
    auto* axes = axis.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < frequencies; i++)
      axes[i] = interleaved ? (i < sections[1] * 3 ? i % 3 : 0)
                            : (i < sections[0]                 ? 0
                               : i < sections[0] + sections[1] ? 1
                                                               : 2);
    rows = rows.gather(0, axis.expand({1, rows.size(1), 2, frequencies})).squeeze(0);
  } else {
    rows = rows.view({-1, 2, frequencies});
  }
  // Each cosine and sine for the two numbers that it turns.
  const auto twice = [&](int64_t which) {
    const auto one = rows.select(1, which);
    return (neox ? at::cat({one, one}, -1) : at::stack({one, one}, -1).flatten(-2)).unsqueeze(1);
  };
  const auto cos = twice(0), sin = twice(1);
  for (const auto& [out, x] : {std::pair(&query_out, &query), std::pair(&key_out, &key)}) {
    const auto heads = x->unflatten(-1, {x->size(1) / head_size, head_size});
    auto result = heads.contiguous().clone();
    auto part = result.narrow(-1, 0, size);
    rotary(part, heads.narrow(-1, 0, size), cos, sin, neox ? half : interleave);
    out->copy_(result.flatten(-2));
  }
}

namespace require {

void rotary_tables(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode) {
  that(mode >= 0 && mode <= 3, "mode is one of 0 (half), 1 (interleave), 2 (quarter), 3 (interleave-half)");
  that(x.dim() >= 1 && x.size(-1) > 0 && x.size(-1) % (mode == 2 ? 4 : 2) == 0,
       "the rows of x divide into two parts, or four for mode 2");
  for (const auto& t : {cos, sin}) {
    that(t.dim() >= 1 && t.dim() <= x.dim() && t.size(-1) == x.size(-1), "cos and sin have rows as long as those of x");
    for (int64_t dim = -t.dim(); dim < -1; dim++)
      that(t.size(dim) == 1 || t.size(dim) == x.size(dim), "cos and sin broadcast to the shape of x");
  }
}

void rotary_cache(const Tensor& positions, const Tensor& query, const Tensor& key, const Tensor& cache,
                  IntArrayRef sections, int64_t head_size) {
  that(positions.dim() == 1 || (positions.dim() == 2 && positions.size(0) == 3),
       "positions is [tokens] or [3, tokens]");
  that(cache.dim() == 2 && cache.size(1) % 2 == 0 && cache.size(1) > 0 && cache.size(1) <= head_size,
       "cos_sin_cache is [positions, size], with an even size of at most head_size");
  for (const auto& t : {query, key})
    that(t.dim() == 2 && t.size(0) == positions.size(-1) && t.size(1) % head_size == 0,
         "query and key are [tokens, heads * head_size]");
  that(positions.dim() == 1 || (sections.size() == 3 && sections[0] >= 0 && sections[1] >= 0 && sections[2] >= 0),
       "mrope_section has three lengths");
}

}  // namespace require

}  // namespace softnpu::kernels
