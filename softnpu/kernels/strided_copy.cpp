#include "strided_copy.h"

#include <ATen/Parallel.h>

#include <cstring>

namespace softnpu::kernels {

namespace {

constexpr int64_t kLine = 64;        // bytes of a cache line, the edge of a block
constexpr int64_t kLeast = 1024;     // elements of a copy that is worth the thought
constexpr int64_t kGrain = 1 << 15;  // elements per thread, as ATen has it

struct Plan {
  int64_t inner_to = -1, inner_from = -1;  // dimensions that are contiguous in the target and in the source
  c10::SmallVector<int64_t, 6> outer;      // the others
};

const char* end_of(const at::Tensor& t) {
  int64_t last = 0;
  for (int64_t d = 0; d < t.dim(); d++) last += (t.size(d) - 1) * t.stride(d);
  return static_cast<const char*>(t.const_data_ptr()) + (last + 1) * t.element_size();
}

bool disjoint(const at::Tensor& a, const at::Tensor& b) {
  return end_of(a) <= b.const_data_ptr() || end_of(b) <= a.const_data_ptr();
}

// False: ATen's loop does as well, or the memory overlaps.
bool plan_turn(const at::Tensor& to, const at::Tensor& from, Plan& plan) {
  if (to.scalar_type() != from.scalar_type() || to.numel() < kLeast || to.sizes() != from.sizes()) return false;
  for (int64_t d = 0; d < to.dim(); d++) {
    if (to.size(d) == 1) continue;
    if (to.stride(d) == 1) plan.inner_to = d;
    if (from.stride(d) == 1) plan.inner_from = d;
  }
  if (plan.inner_to < 0 || plan.inner_from < 0 || plan.inner_to == plan.inner_from) return false;
  if (to.size(plan.inner_to) < 8 || to.size(plan.inner_from) < 8) return false;
  for (int64_t d = 0; d < to.dim(); d++)
    if (d != plan.inner_to && d != plan.inner_from && to.size(d) != 1) plan.outer.push_back(d);
  return disjoint(to, from);
}

// Rows of the source (`from_step` apart) become columns of the target.
template <class T>
inline void turn_block(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  T block[kEdge * kEdge];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) block[c * kEdge + r] = from[r * from_step + c];
  for (int64_t c = 0; c < columns; c++) memcpy(to + c * to_step, block + c * kEdge, rows * sizeof(T));
}

using Four = uint32_t __attribute__((vector_size(16)));

inline Four load(const uint32_t* p) {
  Four v;
  memcpy(&v, p, sizeof(v));
  return v;
}

// A whole block of the commonest size in registers, four by four.
inline void turn_block(uint32_t* to, int64_t to_step, const uint32_t* from, int64_t from_step) {
  for (int64_t r = 0; r < 16; r += 4)
    for (int64_t c = 0; c < 16; c += 4) {
      const uint32_t* f = from + r * from_step + c;
      const Four a = load(f), b = load(f + from_step), d = load(f + 2 * from_step), e = load(f + 3 * from_step);
      const Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), de = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const Four AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), DE = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      const Four columns[4] = {__builtin_shufflevector(ab, de, 0, 1, 4, 5), __builtin_shufflevector(ab, de, 2, 3, 6, 7),
                               __builtin_shufflevector(AB, DE, 0, 1, 4, 5), __builtin_shufflevector(AB, DE, 2, 3, 6, 7)};
      for (int64_t i = 0; i < 4; i++) memcpy(to + (c + i) * to_step + r, &columns[i], sizeof(Four));
    }
}

template <class T>
inline void turn_block(T* to, int64_t to_step, const T* from, int64_t from_step) {
  turn_block(to, to_step, from, from_step, kLine / sizeof(T), kLine / sizeof(T));  // constant bounds, which the compiler uses
}

