#include "kernels/families/legacy_layout.h"

#include <ATen/TensorOperators.h>

#include <algorithm>

namespace softnpu::kernels {

Tensor part(const Tensor& x, const Tensor& offsets, const Tensor& sizes) {
  const auto begin = integers(offsets), length = integers(sizes);
  TORCH_CHECK(begin.size() == static_cast<size_t>(x.dim()) && length.size() == begin.size(), "x has ", x.dim(),
              " dimensions, offsets ", begin.size(), ", size ", length.size());
  auto result = x;
  for (int64_t d = 0; d < x.dim(); d++)
    result = result.narrow(d, begin[d], length[d] == -1 ? x.size(d) - begin[d] : length[d]);
  return result;
}

Tensor strided_part(const Tensor& x, const Tensor& begin, const Tensor& end, const Tensor& strides, SliceMasks masks) {
  TORCH_CHECK(masks.ellipsis == 0 && masks.new_axis == 0, "ellipsis_mask and new_axis_mask are not implemented");
  const auto first = integers(begin), last = integers(end), step = integers(strides);
  TORCH_CHECK(
      first.size() <= static_cast<size_t>(x.dim()) && last.size() == first.size() && step.size() == first.size(),
      "x has ", x.dim(), " dimensions, begin ", first.size(), ", end ", last.size(), ", strides ", step.size());
  auto result = x;
  std::vector<int64_t> dropped;
  for (size_t i = 0; i < first.size(); i++) {
    const auto d = static_cast<int64_t>(i);
    const auto bit = [&](int64_t mask) { return (mask >> i & 1) != 0; };
    if (bit(masks.shrink_axis)) {
      result = result.narrow(d, first[i], 1);
      dropped.push_back(d);
      continue;
    }
    TORCH_CHECK(step[i] > 0, "strides that are not positive are not implemented");
    result = result.slice(d, bit(masks.begin) ? 0 : first[i], bit(masks.end) ? x.size(d) : last[i], step[i]);
  }
  for (size_t i = dropped.size(); i-- > 0;) result = result.squeeze(dropped[i]);
  return result;
}

Tensor padded(const Tensor& x, const Tensor& paddings, double value) {
  const auto pairs = integers(paddings);
  TORCH_CHECK(pairs.size() == 2 * static_cast<size_t>(x.dim()), "x has ", x.dim(), " dimensions, paddings ",
              pairs.size(), " numbers");
  std::vector<int64_t> from_last;
  for (int64_t d = x.dim(); d-- > 0;) from_last.insert(from_last.end(), {pairs[2 * d], pairs[2 * d + 1]});
  return at::constant_pad_nd(x, from_last, value);
}

Tensor transposed_and_reshaped(const Tensor& x, at::IntArrayRef perm, at::IntArrayRef shape, bool transpose_first) {
  return transpose_first ? x.permute(perm).reshape(shape) : x.reshape(shape).permute(perm);
}

Tensor one_hot(const Tensor& x, int64_t depth, const Tensor& on, const Tensor& off, int64_t axis) {
  TORCH_CHECK(axis >= -1 && axis <= x.dim(), "axis is ", axis, " of ", x.dim() + 1, " dimensions");
  TORCH_CHECK(depth >= 0 && depth <= int64_t{1} << 31, "depth is ", depth);
  const int64_t place = axis < 0 ? x.dim() : axis;
  std::vector<int64_t> classes(x.dim() + 1, 1);
  classes[place] = depth;
  return at::where(x.unsqueeze(place) == at::arange(depth, at::kLong).view(classes), on.reshape({}), off.reshape({}));
}

Tensor scattered(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim) {
  TORCH_CHECK(dim >= -x.dim() && dim < x.dim() && indices.sizes() == updates.sizes(), "indices have shape ",
              indices.sizes(), ", updates ", updates.sizes(), ", the dimension is ", dim);
  const auto whole = [&](const Tensor& t) {
    return t.dim() == x.dim() ? t : t.unsqueeze(dim < 0 ? dim + x.dim() : dim);
  };
  return x.scatter(dim, whole(indices).to(at::kLong), whole(updates));
}

Tensor seen_as(const Tensor& x, const Tensor& size, const Tensor& stride, const Tensor& offset) {
  const auto strides = integers(stride), begin = integers(offset);
  TORCH_CHECK(begin.size() == 1, "an offset is a number");
  for (const int64_t step : strides) TORCH_CHECK(step >= 0, "strides are ", strides);
  return x.as_strided(integers(size), strides, begin[0]);
}

Tensor strided_sum(const Tensor& a, const Tensor& b, int64_t offset_a, int64_t offset_b, int64_t length) {
  constexpr int64_t kBlock = 16;
  const auto blocks = [&](const Tensor& t, int64_t offset) {
    TORCH_CHECK(t.dim() >= 2, "an image has at least two dimensions");
    const int64_t whole = (t.size(1) + kBlock - 1) / kBlock;
    TORCH_CHECK(offset >= 0 && length >= 0 && length <= whole && offset <= whole - length, "blocks ", offset, " and ",
                length, " more of ", whole);
    std::vector<int64_t> padding(2 * (t.dim() - 1), 0);
    padding.back() = whole * kBlock - t.size(1);
    return at::constant_pad_nd(t, padding).narrow(1, offset * kBlock, length * kBlock);
  };
  return blocks(a, offset_a) + blocks(b, offset_b);
}

Tensor range_filled(const Tensor& x, const Tensor& start, const Tensor& end, const Tensor& value, int64_t axis) {
  TORCH_CHECK(x.dim() > 0 && axis >= -x.dim() && axis < x.dim(), "axis is ", axis, " of ", x.dim(), " dimensions");
  TORCH_CHECK(start.dim() == 2 && start.sizes() == end.sizes() && value.numel() == start.size(0),
              "start, end and value have shapes ", start.sizes(), ", ", end.sizes(), " and ", value.sizes());
  const int64_t along = axis < 0 ? axis + x.dim() : axis, length = x.size(along);
  const auto places = at::arange(length, at::kLong);
  const auto inside =
      (places >= start.unsqueeze(-1)).logical_and_(places < end.unsqueeze(-1));  // [count, rows, length]
  const bool by_row = x.dim() > 1 && along == x.dim() - 1;
  TORCH_CHECK(!by_row || start.size(1) <= x.size(0), "start has ", start.size(1), " rows of ", x.size(0));
  auto result = x.clone();
  for (int64_t i = 0; i < start.size(0); i++) {
    std::vector<int64_t> sizes(x.dim(), 1);
    sizes[along] = length;
    Tensor mask;
    if (by_row) {
      mask = at::constant_pad_nd(inside[i], {0, 0, 0, x.size(0) - start.size(1)});
      sizes[0] = x.size(0);
    } else {
      mask = inside[i].any(0);
    }
    result = at::where(mask.view(sizes), value.reshape({-1})[i], result);
  }
  return result;
}

Tensor packed_signs(const Tensor& x, int64_t size) {
  TORCH_CHECK(x.dim() == 1 && size > 0 && size <= int64_t{1} << 30, "x is a row, size positive");
  const int64_t missing = (8 * size - x.numel() % (8 * size)) % (8 * size);
  const auto bits = at::constant_pad_nd((x >= 0).to(at::kInt), {0, missing}).view({-1, 8});
  const auto weights = at::bitwise_left_shift(at::ones({8}, at::kInt), at::arange(8, at::kInt));
  return (bits * weights).sum(1).to(at::kByte).view({size, -1});
}

Tensor unpacked_signs(const Tensor& x, int64_t size) {
  TORCH_CHECK(x.dim() == 1 && size > 0 && x.numel() % size == 0, "x is a row of a multiple of size bytes");
  const auto bits = at::bitwise_right_shift(x.to(at::kInt).unsqueeze(-1), at::arange(8, at::kInt)).bitwise_and(1);
  return (bits * 2 - 1).view({size, -1});
}

Tensor normalized_batch(const Tensor& x, const Tensor& lengths, bool whole, double epsilon) {
  TORCH_CHECK(x.dim() == 3 && lengths.numel() == x.size(0), "x is [batch, features, length], one length for each");
  const auto length = lengths.reshape({-1, 1, 1});
  const std::vector<int64_t> dims = whole ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2};
  const auto numbers = x.to(at::kFloat);
  const auto seen = (at::arange(x.size(2), at::kLong) < length).to(at::kFloat);
  const auto count = length.to(at::kFloat) * (whole ? x.size(1) : 1);
  const auto mean = (numbers * seen).sum(dims, true) / count;
  const auto deviation = (((numbers - mean) * seen).square().sum(dims, true) / (count - 1)).sqrt();
  return (numbers - mean) / (deviation + epsilon);
}

}  // namespace softnpu::kernels
