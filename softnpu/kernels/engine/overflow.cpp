#include "kernels/engine/overflow.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "kernels/engine/call.h"
#include "kernels/engine/wide.h"
#include "runtime/float_status.h"

namespace softnpu::kernels {

namespace {

thread_local uint64_t t_selections = 0;  // bit i: output i was noted

// Neither infinity nor NaN has another exponent than all ones.
template <class Bits>
bool finite_bits(const Tensor& t, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(t.const_data_ptr());
  bool found = false;
  for (int64_t i = 0; i < t.numel(); i++) found |= (bits[i] & exponent) == exponent;
  return !found;
}

bool finite(const Tensor& t) {
  if (!t.defined() || t.numel() == 0) return true;
  if (t.is_complex()) return finite(at::view_as_real(t));
  switch (t.scalar_type()) {
    case at::kHalf:
      return finite_bits<uint16_t>(t.contiguous(), 0x7c00);
    case at::kBFloat16:
      return finite_bits<uint16_t>(t.contiguous(), 0x7f80);
    case at::kFloat:
      return finite_bits<uint32_t>(t.contiguous(), 0x7f800000);
    case at::kDouble:
      return finite_bits<uint64_t>(t.contiguous(), 0x7ff0000000000000);
    default:
      return true;  // integers, and eight bits, whose infinities are rounding's
  }
}

struct Finite {
  bool operator()(const Tensor& t) const { return finite(t); }
  bool operator()(const std::vector<Tensor>& list) const {
    return std::all_of(list.begin(), list.end(), [](const Tensor& t) { return finite(t); });
  }
  bool operator()(double number) const { return std::isfinite(number); }
  bool operator()(const Scalar& s) const { return !s.isFloatingPoint() || std::isfinite(s.toDouble()); }
  bool operator()(const std::vector<Scalar>& list) const { return std::all_of(list.begin(), list.end(), *this); }
  template <class T>
  bool operator()(const T&) const {
    return true;
  }
};

bool is_tensor(const Value& v) {
  return std::holds_alternative<Tensor>(v) || std::holds_alternative<std::vector<Tensor>>(v);
}

// Arguments that are read; the memory of a mere output holds anything. An output behind all inputs is a mere one, and
// what is written in front of an input, or without any, is read too, as caches are wherever they stand.
uint64_t inputs_of(const Call& call) {
  const bool has_caches = strstr(call.op.name, "Cache") != nullptr;
  size_t last = 0;
  bool any = false;
  for (size_t i = 0; i < call.values.size(); i++)
    if (is_tensor(call.values[i]) && !(call.op.outputs >> i & 1)) last = i, any = true;
  const bool copy = strcmp(call.op.name, "aclnnInplaceCopy") == 0;  // a mere output in front
  uint64_t inputs = 0;
  for (size_t i = 0; i < call.values.size(); i++) {
    const bool written = call.op.outputs >> i & 1;
    if (!written || has_caches || (!copy && (!any || i < last))) inputs |= uint64_t{1} << i;
  }
  return inputs;
}

bool finite(const Call& call, uint64_t arguments) {
  for (size_t i = 0; i < call.values.size(); i++)
    if ((arguments >> i & 1) && !std::visit(Finite{}, call.values[i])) return false;
  return true;
}

}  // namespace

void note_selection(size_t i) noexcept { t_selections |= uint64_t{1} << i; }

void run_watched(Call& call) {
  const bool may_overflow = finite(call, inputs_of(call));
  t_selections = 0;
  call.op.wide ? run_wide(call) : call.op.run(call);
  if (may_overflow && !finite(call, call.op.outputs & ~t_selections)) report_overflow();
}

}  // namespace softnpu::kernels