// `rows` rows, at most a block's edge, of any width.
template <class T>
void turn_rows(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  int64_t c = 0;
  if (rows == kEdge)
    for (; c + kEdge <= columns; c += kEdge) turn_block(to + c * to_step, to_step, from + c, from_step);
  for (; c < columns; c += kEdge) turn_block(to + c * to_step, to_step, from + c, from_step, rows, std::min(kEdge, columns - c));
}

// Rows whose distance is a multiple of the way size of a cache drive each other out of it: they are packed first, one by one.
template <class T>
void pack_and_turn_rows(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T), kWide = 1024 / sizeof(T), kPitch = kWide + kEdge;
  T packed[kEdge * kPitch];
  for (int64_t c = 0; c < columns; c += kWide) {
    const int64_t width = std::min(kWide, columns - c);
    for (int64_t r = 0; r < rows; r++) memcpy(packed + r * kPitch, from + r * from_step + c, width * sizeof(T));
    turn_rows(to + c * to_step, to_step, packed, kPitch, rows, width);
  }
}

// Goes along the rows of the source, so that it is read in order; the target is written in whole cache lines.
template <class T>
void turn(at::Tensor& to, const at::Tensor& from, const Plan& plan) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  auto* target = static_cast<T*>(to.mutable_data_ptr());
  auto* source = static_cast<const T*>(from.const_data_ptr());
  const int64_t rows = to.size(plan.inner_to), columns = to.size(plan.inner_from);
  const int64_t to_step = to.stride(plan.inner_from), from_step = from.stride(plan.inner_to);
  const bool pack = from_step * static_cast<int64_t>(sizeof(T)) % 2048 == 0;
  const int64_t bands = (rows + kEdge - 1) / kEdge;
  const int64_t matrices = to.numel() / (rows * columns);
  at::parallel_for(0, matrices * bands, std::max<int64_t>(1, kGrain / (columns * kEdge)), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
      const int64_t r = i % bands * kEdge;
      int64_t matrix = i / bands;
      T* t = target + r;
      const T* f = source + r * from_step;
      for (auto d = plan.outer.rbegin(); d != plan.outer.rend(); ++d) {
        const int64_t at = matrix % to.size(*d);
        matrix /= to.size(*d);
        t += at * to.stride(*d);
        f += at * from.stride(*d);
      }
      (pack ? pack_and_turn_rows<T> : turn_rows<T>)(t, to_step, f, from_step, std::min(kEdge, rows - r), columns);
    }
  });
}

// An expanded tensor whose copy is the same block again and again.
bool repeats(const at::Tensor& to, const at::Tensor& from) {
  return to.dim() > 1 && to.scalar_type() == from.scalar_type() && to.sizes() == from.sizes() && from.size(0) > 1 &&
         from.stride(0) == 0 && to.is_contiguous() && to.numel() / to.size(0) >= kLeast && disjoint(to, from);
}

void repeat(at::Tensor& to, const at::Tensor& from) {
  auto first = to.select(0, 0);
  strided_copy(first, from.select(0, 0));
  const auto bytes = static_cast<int64_t>(first.nbytes());
  auto* const block = static_cast<char*>(first.mutable_data_ptr());
  at::parallel_for(1, to.size(0), std::max<int64_t>(1, kGrain / first.numel()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) memcpy(block + i * bytes, block, bytes);
  });
}

}  // namespace

void strided_copy(at::Tensor& to, const at::Tensor& from) {
  if (repeats(to, from)) return repeat(to, from);
  Plan plan;
  if (!plan_turn(to, from, plan)) {
    to.copy_(from);
    return;
  }
  switch (to.element_size()) {
    case 1: return turn<uint8_t>(to, from, plan);
    case 2: return turn<uint16_t>(to, from, plan);
    case 4: return turn<uint32_t>(to, from, plan);
    case 8: return turn<uint64_t>(to, from, plan);
    default: to.copy_(from);
  }
}

}  // namespace softnpu::kernels
