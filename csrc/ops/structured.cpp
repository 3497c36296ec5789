#include "ops/structured.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>

namespace npu::ops {

namespace {

Tensor create(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const auto dtype = c10::typeMetaToScalarType(options.dtype());
  if (!strides.empty()) return empty_strided(sizes, strides, dtype);
  return empty(sizes, dtype, options.memory_format_opt().value_or(at::MemoryFormat::Contiguous));
}

void check_out(const Tensor& out, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ", options.device(), ", but got ",
              out.device(), " instead");
}

void resize_out(const Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  check_out(out, options);
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty()) {
    out.as_strided_(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

void check_inplace(const Tensor& self, at::IntArrayRef sizes, const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ", self.dtype(),
              " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ", self.device(),
              " and output tensor device ", options.device(), " should match");
  at::assert_no_internal_overlap(self);
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(), " and output tensor size ",
              sizes, " should match");
}

}  // namespace

void Output::set(Form form, at::IntArrayRef sizes, at::IntArrayRef strides, at::TensorOptions options,
                 bool exact_strides) {
  if (form == Form::functional) {
    own = create(sizes, strides, options);
    return;
  }
  if (form == Form::out)
    resize_out(*given, sizes, strides, options);
  else
    check_inplace(*given, sizes, options);
  // The operator can only write the strides it asked for, and numbers as they are in memory: give it a stand-in, copied
  // back in finish().
  if (exact_strides && !strides.empty() && given->strides() != strides)
    own = empty_strided(sizes, strides, c10::typeMetaToScalarType(options.dtype()));
  else if (C10_UNLIKELY(given->is_conj() || given->is_neg()))
    own = create(sizes, strides, options);
}

void Output::finish() const {
  if (given && own.defined()) given->copy_(own);
}

}  // namespace npu::ops
