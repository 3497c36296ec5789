// Results of functional CPU operators made where they belong, in the memory of the outputs, without a copy.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <initializer_list>
#include <optional>

namespace softnpu::kernels {

using at::Tensor;

// Note [Landing]: convolution and others have no out= form that avoids a copy. While a Landing lives, an at::empty of
// this thread that asks for the shape, strides and type of one of the outputs is given that output's memory, once. If
// the operator returns it as the result, copying the result into the output finds the same memory and does nothing; if
// it was a temporary, the copy is done as ever. Outputs must not overlap inputs. Small ones are left alone: a copy
// costs less than looking.
class Landing {
 public:
  explicit Landing(std::initializer_list<std::optional<Tensor>> outputs);
  ~Landing();
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  // An alias of the output that fits, or an undefined tensor.
  Tensor take(at::IntArrayRef sizes, at::ScalarType dtype, std::optional<at::MemoryFormat> format);

 private:
  std::array<Tensor, 3> outputs_;
  Landing* outer_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> guard_;
};

}  // namespace softnpu::kernels
