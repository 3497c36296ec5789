// Linear algebra whose results are not in the shape or order that the operators ask for.
#pragma once

#include <ATen/CPUFunctions.h>
#include <ATen/Functions.h>

#include <limits>
#include <string>

#include "kernels/engine/call.h"

namespace softnpu::kernels {

// mode: 0 reduced, 1 complete, 2 only r.
inline void qr(at::Tensor& q, at::Tensor& r, const at::Tensor& self, int64_t mode) {
  auto [orthogonal, triangular] = at::linalg_qr(self, mode == 1 ? "complete" : mode == 2 ? "r" : "reduced");
  if (mode != 2) q.copy_(orthogonal);
  r.copy_(triangular);
}

// ATen's out= forms clear triangles of dense matrices only.
inline void lu(at::Tensor& p, at::Tensor& l, at::Tensor& u, const at::Tensor& a, bool pivot) {
  const auto [order, lower, upper] = at::cpu::linalg_lu(a, pivot);
  if (pivot) p.copy_(order);
  l.copy_(lower);
  u.copy_(upper);
}

inline void lu_unpack(at::Tensor& p, at::Tensor& l, at::Tensor& u, const at::Tensor& lu, const at::Tensor& pivots,
                      bool unpack_data, bool unpack_pivots) {
  const auto [order, lower, upper] = at::cpu::lu_unpack(lu, pivots, unpack_data, unpack_pivots);
  if (unpack_pivots) p.copy_(order);
  if (!unpack_data) return;
  l.copy_(lower);
  u.copy_(upper);
}

// Numbers that a factorisation does not converge to are NaN, as a device cannot raise.
template <class Compute>
void or_nan(std::initializer_list<at::Tensor> results, const Compute& compute) {
  try {
    compute();
  } catch (const c10::LinAlgError&) {
    for (const at::Tensor& result : results) result.fill_(std::numeric_limits<double>::quiet_NaN());
  }
}

inline void eigh(at::Tensor& values, at::Tensor& vectors, const at::Tensor& a, std::string_view uplo, bool compute_v) {
  or_nan({values, vectors}, [&] { at::cpu::_linalg_eigh_out(values, vectors, a, uplo, compute_v); });
}

// v is V itself, not its conjugate transpose.
inline void svd(at::Tensor& u, at::Tensor& s, at::Tensor& v, const at::Tensor& self, bool full_matrices,
                bool compute_uv) {
  or_nan({u, s, v}, [&] {
    auto [left, values, right] = at::_linalg_svd(self, full_matrices, compute_uv);
    s.copy_(values);
    if (!compute_uv) return;
    u.copy_(left);
    v.copy_(right.mH());
  });
}

// Outputs 4 to 7: the residuals' and singular values' sizes depend on the data and the driver.
inline void lstsq(Call& call, const at::Tensor& self, const at::Tensor& b, std::optional<at::Scalar> rcond,
                  const std::string& driver) {
  auto [solution, residuals, rank, singular_values] =
      at::linalg_lstsq(self, b, rcond.has_value() ? std::optional<double>(rcond->toDouble()) : std::nullopt, driver);
  call.set_output(4, solution);
  call.set_output(5, residuals);
  call.set_output(6, rank);
  call.set_output(7, singular_values);
}

}  // namespace softnpu::kernels
