#include "ops/checks/custom.h"

#include <ATen/WrapDimUtils.h>

namespace npu::ops {

void check_groups(const char* op, const Tensor& input, int64_t groups) {
  TORCH_CHECK(input.dim() >= 2, op, ": input has ", input.dim(), " dimensions, expected at least 2");
  TORCH_CHECK(groups > 0, op, ": the number of groups is ", groups, ", expected a positive one");
  TORCH_CHECK(input.sym_size(1) % groups == 0, op, ": ", input.sym_size(1), " channels do not divide into ", groups,
              " groups");
}

void check_halves(const char* op, const Tensor& input, int64_t dim) {
  TORCH_CHECK(input.dim() > 0, op, ": input has no dimensions");
  const auto size = input.sym_size(at::maybe_wrap_dim(dim, input.dim()));
  TORCH_CHECK(size % 2 == 0, op, ": dimension ", dim, " of input has length ", size, ", expected an even one");
}

void check_one_of(const char* op, const char* argument, std::string_view value,
                  std::initializer_list<const char*> accepted) {
  std::string list;
  for (const char* each : accepted) {
    if (value == each) return;
    list += list.empty() ? std::string("\"") + each + "\"" : std::string(", \"") + each + "\"";
  }
  TORCH_CHECK(false, op, ": ", argument, " is \"", value, "\", expected one of ", list);
}

}  // namespace npu::ops
