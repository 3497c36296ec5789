#include "ops/families/indexing.h"

namespace npu::ops {

at::ScalarType cast_type(const char* op, int64_t number) {
  const bool known = (number >= 0 && number <= static_cast<int64_t>(at::kComplexDouble)) ||
                     number == static_cast<int64_t>(at::kBool) || number == static_cast<int64_t>(at::kBFloat16) ||
                     number == static_cast<int64_t>(at::kFloat8_e5m2) ||
                     number == static_cast<int64_t>(at::kFloat8_e4m3fn);
  TORCH_CHECK(known, op, ": dtype ", number, " is not one that the npu computes in; pass a torch.dtype");
  return static_cast<at::ScalarType>(number);
}

namespace {

void check_permutation(const char* op, at::IntArrayRef perm, int64_t dims) {
  const auto count = static_cast<int64_t>(perm.size());
  std::vector<bool> seen(count);
  for (const int64_t dim : perm) {
    TORCH_CHECK(dim >= 0 && dim < count && !seen[dim], op, ": perm is ", perm, ", expected each of 0 to ", count - 1,
                " once");
    seen[dim] = true;
  }
  TORCH_CHECK(count == dims, op, ": perm has ", count, " entries, expected ", dims);
}

void check_index_type(const char* op, const Tensor& index) {
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt, op, ": index is ",
              index.scalar_type(), ", expected int64 or int32");
}

}  // namespace

void check_confusion(const char* op, const Tensor& input, at::IntArrayRef perm, at::IntArrayRef shape, bool first) {
  check_permutation(op, perm, first ? input.dim() : static_cast<int64_t>(shape.size()));
  c10::SymInt numel = 1;
  for (const int64_t size : shape) numel *= size;
  TORCH_CHECK(numel == input.sym_numel(), op, ": shape is ", shape, ", expected one of ", input.sym_numel(),
              " elements");
}

void check_confusion_backward(const Tensor& grad, at::IntArrayRef perm, c10::SymIntArrayRef shape, bool first) {
  const char* op = "npu_confusion_transpose_backward";
  check_permutation(op, perm, first ? static_cast<int64_t>(shape.size()) : grad.dim());
  TORCH_CHECK(c10::multiply_integers(shape) == grad.sym_numel(), op, ": shape is ", shape, ", expected one of ",
              grad.sym_numel(), " elements");
}

results::Dims confused_sizes(at::IntArrayRef perm, at::IntArrayRef shape, bool first) {
  results::Dims sizes(shape.begin(), shape.end());
  if (!first)
    for (size_t i = 0; i < perm.size(); i++) sizes[i] = shape[perm[i]];
  return sizes;
}

std::vector<int64_t> inverse(at::IntArrayRef perm) {
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); i++) {
    TORCH_CHECK(perm[i] >= 0 && perm[i] < static_cast<int64_t>(perm.size()), "perm is ", perm, ", no permutation");
    back[perm[i]] = static_cast<int64_t>(i);
  }
  return back;
}

std::vector<int64_t> back_shape(at::IntArrayRef perm, at::IntArrayRef shape, bool first) {
  std::vector<int64_t> sizes = shape.vec();
  if (!first) return sizes;
  for (size_t i = 0; i < perm.size(); i++) sizes[i] = shape[perm[i]];
  return sizes;
}

void check_gather(const Tensor& input, const Tensor& index) {
  TORCH_CHECK(input.dim() >= 1, "npu_gather_sparse_index: input has no dimensions");
  check_index_type("npu_gather_sparse_index", index);
  TORCH_CHECK(input.dim() + index.dim() <= 9, "npu_gather_sparse_index: the result has ", input.dim() + index.dim() - 1,
              " dimensions, expected at most 8");
}

void check_gather_backward(const Tensor& grad, c10::SymIntArrayRef sizes, const Tensor& index) {
  const char* op = "npu_gather_sparse_index_backward";
  TORCH_CHECK(!sizes.empty(), op, ": self_sizes is empty, expected those of the table");
  check_index_type(op, index);
  TORCH_CHECK(grad.sym_numel() == index.sym_numel() * c10::multiply_integers(sizes.slice(1)), op, ": grad has shape ",
              grad.sym_sizes(), ", expected a row of the table, ", sizes, ", for each of ", index.sym_numel(),
              " indices");
}

results::Dims gathered_sizes(const Tensor& input, const Tensor& index) {
  results::Dims sizes = results::dims(index);
  sizes.append(input.sym_sizes().begin() + 1, input.sym_sizes().end());
  return sizes;
}

Tensor rows_of(const Tensor& grad, const Tensor& table) {
  std::vector<int64_t> sizes = table.sizes().vec();
  sizes[0] = grad.dim() < table.dim() - 1 || table.numel() == 0 ? 0 : -1;
  return grad.reshape(sizes);
}

c10::SymIntArrayRef input_metadata_sizes(const torch::autograd::Edge& edge) {
  return edge.function->input_metadata(edge.input_nr).shape_as_dim_vector();
}

at::ScalarType input_metadata_type(const torch::autograd::Edge& edge) {
  return edge.function->input_metadata(edge.input_nr).dtype().toScalarType();
}

void check_index_add(const char* op, const Tensor& input, const Tensor& index, const Tensor& source) {
  TORCH_CHECK(input.dim() > 0 && index.dim() == 1, op, ": index has shape ", index.sym_sizes(),
              ", expected the numbers of rows of input, [count]");
  check_index_type(op, index);
  const auto expected = results::with_dim(input, 0, index.sym_size(0));
  TORCH_CHECK(source.sym_sizes() == c10::SymIntArrayRef(expected), op, ": source has shape ", source.sym_sizes(),
              ", expected ", c10::SymIntArrayRef(expected));
}

}  // namespace npu::ops
