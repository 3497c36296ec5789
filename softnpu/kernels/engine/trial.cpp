#include "kernels/engine/trial.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>
#include <unordered_set>

#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;  // of all tensors of a call that is tried

// Operator and types of one call, as a number.
class Signature {
 public:
  explicit Signature(const Call& call) {
    add(reinterpret_cast<uint64_t>(&call.op));
    for (const Value& value : call.values) std::visit(*this, value);
  }
  void operator()(const Tensor& t) { add(t.defined() ? static_cast<uint64_t>(t.scalar_type()) : 255); }
  void operator()(const std::vector<Tensor>& list) {
    const Tensor* last = nullptr;
    for (const Tensor& t : list) {
      if (!last || t.defined() != last->defined() || (t.defined() && t.scalar_type() != last->scalar_type()))
        (*this)(t);
      last = &t;
    }
  }
  void operator()(const Scalar& s) { add(static_cast<uint64_t>(s.type())); }
  void operator()(ScalarType type) { add(static_cast<uint64_t>(type)); }
  template <class T>
  void operator()(const T&) {
    add(256);
  }
  uint64_t value() const { return value_; }

 private:
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ull, value_ ^= value_ >> 29; }
  uint64_t value_ = 1;
};

// The call's tensors elsewhere: zeros, `whole` where the type has no fraction, and True for masks, which select
// something then. As `type`, if given, those of the first tensor's type and all with a fraction.
class Copy {
 public:
  Copy(std::optional<ScalarType> type, int whole) : type_(type), whole_(whole) {}

  // False: too large, or nothing to compute.
  bool make(const Call& from, Call& to) {
    for (size_t i = 0; i < from.values.size(); i++) {
      const bool output = from.op.outputs >> i & 1;
      to.handles.emplace_back();
      to.values.push_back(from.values[i]);
      if (auto* t = std::get_if<Tensor>(&to.values.back())) replace(*t, output);
      if (auto* list = std::get_if<std::vector<Tensor>>(&to.values.back()))
        for (Tensor& t : *list) replace(t, output);
    }
    return elements_ <= kMostElements && (inputs_ ? input_elements_ > 0 : elements_ > 0);
  }

 private:
  void replace(Tensor& t, bool output) {
    if (!t.defined()) return;
    if (!first_) first_ = t.scalar_type();
    int64_t span = t.numel() ? 1 : 0;
    for (int64_t d = 0; span && d < t.dim(); d++) span += (t.size(d) - 1) * t.stride(d);
    elements_ += span;
    inputs_ += !output;
    input_elements_ += output ? 0 : span;
    if (elements_ > kMostElements) return;
    const bool other = type_ && (t.scalar_type() == *first_ || t.is_floating_point() || t.is_complex());
    const auto type = other ? *type_ : t.scalar_type();
    const int value = type == at::kBool ? 1 : at::isIntegralType(type, false) ? whole_ : 0;
    const auto options = t.options().dtype(type);  // zeros exist in every type, other numbers do not
    t = (value ? at::full({span}, value, options) : at::zeros({span}, options)).as_strided(t.sizes(), t.strides());
  }
  std::optional<ScalarType> type_, first_;
  int whole_;
  int64_t elements_ = 0, input_elements_ = 0;
  int inputs_ = 0;
};

// The caller sees nothing of a trial: no warning, no event in its profile. False: it cannot be tried.
bool compute_elsewhere(const Call& call, std::optional<ScalarType> type = std::nullopt) {
  at::DisableRecordFunctionGuard unrecorded;
  struct Silence : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  for (const int whole : {0, 1}) {
    Call trial(call.op);
    if (!Copy(type, whole).make(call, trial)) return false;
    try {
      trial.compute();
      break;
    } catch (const Failure&) {  // out of bounds.h: pivots count from 1
      if (whole == 1) throw;
    }
  }
  return true;
}

bool computes_with(const Call& call, ScalarType type) {
  try {
    return compute_elsewhere(call, type);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void try_types(const Call& call) {
  static std::mutex mutex;
  static auto* known = new std::unordered_set<uint64_t>;  // leaked: threads may outlive static destruction
  const uint64_t signature = Signature(call).value();
  {
    std::lock_guard lock(mutex);
    if (known->contains(signature)) return;
  }
  try {
    if (!compute_elsewhere(call)) return;
  } catch (const c10::NotImplementedError& e) {
    fail(ACLNN_ERR_PARAM_INVALID, "%s", e.what_without_backtrace());  // phase one adds the operator
  } catch (const c10::Error& e) {
    // The zeros may be wrong for other reasons. It is the types if ATen speaks of them and takes the usual ones.
    const bool usual = strstr(e.what_without_backtrace(), "type") &&
                       (computes_with(call, at::kFloat) || computes_with(call, at::kComplexFloat));
    if (usual) fail(ACLNN_ERR_PARAM_INVALID, "%s", e.what_without_backtrace());
  } catch (const std::exception&) {
  }
  std::lock_guard lock(mutex);
  known->insert(signature);
}

}  // namespace softnpu::kernels
