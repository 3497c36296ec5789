#include "kernels/families/rotary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"
#include "kernels/engine/rows.h"

namespace softnpu::kernels {

namespace {

enum Mode { half, interleave, quarter, interleave_half };

Tensor dense_rows(const Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }

// Where the rows of a tensor are: those of the innermost dimension that has several are one step apart.
class Rows {
 public:
  Rows(const Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    for (int64_t dim = 0; dim < x.dim() - 1; dim++) {
      if (x.size(dim) == 1) continue;
      sizes_.push_back(x.size(dim));
      strides_.push_back({out.stride(dim), x.stride(dim), cos.stride(dim), sin.stride(dim)});
    }
    if (sizes_.empty()) sizes_.push_back(1), strides_.push_back({});
  }

  // f(offsets, steps, count) for pieces of the rows from begin to end.
  template <class F>
  void pieces(int64_t begin, int64_t end, const F& f) const {
    while (begin < end) {
      const int64_t count = std::min(sizes_.back() - begin % sizes_.back(), end - begin);
      rows::Steps offset{};
      int64_t rest = begin;
      for (int64_t dim = static_cast<int64_t>(sizes_.size()) - 1; dim >= 0; dim--) {
        const int64_t index = rest % sizes_[dim];
        const auto& step = strides_[dim];
        offset = {offset.out + index * step.out, offset.x + index * step.x, offset.cos + index * step.cos,
                  offset.sin + index * step.sin};
        rest /= sizes_[dim];
      }
      f(offset, strides_.back(), count);
      begin += count;
    }
  }

 private:
  c10::SmallVector<int64_t, 6> sizes_;
  c10::SmallVector<rows::Steps, 6> strides_;
};

template <class T, class Table, class Loop>
void turn(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode, bool backward, Loop loop) {
  const Rows all(out, x, cos, sin);
  T* to = out.mutable_data_ptr<T>();
  const T* from = x.const_data_ptr<T>();
  const Table *c = cos.const_data_ptr<Table>(), *s = sin.const_data_ptr<Table>();
  const int64_t parts = mode == quarter ? 2 : 1, n = x.size(-1) / parts;
  rows::in_parallel(x.numel() / x.size(-1), x.size(-1), [&](int64_t begin, int64_t end) {
    all.pieces(begin, end, [&](const rows::Steps& at, const rows::Steps& steps, int64_t count) {
      for (int64_t i = 0; i < parts * n; i += n)
        loop(to + at.out + i, from + at.x + i, c + at.cos + i, s + at.sin + i, n, mode == interleave, backward, count,
             steps);
    });
  });
}

// x cos + rotated(x) sin, or its gradient, for the three types and the modes that leave numbers in their place.
void turn(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t mode, bool backward) {
  const auto type = x.scalar_type();
  const bool direct = out.stride(-1) == 1 && out.scalar_type() == type;
  const bool same = cos.scalar_type() == type && sin.scalar_type() == type;
  const auto table = [&](const Tensor& t) { return dense_rows(same ? t : t.to(at::kFloat)).expand(x.sizes()); };
  const auto from = dense_rows(x), c = table(cos), s = table(sin);
  auto to = direct ? out : at::empty(x.sizes(), x.options());
  rows::with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if (same)
      turn<T, T>(to, from, c, s, mode, backward, rows::loops<T>().rotate);
    else
      turn<T, float>(to, from, c, s, mode, backward, rows::loops<T>().rotate_wide);
  });
  if (!direct) out.copy_(to);
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
  const auto from = mode == interleave_half ? apart(x) : x;
  const int64_t turned = mode == interleave_half ? int64_t{half} : mode;
  if (x.scalar_type() == at::kDouble)
    out.copy_(from * cos + rotated(from, turned) * sin);
  else
    turn(out, from, cos, sin, turned, false);
}

void rotary_by_matrix(Tensor& out, const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& matrix) {
  const auto w = wide(x);
  out.copy_(w * wide(cos) + at::matmul(w, matrix.to(w.scalar_type())) * wide(sin));
}

void rotary_backward(Tensor& dx, Tensor& dcos, Tensor& dsin, const Tensor& grad, const Tensor& cos, const Tensor& sin,
                     const Optional& x, int64_t mode) {
  if (grad.numel() == 0) {  // of tables that every row shares there is something left
    if (x) dcos.zero_(), dsin.zero_();
    return;
  }
  const int64_t turned = mode == interleave_half ? int64_t{half} : mode;
  if (grad.scalar_type() != at::kDouble && mode != interleave_half) {
    turn(dx, grad, cos, sin, turned, true);
  } else {
    const auto g = wide(grad);
    const auto back = g * wide(cos) - rotated(g * wide(sin), turned);  // the transpose is the negative of the rotation
    dx.copy_(mode == interleave_half ? together(back) : back);
  }
  if (!x) return;
  const auto g = wide(grad), w = mode == interleave_half ? apart(wide(*x)) : wide(*x);
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
