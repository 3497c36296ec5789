// Operators whose result shape or value depends on data: they wait for the device.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/index_meta.h>

#include "aclnn/op.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/structured.h"
#include "ops/tensor.h"

namespace npu::ops {

namespace {

// A result that is the first part of its memory: a copy gives the rest back, which costs a launch on CANN.
Tensor kept(const Tensor& part) { return on_softnpu() ? part.clone(at::MemoryFormat::Contiguous) : part; }

Tensor find_nonzero(const Tensor& self) {
  CardGuard guard(self);
  auto room = empty({self.numel(), self.dim()}, at::kLong);
  if (self.numel() == 0) return room;
  const auto shapes = NPU_EXEC_SHAPES(aclnnNonzero, 1, self, room);
  return kept(room.narrow(0, 0, shapes[0][0]).t()).t();  // where it is copied, a column behind the other as on the CPU
}

Tensor& nonzero_out(const Tensor& self, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero: Expected out tensor to have scalar type Long but got ",
              out.scalar_type());
  TORCH_CHECK(self.device() == out.device(), "nonzero: expected self and out to be on the same device, but got out on ",
              out.device(), " and self on ", self.device());
  return write_out(out, find_nonzero(self));
}

Tensor select_masked(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  CardGuard guard(self);
  check_same_device("masked_select", {&self, &mask});
  const int64_t most = c10::multiply_integers(at::infer_size(mask.sizes(), self.sizes()));
  auto room = empty({most}, self.scalar_type());
  if (most == 0) return room;
  const auto shapes = NPU_EXEC_SHAPES(aclnnMaskedSelect, 1, self, mask, room);
  return kept(room.narrow(0, 0, shapes[0][0]));
}

Tensor& masked_select_out(const Tensor& self, const Tensor& mask, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  return write_out(out, select_masked(self, mask));
}

// Where a mask becomes a list of places, it does so once: upstream's meta function is given the list.
using Index = Op<at::meta::structured_index_Tensor, 1>;
using Indices = c10::List<std::optional<Tensor>>;

void index_into(Index& op, const Tensor& self, const Indices& indices) {
  const auto is_byte = [](const std::optional<Tensor>& t) {
    return t && t->defined() && t->scalar_type() == at::kByte;
  };
  if (!on_softnpu() && std::any_of(indices.begin(), indices.end(), is_byte))
    TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
  const auto is_mask = [](const std::optional<Tensor>& t) {
    return t && t->defined() && (t->scalar_type() == at::kBool || t->scalar_type() == at::kByte);
  };
  const auto places = indices_of(self, indices);
  if (!on_softnpu() && std::any_of(indices.begin(), indices.end(), is_mask))
    op.meta(self, Indices(c10::ArrayRef<std::optional<Tensor>>(places)));
  else
    op.meta(self, indices);
  if (op.output(0).numel() > 0) NPU_EXEC(aclnnIndex, self, places, op.output(0));
}

Tensor index(const Tensor& self, const Indices& indices) {
  CardGuard guard(self);
  Index op(Form::functional);
  index_into(op, self, indices);
  return op.take(0);
}

Tensor& index_out(const Tensor& self, const Indices& indices, Tensor& out) {
  CardGuard guard(self);
  Index op(Form::out, out);
  index_into(op, self, indices);
  op.finish();
  return out;
}

bool all_equal(const Tensor& self, const Tensor& other) {
  check_same_device("equal", {&self, &other});
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  CardGuard guard(self);
  auto out = empty({1}, at::kBool);
  NPU_EXEC(aclnnEqual, self, other, out);
  return out.item<bool>();
}

using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor first_part(const Tensor& room, at::IntArrayRef sizes) {
  int64_t elements = 1;
  for (const int64_t n : sizes) elements *= n;
  return kept(room.reshape({-1}).narrow(0, 0, elements).view(sizes));
}

// Values, positions of the inputs in them, and counts; the last two have no elements unless asked for.
Three unique(const Tensor& self, bool sorted, bool return_inverse, bool return_counts) {
  CardGuard guard(self);
  if (self.numel() == 0) return {empty({0}, self.scalar_type()), empty(self.sizes(), at::kLong), empty({0}, at::kLong)};
  auto values = empty({self.numel()}, self.scalar_type());
  auto inverse = return_inverse ? empty(self.sizes(), at::kLong) : empty({0}, at::kLong);
  auto counts = return_counts ? empty({self.numel()}, at::kLong) : empty({0}, at::kLong);
  const auto shapes =
      NPU_EXEC_SHAPES(aclnnUnique2, 3, self, sorted, return_inverse, return_counts, values, inverse, counts);
  return {first_part(values, shapes[0]), inverse, return_counts ? first_part(counts, shapes[2]) : counts};
}

// Sorted whether asked for or not, as the official client always wants it.
std::tuple<Tensor, Tensor> unique_values(const Tensor& self, bool /*sorted*/, bool return_inverse) {
  CardGuard guard(self);
  if (self.numel() == 0) return {empty({0}, self.scalar_type()), empty(self.sizes(), at::kLong)};
  auto values = empty({self.numel()}, self.scalar_type());
  auto inverse = return_inverse ? empty(self.sizes(), at::kLong) : empty({0}, at::kLong);
  const auto shapes = NPU_EXEC_SHAPES(aclnnUnique, 2, self, true, return_inverse, values, inverse);
  return {first_part(values, shapes[0]), inverse};
}

void check_unique_dim(const Tensor& self, int64_t dim) {
  for (int64_t other = 0; other < self.dim(); other++)
    TORCH_CHECK(self.size(other) > 0 || other == dim,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
}

Three unique_dim(const Tensor& self, int64_t dim, bool sorted, bool return_inverse, bool) {
  CardGuard guard(self);
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_unique_dim(self, dim);
  const int64_t rows = self.size(dim);
  auto values = empty(self.sizes(), self.scalar_type()), inverse = empty({rows}, at::kLong),
       counts = empty({rows}, at::kLong);
  if (rows == 0) return {values, inverse, counts};
  const auto shapes = NPU_EXEC_SHAPES(aclnnUniqueDim, 3, self, sorted, return_inverse, dim, values, inverse, counts);
  return {first_part(values, shapes[0]), inverse, first_part(counts, shapes[2])};
}

constexpr int64_t kFlattened = 1000;  // "no dimension" in aclnnUniqueConsecutive

Three unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  CardGuard guard(self);
  if (dim.has_value()) {
    dim = at::maybe_wrap_dim(*dim, self.dim());
    check_unique_dim(self, *dim);
  }
  const int64_t rows = dim.has_value() ? self.size(*dim) : self.numel();
  auto values = dim.has_value() ? empty(self.sizes(), self.scalar_type()) : empty({rows}, self.scalar_type());
  auto inverse = !return_inverse   ? empty({0}, at::kLong)
                 : dim.has_value() ? empty({rows}, at::kLong)
                                   : empty(self.sizes(), at::kLong);
  auto counts = empty({return_counts ? rows : 0}, at::kLong);
  if (self.numel() == 0) return {values, inverse, counts};
  const auto shapes = NPU_EXEC_SHAPES(aclnnUniqueConsecutive, 3, self, return_inverse, return_counts,
                                      dim.value_or(kFlattened), values, inverse, counts);
  return {first_part(values, shapes[0]), inverse, return_counts ? first_part(counts, shapes[2]) : counts};
}

Three unique_dim_consecutive(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  return npu::ops::unique_consecutive(self, return_inverse, return_counts, dim);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && c10::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  CardGuard guard(self);
  const bool weighted = weights.has_value() && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const auto type = !weighted ? at::kLong : weights->scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  if (self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  const auto [smallest, largest] = at::aminmax(self);
  TORCH_CHECK(smallest.item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
  auto out = empty({std::max(largest.item<int64_t>() + 1, minlength)}, type);
  NPU_EXEC(aclnnBincount, self, weights, minlength, out);
  return out;
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  CardGuard guard(repeats);
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return empty({0}, repeats.scalar_type());
  const int64_t total = output_size.has_value() ? *output_size : repeats.sum().item<int64_t>();
  TORCH_CHECK(total >= 0 && (output_size.has_value() || repeats.min().item<int64_t>() >= 0),
              "repeats can not be negative");
  auto out = empty({total}, repeats.scalar_type());
  NPU_EXEC(aclnnRepeatInterleaveTensor, repeats, total, out);
  return out;
}

// As many rows as asked for: the first ones that are not zero, then the fill value. The size is given, so nobody waits:
// every element that is not zero writes its position where its number among them says, the others beyond the end.
Tensor& nonzero_static_out(const Tensor& self, int64_t size, int64_t fill_value, Tensor& out) {
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  TORCH_CHECK(out.scalar_type() == at::kLong, "nonzero_static: Expected out tensor to have scalar type Long but got ",
              out.scalar_type());
  at::native::resize_output(out, {size, self.dim()});
  if (size == 0 || self.dim() == 0) return out;
  const auto options = self.options().dtype(at::kLong);
  const auto hit = self.ne(0).reshape({-1});
  const auto number = hit.cumsum(0).sub_(1);
  const auto target = number.masked_fill(hit.logical_not().logical_or_(number.ge(size)), size);
  const auto found =
      at::full({size + 1}, -1, options).scatter_(0, target, at::arange(self.numel(), options)).narrow(0, 0, size);
  int64_t step = self.numel();
  for (int64_t d = 0; d < self.dim(); d++) {
    const int64_t n = std::max<int64_t>(1, self.size(d));
    step /= n;
    out.select(1, d).copy_(found.div(std::max<int64_t>(1, step), "floor").remainder_(n));
  }
  out.masked_fill_(found.lt(0).unsqueeze(1), fill_value);
  return out;
}

Tensor nonzero_static(const Tensor& self, int64_t size, int64_t fill_value) {
  CardGuard guard(self);
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  auto out = empty({size, self.dim()}, at::kLong);
  return nonzero_static_out(self, size, fill_value, out);
}

// Residuals exist only for systems of full rank, singular values only for some drivers.
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> lstsq_out(const Tensor& self, const Tensor& b,
                                                         std::optional<double> rcond,
                                                         std::optional<std::string_view> driver, Tensor& solution,
                                                         Tensor& residuals, Tensor& rank, Tensor& singular_values) {
  CardGuard guard(self);
  check_same_device("torch.linalg.lstsq", {&self, &b});
  TORCH_CHECK(self.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  // Right sides are matrices, or vectors if `b` has the rank of a batch of those.
  const bool vectors =
      b.dim() == 1 || (b.dim() == self.dim() - 1 && b.sizes() == self.sizes().slice(0, self.dim() - 1));
  const auto each =
      at::infer_size(self.sizes().slice(0, self.dim() - 2), b.sizes().slice(0, b.dim() - (vectors ? 1 : 2)));
  const int64_t batches = c10::multiply_integers(each), columns = vectors ? 1 : b.size(-1);
  const int64_t small = std::min(self.size(-1), self.size(-2));
  const auto real = c10::toRealValueType(self.scalar_type());
  auto x = empty({batches * self.size(-1) * columns}, self.scalar_type()), r = empty({batches * columns}, real);
  auto k = empty({batches}, at::kLong), s = empty({batches * small}, real);
  std::optional<c10::Scalar> limit;
  if (rcond.has_value()) limit = *rcond;
  const auto shapes = NPU_EXEC_SHAPES(softnpuLstsq, 4, self, b, limit, driver.value_or("gelsy"), x, r, k, s);
  write_out(solution, first_part(x, shapes[0]));
  write_out(residuals, first_part(r, shapes[1]));
  write_out(rank, first_part(k, shapes[2]));
  write_out(singular_values, first_part(s, shapes[3]));
  return {solution, residuals, rank, singular_values};
}

}  // namespace

NPU_REGISTER(data_dependent) {
  manual("aten::_unique2", "", &unique);
  manual("aten::_unique", "", &unique_values);
  manual("aten::unique_dim", "", &unique_dim);
  manual("aten::unique_consecutive", "", &unique_consecutive);
  manual("aten::unique_dim_consecutive", "", &unique_dim_consecutive);
  manual("aten::bincount", "", &bincount);
  manual("aten::repeat_interleave", "Tensor", &repeat_interleave);
  manual("aten::nonzero_static", "", &nonzero_static);
  manual("aten::nonzero_static", "out", &nonzero_static_out);
  manual("aten::linalg_lstsq", "out", &lstsq_out, "softnpuLstsq");
  manual("aten::index", "Tensor", &index);
  manual("aten::index", "Tensor_out", &index_out);
  manual("aten::nonzero", "", &find_nonzero);
  manual("aten::nonzero", "out", &nonzero_out);
  manual("aten::masked_select", "", &select_masked);
  manual("aten::masked_select", "out", &masked_select_out);
  manual("aten::equal", "", &all_equal);
}

}  // namespace npu::ops
