#include "kernels/engine/trial.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;  // of all tensors of a call that is tried

// Operator and types of one call, and its sizes and numbers if asked for, as a number.
class Signature {
 public:
  explicit Signature(const Call& call, bool sizes = false) : sizes_(sizes) {
    add(reinterpret_cast<uint64_t>(&call.op) + sizes);
    for (const Value& value : call.values) std::visit(*this, value);
  }
  void operator()(const Tensor& t) {
    add(t.defined() ? static_cast<uint64_t>(t.scalar_type()) : 255);
    if (sizes_ && t.defined()) (*this)(t.sizes());
  }
  void operator()(const std::vector<Tensor>& list) {
    const Tensor* last = nullptr;
    for (const Tensor& t : list) {
      if (sizes_ || !last || t.defined() != last->defined() || (t.defined() && t.scalar_type() != last->scalar_type()))
        (*this)(t);
      last = &t;
    }
  }
  void operator()(const Scalar& s) { add(static_cast<uint64_t>(s.type())); }
  void operator()(ScalarType type) { add(static_cast<uint64_t>(type)); }
  void operator()(const std::vector<int64_t>& list) { (*this)(at::IntArrayRef(list)); }
  void operator()(int64_t number) { add(sizes_ ? static_cast<uint64_t>(number) : 256); }
  template <class T>
  void operator()(const T&) {
    add(256);
  }
  uint64_t value() const { return value_; }

 private:
  void operator()(at::IntArrayRef list) {
    add(sizes_ ? list.size() : 256);
    if (sizes_)
      for (const int64_t n : list) add(static_cast<uint64_t>(n));
  }
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ull, value_ ^= value_ >> 29; }
  bool sizes_;
  uint64_t value_ = 1;
};

// What a trial computes with: the number of integers, that of masks, another type for those of the first tensor's type
// and all with a fraction, or for one argument.
struct Numbers {
  int whole = 0;
  bool mask = true;  // selects something
  std::optional<ScalarType> type = std::nullopt;
  std::optional<size_t> argument = std::nullopt;
  bool nothing = false;  // is tried as well: a call without elements
};

// The call's tensors elsewhere: zeros, where `numbers` says nothing else.
class Copy {
 public:
  explicit Copy(const Numbers& numbers) : numbers_(numbers) {}

  // False: too large, or nothing to compute.
  bool make(const Call& from, Call& to) {
    for (size_t i = 0; i < from.values.size(); i++) {
      const bool output = from.op.outputs >> i & 1;
      to.handles.emplace_back();
      to.values.push_back(from.values[i]);
      if (auto* t = std::get_if<Tensor>(&to.values.back())) replace(*t, i, output);
      if (auto* list = std::get_if<std::vector<Tensor>>(&to.values.back()))
        for (Tensor& t : *list) replace(t, i, output);
    }
    return elements_ <= kMostElements && (numbers_.nothing || (inputs_ ? input_elements_ > 0 : elements_ > 0));
  }

 private:
  void replace(Tensor& t, size_t argument, bool output) {
    if (!t.defined()) return;
    if (!first_) first_ = t.scalar_type();
    int64_t span = t.numel() ? 1 : 0;
    for (int64_t d = 0; span && d < t.dim(); d++) span += (t.size(d) - 1) * t.stride(d);
    elements_ += span;
    inputs_ += !output;
    input_elements_ += output ? 0 : span;
    if (elements_ > kMostElements) return;
    const bool other = numbers_.argument ? argument == *numbers_.argument
                                         : t.scalar_type() == *first_ || t.is_floating_point() || t.is_complex();
    const auto type = other ? numbers_.type.value_or(t.scalar_type()) : t.scalar_type();
    const int value = type == at::kBool ? numbers_.mask : at::isIntegralType(type, false) ? numbers_.whole : 0;
    const auto options = t.options().dtype(type);  // zeros exist in every type, other numbers do not
    t = (value ? at::full({span}, value, options) : at::zeros({span}, options)).as_strided(t.sizes(), t.strides());
  }
  const Numbers numbers_;
  std::optional<ScalarType> first_;
  int64_t elements_ = 0, input_elements_ = 0;
  int inputs_ = 0;
};

// The caller sees nothing of a trial: no warning, no event in its profile. False: it cannot be tried.
bool compute_elsewhere(const Call& call, const Numbers& numbers) {
  at::DisableRecordFunctionGuard unrecorded;
  struct Silence : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  Call trial(call.op);
  if (!Copy(numbers).make(call, trial)) return false;
  trial.compute();
  return true;
}

