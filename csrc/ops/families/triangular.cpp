// Triangular systems, and Cholesky's factorisation on a provider without its extension entry (see Note [Operators that
// the provider lacks]).
#include <ATen/ATen.h>
#include <ATen/native/LinearAlgebraUtils.h>

#include "aclnn/op.h"
#include "ops/composition.h"
#include "ops/register.h"
#include "ops/rules.h"

namespace npu::ops {

namespace {

// The operator solves a * x = b. With a on the right it is the same for the transposed matrices.
Tensor solve_triangular(const Tensor& self, const Tensor& b, bool upper, bool left, bool unitriangular) {
  CardGuard guard(self);
  at::native::checkInputsSolver(self, b, left, "linalg.solve_triangular");
  check_same_device("linalg.solve_triangular", {&self, &b});
  const auto [right_side, matrix] = at::native::_linalg_broadcast_batch_dims(*resolved(b), *resolved(self), nullptr);
  const auto given = left ? right_side : right_side.mT(), a = left ? matrix : matrix.mT();
  auto x = empty(given.sizes(), given.scalar_type());
  if (x.numel() > 0) {
    auto read = empty(a.sizes(), a.scalar_type());
    NPU_EXEC(aclnnTriangularSolve, given, a, left ? upper : !upper, false, unitriangular, x, read);
  }
  return left ? x : x.mT();
}

Tensor& solve_triangular_out(const Tensor& self, const Tensor& b, bool upper, bool left, bool unitriangular,
                             Tensor& out) {
  return write_out(out, solve_triangular(self, b, upper, left, unitriangular));
}

// The operator says nothing of a matrix that is not positive definite. The factorisation stops at the first pivot that
// is not positive and leaves it in its place, as LAPACK's: its number is what `info` is to be.
Tensor first_bad_pivot(const Tensor& factor) {
  const auto pivots = at::real(factor.diagonal(0, -2, -1));
  const int64_t count = pivots.size(-1);
  if (factor.numel() == 0)
    return at::zeros(factor.sizes().slice(0, factor.dim() - 2), pivots.options().dtype(at::kInt));
  const auto places = at::arange(1, count + 1, pivots.options().dtype(at::kInt));
  const auto none = at::full({}, count + 1, places.options());
  return at::where(pivots.gt(0), none, places).amin(-1).remainder_(count + 1);
}

std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& self, bool upper, bool check_errors) {
  CardGuard guard(self);
  at::native::squareCheckInputs(self, "linalg.cholesky");
  at::native::checkFloatingOrComplex(self, "linalg.cholesky");
  auto factor = empty(self.sizes(), self.scalar_type());
  if (factor.numel() > 0) NPU_EXEC(aclnnLinalgCholesky, resolved(self), upper, factor);
  auto info = first_bad_pivot(factor);
  if (check_errors) check_linalg(info, "torch.linalg.cholesky_ex", self.dim() == 2);
  return {factor, info};
}

std::tuple<Tensor&, Tensor&> cholesky_ex_out(const Tensor& self, bool upper, bool check_errors, Tensor& factor,
                                             Tensor& info) {
  const auto [made, code] = cholesky_ex(self, upper, check_errors);
  return {write_out(factor, made), write_out(info, code)};
}

}  // namespace

NPU_REGISTER(triangular) {
  manual("aten::linalg_solve_triangular", "", &solve_triangular, "aclnnTriangularSolve");
  manual("aten::linalg_solve_triangular", "out", &solve_triangular_out, "aclnnTriangularSolve");
  composed("aten::linalg_cholesky_ex", "", &cholesky_ex);
  composed("aten::linalg_cholesky_ex", "L", &cholesky_ex_out);
}

}  // namespace npu::ops
