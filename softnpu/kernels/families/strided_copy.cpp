#include "kernels/families/strided_copy.h"

#include <ATen/Parallel.h>

#include <cstring>
#include <utility>

namespace softnpu::kernels {

namespace {

constexpr int64_t kLine = 64;        // bytes of a cache line, the edge of a block
constexpr int64_t kLeast = 1024;     // elements of a copy that is worth the thought
constexpr int64_t kGrain = 1 << 15;  // elements per thread, as ATen has it

struct Plan {
  // Dimensions with the smallest strides: of the target, which is 1, and of the source.
  int64_t inner_to = -1, inner_from = -1;
  c10::SmallVector<int64_t, 6> outer;  // the others
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
    if (from.stride(d) > 0 && (plan.inner_from < 0 || from.stride(d) < from.stride(plan.inner_from)))
      plan.inner_from = d;
  }
  if (plan.inner_to < 0 || plan.inner_from < 0 || plan.inner_to == plan.inner_from) return false;
  if (from.stride(plan.inner_to) == 0) return false;  // what is repeated is written in order
  const int64_t least = std::min<int64_t>(8, 16 / to.element_size());
  if (to.size(plan.inner_to) < least || to.size(plan.inner_from) < least) return false;
  for (int64_t d = 0; d < to.dim(); d++)
    if (d != plan.inner_to && d != plan.inner_from && to.size(d) != 1) plan.outer.push_back(d);
  return disjoint(to, from);
}

// A matrix of the source: element (r, c) is at r * row + c * column, and goes to c * step + r in the target.
struct Steps {
  int64_t to, row, column;
};

// Lines whose distance is a multiple of the way size of a cache drive each other out of it.
template <class T>
bool drive_each_other_out(int64_t step) {
  return step * static_cast<int64_t>(sizeof(T)) % 2048 == 0;
}

// Any part of a block.
template <class T>
inline void turn_block(T* to, const T* from, Steps step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  T block[kEdge * kEdge];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++) block[c * kEdge + r] = from[r * step.row + c * step.column];
  for (int64_t c = 0; c < columns; c++) memcpy(to + c * step.to, block + c * kEdge, rows * sizeof(T));
}

// A square as wide as a register of 16 bytes, in registers.
template <class T>
struct Square {
  static constexpr size_t kEdge = 16 / sizeof(T);
  typedef T Row __attribute__((vector_size(16)));

  // The elements of two rows in turn: of their first halves or of their second ones.
  template <size_t... I>
  static Row zip(Row a, Row b, bool second, std::index_sequence<I...>) {
    return second ? __builtin_shuffle(a, b, Row{static_cast<T>(kEdge / 2 + I / 2 + I % 2 * kEdge)...})
                  : __builtin_shuffle(a, b, Row{static_cast<T>(I / 2 + I % 2 * kEdge)...});
  }

  // Zips the first half of the rows with the second one, as often as halves can be taken.
  template <size_t... I>
  static void turn(T* to, const T* from, Steps step, std::index_sequence<I...> each) {
    Row rows[kEdge];
    (memcpy(&rows[I], from + I * step.row, sizeof(Row)), ...);
    for (size_t n = 1; n < kEdge; n *= 2) {
      const Row next[kEdge] = {zip(rows[I / 2], rows[I / 2 + kEdge / 2], I % 2, each)...};
      ((rows[I] = next[I]), ...);
    }
    (memcpy(to + I * step.to, &rows[I], sizeof(Row)), ...);
  }
};

template <class T>
inline void turn_part(T* to, const T* from, Steps step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = Square<T>::kEdge;
  constexpr auto each = std::make_index_sequence<kEdge>{};
  if (step.column != 1 || rows % kEdge || columns % kEdge) return turn_block(to, from, step, rows, columns);
  const auto square = [&](int64_t r, int64_t c) {
    Square<T>::turn(to + c * step.to + r, from + r * step.row + c, step, each);
  };
  if (drive_each_other_out<T>(step.to))  // a line is written whole before the next
    for (int64_t c = 0; c < columns; c += kEdge)
      for (int64_t r = 0; r < rows; r += kEdge) square(r, c);
  else
    for (int64_t r = 0; r < rows; r += kEdge)
      for (int64_t c = 0; c < columns; c += kEdge) square(r, c);
}

// `rows` rows, at most a block's edge, of any width.
template <class T>
void turn_rows(T* to, const T* from, Steps step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  for (int64_t c = 0; c < columns; c += kEdge)
    turn_part(to + c * step.to, from + c * step.column, step, rows, std::min(kEdge, columns - c));
}

// Rows that drive each other out of the cache are packed first, one by one.
template <class T>
void pack_and_turn_rows(T* to, const T* from, Steps step, int64_t rows, int64_t columns) {
  constexpr int64_t kEdge = kLine / sizeof(T), kWide = 1024 / sizeof(T), kPitch = kWide + kEdge;
  T packed[kEdge * kPitch];
  for (int64_t c = 0; c < columns; c += kWide) {
    const int64_t width = std::min(kWide, columns - c);
    for (int64_t r = 0; r < rows; r++) memcpy(packed + r * kPitch, from + r * step.row + c, width * sizeof(T));
    turn_rows(to + c * step.to, packed, {step.to, kPitch, 1}, rows, width);
  }
}

// Goes along the rows of the source, so that it is read in order; the target is written in whole cache lines. If these
// would drive each other out of the cache, a strip of the source that is a cache line wide comes before the next one.
template <class T>
void turn(at::Tensor& to, const at::Tensor& from, const Plan& plan) {
  constexpr int64_t kEdge = kLine / sizeof(T);
  auto* target = static_cast<T*>(to.mutable_data_ptr());
  auto* source = static_cast<const T*>(from.const_data_ptr());
  const int64_t rows = to.size(plan.inner_to), columns = to.size(plan.inner_from);
  const Steps step{to.stride(plan.inner_from), from.stride(plan.inner_to), from.stride(plan.inner_from)};
  const int64_t width = drive_each_other_out<T>(step.to) ? std::min(kEdge, columns) : columns;
  const bool pack = step.column == 1 && width == columns && drive_each_other_out<T>(step.row);
  const int64_t strips = (columns + width - 1) / width, bands = (rows + kEdge - 1) / kEdge;
  const int64_t matrices = to.numel() / (rows * columns);
  at::parallel_for(0, strips * matrices * bands, std::max<int64_t>(1, kGrain / (width * kEdge)),
                   [&](int64_t first, int64_t last) {
                     for (int64_t i = first; i < last; i++) {
                       const int64_t r = i % bands * kEdge, c = i / bands / matrices * width;
                       int64_t matrix = i / bands % matrices;
                       T* t = target + r + c * step.to;
                       const T* f = source + r * step.row + c * step.column;
                       for (auto d = plan.outer.rbegin(); d != plan.outer.rend(); ++d) {
                         const int64_t at = matrix % to.size(*d);
                         matrix /= to.size(*d);
                         t += at * to.stride(*d);
                         f += at * from.stride(*d);
                       }
                       (pack ? pack_and_turn_rows<T> : turn_rows<T>)(t, f, step, std::min(kEdge, rows - r),
                                                                     std::min(width, columns - c));
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
    case 1:
      return turn<uint8_t>(to, from, plan);
    case 2:
      return turn<uint16_t>(to, from, plan);
    case 4:
      return turn<uint32_t>(to, from, plan);
    case 8:
      return turn<uint64_t>(to, from, plan);
    default:
      to.copy_(from);
  }
}

}  // namespace softnpu::kernels