// On zeros, or on ones where bounds.h has no use for zeros: pivots count from 1.
bool compute_elsewhere(const Call& call) {
  try {
    return compute_elsewhere(call, Numbers{});
  } catch (const Failure&) {
    return compute_elsewhere(call, Numbers{.whole = 1});
  }
}

bool computes_with(const Call& call, ScalarType type, std::optional<size_t> argument = std::nullopt) {
  for (const int whole : {0, 1}) {
    try {
      return compute_elsewhere(call, {.whole = whole, .type = type, .argument = argument});
    } catch (const Failure&) {
    } catch (const std::exception&) {
      return false;
    }
  }
  return false;
}

// The argument that the operator would take if it were floating.
std::optional<size_t> of_wrong_type(const Call& call) {
  for (size_t i = 0; i < call.values.size(); i++) {
    const auto* t = std::get_if<Tensor>(&call.values[i]);
    if (t && t->defined() && at::isIntegralType(t->scalar_type(), true) && !(call.op.outputs >> i & 1) &&
        computes_with(call, at::kFloat, i))
      return i;
  }
  return std::nullopt;
}

// What has been tried, for the life of the process.
class Known {
 public:
  bool contains(uint64_t signature) {
    std::lock_guard lock(mutex_);
    return found_.contains(signature);
  }
  void add(uint64_t signature) {
    std::lock_guard lock(mutex_);
    if (found_.size() >= kMost) found_.clear();
    found_.insert(signature);
  }

 private:
  static constexpr size_t kMost = 1 << 16;
  std::mutex mutex_;
  std::unordered_set<uint64_t> found_;
};

bool is_about_sizes(const char* complaint) {
  static constexpr const char* kWords[] = {"must match the size of tensor",
                                           "shapes cannot be multiplied",
                                           "doesn't match the broadcast shape",
                                           "is invalid for input of size",
                                           "Expected size for first two dimensions",
                                           "must have same slice shapes",
                                           "Number of indices",
                                           "to be no larger than self",
                                           "Given groups=",
                                           "Given transposed=",
                                           "Kernel size can't be greater",
                                           "The expanded size of the tensor",
                                           "cannot reshape tensor of",
                                           "must have the same number of dimensions",
                                           "their dimensionality must match",
                                           "exceeds dimension size",
                                           "should be greater than zero",
                                           "negative dimension",
                                           "Sizes of tensors must match",
                                           "to be a vector of size",
                                           "Trying to resize storage"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](const char* words) { return strstr(complaint, words); });
}

}  // namespace

void try_types(const Call& call) {
  static auto* known = new Known;  // leaked: threads may outlive static destruction
  const uint64_t signature = Signature(call).value();
  if (known->contains(signature)) return;
  try {
    if (!compute_elsewhere(call)) return;
  } catch (const c10::NotImplementedError& e) {
    fail(ACLNN_ERR_PARAM_INVALID, "%s", e.what_without_backtrace());  // phase one adds the operator
  } catch (const c10::Error& e) {
    if (strstr(e.what_without_backtrace(), "a fused kernel for"))  // see rows.h
      fail(ACLNN_ERR_PARAM_INVALID, "%s", e.what_without_backtrace());
    // The zeros may be wrong for other reasons. It is the types if ATen speaks of them and takes the usual ones.
    const bool usual = strstr(e.what_without_backtrace(), "type") &&
                       (computes_with(call, at::kFloat) || computes_with(call, at::kComplexFloat));
    if (usual) fail(ACLNN_ERR_PARAM_INVALID, "%s", e.what_without_backtrace());
    if (const auto i = of_wrong_type(call))
      fail(ACLNN_ERR_PARAM_INVALID, "argument '%s': %s", std::string(call.argument(*i)).c_str(),
           e.what_without_backtrace());
  } catch (const std::exception&) {
  }
  known->add(signature);
}

void try_sizes(const Call& call) {
  static auto* known = new Known;  // leaked, as above
  const uint64_t signature = Signature(call, true).value();
  if (known->contains(signature)) return;
  std::string complaint;
  for (const auto& numbers : {Numbers{.nothing = true}, Numbers{.whole = 1, .mask = false, .nothing = true}}) {
    try {
      if (!compute_elsewhere(call, numbers)) return;
      complaint.clear();
    } catch (const c10::Error& e) {
      complaint = e.what_without_backtrace();
    } catch (const std::exception&) {
      complaint.clear();
    }
    if (!is_about_sizes(complaint.c_str())) return known->add(signature);
  }
  fail(ACLNN_ERR_PARAM_INVALID, "%s, in %s", complaint.c_str(), call.describe().c_str());
}

}  // namespace softnpu::kernels
