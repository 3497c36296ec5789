// What upstream's kernels check of their arguments before they compute, for operators whose table line needs it
// (`before:`). The messages are upstream's, so that a program sees the same exception on npu as on the CPU.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace npu::ops {

using at::Tensor;

// "value cannot be converted to type ... without overflow", for a number that a kernel takes in the tensor's type.
void check_fits(const Tensor& self, const c10::Scalar& value);
// What tensors are multiplied with is a number of their common type; kernels compute half precision in float32.
void check_factor(const c10::Scalar& value, std::initializer_list<const Tensor*> tensors);
void check_clamp(const Tensor& self, const std::optional<c10::Scalar>& min, const std::optional<c10::Scalar>& max);

void check_where(const Tensor& condition);
void check_dot(const Tensor& self, const Tensor& other);
void check_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const c10::Scalar& beta,
                const c10::Scalar& alpha);
void check_index(const Tensor& index, const char* op);
void check_long_index(const Tensor& index, const char* op);
void check_steps(int64_t steps);
void check_matrix(const Tensor& self, const char* op);
void check_floating(const Tensor& self, const char* op);
void check_not_complex(const Tensor& self, const char* op);
void check_same_dtype(const Tensor& self, const Tensor& source, const char* op);
void check_complex_parts(const Tensor& real, const Tensor& imag);
void check_put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate);
void check_take(const Tensor& self, const Tensor& index);
void check_index_put(const Tensor& self, at::IOptTensorListRef indices, const Tensor& values);
// index_put_ reads neither values nor indices from the tensor that it writes.
void check_apart(const Tensor& self, at::IOptTensorListRef indices, const Tensor& values, bool accumulate);
void check_masked_scatter(const Tensor& self, const Tensor& mask, const Tensor& source);
void check_grid(const Tensor& input, const Tensor& grid, int64_t interpolation_mode);
void check_boundaries(const Tensor& boundaries);
void check_search(const Tensor& sequence, const Tensor& values, bool right, std::optional<std::string_view> side,
                  const std::optional<Tensor>& sorter);
void check_channel_shuffle(const Tensor& self, int64_t groups);
void check_kth(const Tensor& self, int64_t k, int64_t dim);
void check_reduced_dim(const Tensor& self, int64_t dim, const char* op);  // the dimension must have elements
void check_not_empty(const Tensor& self, const char* op);                 // what is reduced to one number
void check_histc(int64_t bins, const c10::Scalar& min, const c10::Scalar& max);
void check_square(const Tensor& self, const char* op);  // batches of square matrices with fractions
void check_ctc(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
               at::IntArrayRef target_lengths, int64_t blank);
void check_nll2d(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight);

// Raises torch.linalg.LinAlgError for the first matrix that `info` names. Waits for the device.
void check_linalg(const Tensor& info, const char* op, bool is_matrix);
// The same for singular values or eigenvalues that are NaN.
void check_converged(const Tensor& values, const char* op, bool is_matrix);
void check_finite(const Tensor& self, const char* op);

}  // namespace npu::ops
