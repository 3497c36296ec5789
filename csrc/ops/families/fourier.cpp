// Fourier transforms on a provider without extension entries: products with matrices, see Note [Fourier transforms as
// products]. They take over from the rows of tables/fft.yaml, see Note [Operators that the provider lacks].
#include <ATen/ATen.h>

#include "aclnn/op.h"
#include "ops/composition.h"
#include "ops/families/fourier_tables.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

using fourier::Line;

Tensor along(const Tensor& x, int64_t dim, const Line& line);

// A complex table in the shape that multiplies `x` along the dimensions from `dim` on.
Tensor placed(const Tensor& table, const Tensor& x, int64_t dim) {
  Sizes sizes(table.sizes().begin(), table.sizes().end());
  sizes.resize(x.dim() - dim, 1);
  return table.view(sizes);
}

Tensor products(const Tensor& x, int64_t dim, const Line& line) {
  Sizes result(x.sizes().begin(), x.sizes().end());
  const auto before = c10::multiply_integers(x.sizes().slice(0, dim));
  const auto behind = c10::multiply_integers(x.sizes().slice(dim + 1));
  // The parts of the numbers first, then the dimension of the transform.
  auto numbers = line.real_in ? x.reshape({1, before, line.length, behind}).transpose(1, 2)
                              : at::view_as_real(x).reshape({before, line.length, behind, 2}).permute({3, 1, 0, 2});
  numbers = numbers.contiguous();
  for (const auto& matrix : fourier::matrices(line, numbers.scalar_type())) {
    numbers = numbers.view({matrix.size(0), matrix.size(2), -1});
    auto product = empty({matrix.size(0), matrix.size(1), numbers.size(2)}, numbers.scalar_type());
    NPU_EXEC(aclnnMatmul, matrix, numbers, product, int8_t{0});
    numbers = product;
  }
  // [k1, k2, ..., part, before, behind], of which the last k is the slowest.
  const auto factors = fourier::factors(line.length);
  const auto count = static_cast<int64_t>(factors.size()), parts = int64_t{line.real_out ? 1 : 2};
  Sizes shape(factors.begin(), factors.end() - 1), order{count + 1};
  shape.append({numbers.numel() / (line.length / factors.back() * parts * before * behind), parts, before, behind});
  for (int64_t s = count; s-- > 0;) order.push_back(s);
  order.append({count + 2, count});
  const auto made = line.length / factors.back() * shape[count - 1];
  numbers = numbers.view(shape).permute(order).reshape({before, made, behind, parts});
  numbers = numbers.narrow(1, 0, line.wanted).contiguous();
  result[dim] = line.wanted;
  return (line.real_out ? numbers : at::view_as_complex(numbers)).view(result);
}

// A transform of p * q numbers as p transforms of q numbers behind q transforms of p.
Tensor in_two(const Tensor& x, int64_t dim, bool forward) {
  const auto [p, q] = fourier::halves(x.size(dim));
  auto y = along(x.unflatten(dim, {p, q}), dim, {p, p, forward, false, false});
  y = y * placed(fourier::twiddles(p, q, forward, x.scalar_type()), y, dim);
  return along(y, dim + 1, {q, q, forward, false, false}).transpose(dim, dim + 1).flatten(dim, dim + 1);
}

// With j * k = (j * j + k * k - (k - j) * (k - j)) / 2 a transform of any length is a convolution, which transforms of
// a convenient length do.
Tensor convolved(const Tensor& x, int64_t dim, bool forward) {
  const int64_t n = x.size(dim);
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const auto chirp = fourier::chirp(n, forward, x.scalar_type());
  const auto inverse = fourier::chirp(n, !forward, x.scalar_type());
  auto filter = at::zeros({length}, chirp.options());
  filter.narrow(0, 0, n).copy_(inverse);
  filter.narrow(0, length - n + 1, n - 1).copy_(inverse.narrow(0, 1, n - 1).flip(0));
  Sizes sizes(x.sizes().begin(), x.sizes().end());
  sizes[dim] = length;
  auto padded = at::zeros(sizes, x.options());
  padded.narrow(dim, 0, n).copy_(x * placed(chirp, x, dim));
  const Line there{length, length, true, false, false}, back{length, length, false, false, false};
  auto y = along(padded, dim, there) * placed(along(filter, 0, there), x, dim);
  y = along(y, dim, back).narrow(dim, 0, n) * placed(chirp, x, dim);
  return y.mul_(1.0 / static_cast<double>(length));
}

