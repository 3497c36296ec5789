#include "kernels/engine/bounds.h"

#include <ATen/ops/aminmax.h>
#include <c10/util/accumulate.h>

#include <cstdlib>
#include <sstream>

#include "acl_types.h"
#include "runtime/error.h"

namespace softnpu::kernels::bounds {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure(ACL_ERROR_RT_AICORE_EXCEPTION, text.str());
}

template <class Visit>
void for_rows(const Optional& t, Visit&& visit) {
  if (!t || t->numel() == 0) return;
  const auto numbers = t->to(at::kLong).contiguous();  // as the kernels read them
  const int64_t length = numbers.dim() ? numbers.size(-1) : 1;
  const auto* const values = numbers.const_data_ptr<int64_t>();
  for (int64_t row = 0; row < numbers.numel(); row += length) visit(IntArrayRef(values + row, length));
}

}  // namespace

void within(const Optional& t, const char* name, int64_t least, int64_t most) {
  if (!t || !t->defined() || t->numel() == 0) return;
  const auto [low, high] = at::aminmax(t->to(at::kLong));
  for (const int64_t value : {low.item<int64_t>(), high.item<int64_t>()})
    if (value < least || value > most)
      refuse("argument '", name, "' has the number ", value, ", expected ", least, " to ", most);
}

void places(const Tensor& t, const char* name, const Tensor& image, int64_t dims, bool or_none) {
  TORCH_CHECK(image.dim() >= dims, "an image has ", image.dim(), " dimensions, expected at least ", dims);
  within(t, name, or_none ? -1 : 0, c10::multiply_integers(image.sizes().slice(image.dim() - dims)) - 1);
}

void ascending(const Optional& t, const char* name, int64_t most) {
  within(t, name, 0, most);
  for_rows(t, [&](IntArrayRef row) {
    for (size_t i = 1; i < row.size(); i++)
      if (row[i] < row[i - 1])
        refuse("argument '", name, "' has ", row[i], " behind ", row[i - 1], ", expected numbers that never fall");
  });
}

void lengths_within(const Optional& t, const char* name, int64_t most) {
  within(t, name, 0, most);
  for_rows(t, [&](IntArrayRef row) {
    int64_t left = most;
    for (const int64_t length : row)
      if ((left -= length) < 0) refuse("argument '", name, "' adds up to more than ", most);
  });
}

void symmetric_pivots(const Tensor& t, const char* name, int64_t rows) {
  within(t, name, -rows, rows);
  for_rows(t, [&](IntArrayRef row) {
    for (size_t i = 0; i < row.size(); i++) {
      if (row[i] == 0) refuse("argument '", name, "' has a 0, expected numbers from 1 or from -1");
      if (row[i] > 0) continue;
      if (i + 1 == row.size() || row[i + 1] >= 0)
        refuse("argument '", name, "' has a single ", row[i], ", expected negative numbers in pairs");
      i++;
    }
  });
}

void degrees(const Tensor& t, const char* name) {
  constexpr double kMost = 1 << 20;
  if (t.numel() == 0) return;
  const double most = std::get<1>(at::aminmax(t)).item<double>();
  if (most > kMost) refuse("argument '", name, "' has the degree ", most, ", expected at most ", kMost);
}

void labels(const Tensor& targets, IntArrayRef lengths, int64_t classes) {
  if (targets.dim() == 1) return within(targets.slice(0, 0, c10::sum_integers(lengths)), "targets", 0, classes - 1);
  for (size_t i = 0; i < lengths.size(); i++)
    within(targets[static_cast<int64_t>(i)].slice(0, 0, lengths[i]), "targets", 0, classes - 1);
}

}  // namespace softnpu::kernels::bounds
