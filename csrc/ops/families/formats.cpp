#include "ops/families/formats.h"

#include <ATen/ATen.h>

#include "aclnn/format.h"
#include "ops/families/mx.h"

namespace npu::ops {

namespace {

bool in_element_order(int64_t format) {
  return format == ACL_FORMAT_ND || format == ACL_FORMAT_NCHW || format == ACL_FORMAT_NCDHW || format == ACL_FORMAT_NCL;
}

}  // namespace

Tensor format_cast(const Tensor& t, int64_t format, std::optional<int64_t> customize_dtype,
                   std::optional<int64_t> input_dtype) {
  TORCH_CHECK(
      in_element_order(format) || format == ACL_FORMAT_FRACTAL_NZ || format == ACL_FORMAT_NC1HWC0,
      "npu_format_cast: acl_format must be FRACTAL_NZ (29), NC1HWC0 (3), or ND (2), NCHW (0), NCDHW (30) or NCL "
      "(47), which are the order of the elements, got ",
      format);
  TORCH_CHECK(format != ACL_FORMAT_NC1HWC0 || t.dim() == 4,
              "npu_format_cast: a tensor in NC1HWC0 has 4 dimensions, got ", t.dim());
  TORCH_CHECK(!input_dtype || *input_dtype == static_cast<int64_t>(t.scalar_type()),
              "npu_format_cast: input_dtype must be the tensor's own type, ", t.scalar_type());
  const auto result = t.is_meta() ? at::empty_symint(t.sym_sizes(), t.options()) : Tensor();
  if (result.defined()) return result;
  const auto ordered = formats::layout_of(t) ? formats::in_order(t).contiguous() : t.contiguous();
  // A vector has no blocks of rows and stays as it is.
  if (in_element_order(format) || (format == ACL_FORMAT_FRACTAL_NZ && t.dim() < 2))
    return ordered.is_alias_of(t) ? ordered.clone() : ordered;
  // Numbers of four bytes and more lie in blocks as wide as those of two, unless the caller says otherwise.
  const auto type = customize_dtype         ? type_behind(*customize_dtype)
                    : t.element_size() >= 4 ? ACL_FLOAT16
                                            : acl_type(t.scalar_type());
  return formats::to_blocks(ordered, static_cast<aclFormat>(format), type);
}

int64_t format_of(const Tensor& t) {
  if (const auto* layout = formats::layout_of(t)) return layout->format;
  return t.dim() == 4 ? ACL_FORMAT_NCHW : t.dim() == 5 ? ACL_FORMAT_NCDHW : ACL_FORMAT_ND;
}

int64_t storage_elements(const Tensor& t) {
  return t.storage().sym_nbytes().guard_int(__FILE__, __LINE__) / static_cast<int64_t>(t.element_size());
}

}  // namespace npu::ops