// `x` is complex, or real if the line is. Nothing is scaled.
Tensor along(const Tensor& x, int64_t dim, const Line& line) {
  if (fourier::is_direct(line.length)) return products(x, dim, line);
  auto y = line.real_in ? x.to(complex_type(x)) : x;
  y = fourier::has_large_prime(line.length) ? convolved(y, dim, line.forward) : in_two(y, dim, line.forward);
  y = y.narrow(dim, 0, line.wanted);
  return line.real_out ? at::real(y).contiguous() : y.contiguous();
}

// The spectrum of `length` real numbers, of which `half` has the first half.
Tensor whole_spectrum(const Tensor& half, int64_t dim, int64_t length) {
  const auto known = at::view_as_real(half);
  auto rest = known.narrow(dim, 1, length - half.size(dim)).flip(dim);
  rest.select(-1, 1).neg_();
  return at::view_as_complex(at::cat({known, rest}, dim));
}

enum Normalization : int64_t { none, by_root, by_length };  // upstream's fft_norm_mode

Tensor scaled(Tensor x, int64_t normalization, at::IntArrayRef lengths, at::IntArrayRef dims) {
  double factor = 1;
  for (const int64_t d : dims) factor *= static_cast<double>(lengths[d]);
  if (normalization == none || x.numel() == 0) return x;
  (x.is_complex() ? at::view_as_real(x) : x).mul_(1 / (normalization == by_root ? std::sqrt(factor) : factor));
  return x;
}

c10::DimVector wrapped(const Tensor& self, at::IntArrayRef dims) {
  c10::DimVector all(dims.begin(), dims.end());
  at::maybe_wrap_dims(all, self.dim());
  return all;
}

Tensor fft_c2c(const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward) {
  CardGuard guard(self);
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, but got ", self.scalar_type());
  if (dim.empty() || self.numel() == 0) return self.clone();
  const auto dims = wrapped(self, dim);
  Tensor x = *resolved(self);
  for (const int64_t d : dims) x = along(x, d, {x.size(d), x.size(d), forward, false, false});
  return scaled(x, normalization, self.sizes(), dims);
}

Tensor fft_r2c(const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided) {
  CardGuard guard(self);
  TORCH_CHECK(self.is_floating_point(), "_fft_r2c: expected a real tensor, but got ", self.scalar_type());
  if (self.numel() == 0) return make(half_spectrum(self, dim, onesided));
  auto dims = wrapped(self, dim);
  const int64_t length = self.size(dims.back());
  auto x = along(*resolved(self), dims.back(), {length, onesided ? length / 2 + 1 : length, true, true, false});
  for (const int64_t d : at::IntArrayRef(dims).slice(0, dims.size() - 1))
    x = along(x, d, {x.size(d), x.size(d), true, false, false});
  return scaled(x, normalization, self.sizes(), dims);
}

Tensor fft_c2r(const Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size) {
  CardGuard guard(self);
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, but got ", self.scalar_type());
  const auto dims = wrapped(self, dim);
  const auto spec = real_signal(self, dims, last_dim_size);
  if (self.numel() == 0) return make(spec);
  Tensor x = *resolved(self);
  for (const int64_t d : at::IntArrayRef(dims).slice(0, dims.size() - 1))
    x = along(x, d, {x.size(d), x.size(d), false, false, false});
  x = whole_spectrum(x, dims.back(), last_dim_size);
  x = along(x, dims.back(), {last_dim_size, last_dim_size, false, false, true});
  return scaled(x, normalization, spec.sizes, dims);
}

Tensor& fft_c2c_out(const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool forward, Tensor& out) {
  return write_out(out, fft_c2c(self, dim, normalization, forward));
}
Tensor& fft_r2c_out(const Tensor& self, at::IntArrayRef dim, int64_t normalization, bool onesided, Tensor& out) {
  return write_out(out, fft_r2c(self, dim, normalization, onesided));
}
Tensor& fft_c2r_out(const Tensor& self, at::IntArrayRef dim, int64_t normalization, int64_t last_dim_size,
                    Tensor& out) {
  return write_out(out, fft_c2r(self, dim, normalization, last_dim_size));
}

}  // namespace

NPU_REGISTER(fourier) {
  composed("aten::_fft_c2c", "", &fft_c2c);
  composed("aten::_fft_c2c", "out", &fft_c2c_out);
  composed("aten::_fft_r2c", "", &fft_r2c);
  composed("aten::_fft_r2c", "out", &fft_r2c_out);
  composed("aten::_fft_c2r", "", &fft_c2r);
  composed("aten::_fft_c2r", "out", &fft_c2r_out);
}

}  // namespace npu::ops
