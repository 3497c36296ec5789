// Structured operators: upstream's meta functions give shapes, types and strides; Op<Meta, N> receives the outputs that
// they ask for. One class serves the functional, out= and in-place form of an operator. Used by generated wrappers
// only.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>

#include "aclnn/op.h"
#include "ops/tensor.h"

namespace npu::ops {

enum class Form : uint8_t { functional, out, inplace };

// One output of a structured operator, whichever form it has.
struct Output {
  Tensor own;  // functional: the result; else a stand-in when `given` has the wrong strides
  const Tensor* given = nullptr;

  void set(Form form, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options, bool exact_strides);
  const Tensor& get() const { return own.defined() || !given ? own : *given; }
  void finish() const;  // copies a stand-in back
};

template <class Meta, size_t N>
class Op final : public Meta {
 public:
  template <class... T>
  explicit Op(Form form, const T&... given) : form_(form) {
    [[maybe_unused]] size_t i = 0;
    ((outputs_[i++].given = &given), ...);
  }

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    set(i, sizes, strides, options, true);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    set(i, sizes, strides, options, false);
  }
  const Tensor& maybe_get_output(int64_t i) override { return outputs_[i].get(); }

  const Tensor& output(size_t i) const { return outputs_[i].get(); }
  Tensor take(size_t i) { return std::move(outputs_[i].own); }
  void finish() const {
    for (auto& o : outputs_) o.finish();
  }
  bool is_inplace() const { return form_ == Form::inplace && !outputs_[0].own.defined(); }

 private:
  static constexpr bool kIterator = std::is_base_of_v<at::TensorIteratorBase, Meta>;

  void set(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options, bool exact) {
    outputs_[i].set(form_, sizes, strides, options, exact);
    // TensorIterator takes the output through maybe_get_output(), so it comes last.
    if constexpr (kIterator) Meta::set_output_raw_strided(i, sizes, strides, options);
  }

  std::array<Output, N> outputs_;
  Form form_;
};

}  // namespace npu::ops
