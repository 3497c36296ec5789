#include "ops/families/deformable.h"

namespace npu::ops {

void check_deformable(const char* op, const Tensor& input, const Tensor& weight, const Tensor& offset,
                      at::IntArrayRef kernel_size, at::IntArrayRef stride, at::IntArrayRef padding,
                      at::IntArrayRef dilation, int64_t groups, int64_t deformable_groups, bool modulated) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4, op, ": input, weight and offset have ",
              input.dim(), ", ", weight.dim(), " and ", offset.dim(), " dimensions, expected 4 each");
  TORCH_CHECK(kernel_size.size() == 2 && weight.sym_size(2) == kernel_size[0] && weight.sym_size(3) == kernel_size[1],
              op, ": kernel_size is ", kernel_size, ", expected that of weight, ", weight.sym_sizes());
  TORCH_CHECK(stride.size() == 4 && padding.size() == 4 && dilation.size() == 4, op,
              ": stride, padding and dilation have ", stride.size(), ", ", padding.size(), " and ", dilation.size(),
              " numbers, expected 4 each");
  TORCH_CHECK(stride[2] > 0 && stride[3] > 0 && dilation[2] > 0 && dilation[3] > 0, op,
              ": stride and dilation must be positive");
  TORCH_CHECK(groups > 0 && deformable_groups > 0 && input.sym_size(1) == weight.sym_size(1) * groups &&
                  weight.sym_size(0) % groups == 0 && input.sym_size(1) % deformable_groups == 0,
              op, ": ", input.sym_size(1), " channels do not fit weight ", weight.sym_sizes(), " with groups ", groups,
              " and deformable_groups ", deformable_groups);
  TORCH_CHECK(offset.sym_size(0) == input.sym_size(0) &&
                  offset.sym_size(1) == (modulated ? 3 : 2) * deformable_groups * kernel_size[0] * kernel_size[1],
              op, ": offset has shape ", offset.sym_sizes(), ", expected ", modulated ? "three" : "two",
              " channels for each deformable group and place of the kernel");
  for (int64_t i = 0; i < 2; i++) {
    const auto length =
        (input.sym_size(2 + i) + padding[2 * i] + padding[2 * i + 1] - (kernel_size[i] - 1) * dilation[2 + i] - 1) /
            stride[2 + i] +
        1;
    TORCH_CHECK(offset.sym_size(2 + i) == length, op, ": dimension ", 2 + i, " of offset has length ",
                offset.sym_size(2 + i), ", expected ", length, ", that of the result");
  }
}

}  // namespace npu::ops
