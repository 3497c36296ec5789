// Numbers with their derivatives by a few variables, for gradients of formulas that are written once.
#pragma once

#include <array>
#include <cmath>

namespace softnpu::kernels {

template <int N>
struct Dual {
  double value = 0;
  std::array<double, N> by{};

  Dual(double v = 0) : value(v) {}  // NOLINT: a constant
  static Dual variable(double v, int i) {
    Dual x(v);
    x.by[i] = 1;
    return x;
  }
  // f(a, b) with the derivatives da and db.
  static Dual join(double v, const Dual& a, double da, const Dual& b, double db) {
    Dual x(v);
    for (int i = 0; i < N; i++) x.by[i] = (da == 0 ? 0 : da * a.by[i]) + (db == 0 ? 0 : db * b.by[i]);
    return x;
  }
  friend Dual operator+(const Dual& a, const Dual& b) { return join(a.value + b.value, a, 1, b, 1); }
  friend Dual operator-(const Dual& a, const Dual& b) { return join(a.value - b.value, a, 1, b, -1); }
  friend Dual operator*(const Dual& a, const Dual& b) { return join(a.value * b.value, a, b.value, b, a.value); }
  friend Dual operator/(const Dual& a, const Dual& b) {
    return join(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
  }
};

// Of equal numbers each has half of the derivative, as torch has it.
template <int N>
Dual<N> smaller(const Dual<N>& a, const Dual<N>& b) {
  const double share = a.value < b.value ? 1 : a.value > b.value ? 0 : 0.5;
  return Dual<N>::join(std::fmin(a.value, b.value), a, share, b, 1 - share);
}
template <int N>
Dual<N> larger(const Dual<N>& a, const Dual<N>& b) {
  const double share = a.value > b.value ? 1 : a.value < b.value ? 0 : 0.5;
  return Dual<N>::join(std::fmax(a.value, b.value), a, share, b, 1 - share);
}
// A constant takes over only where it is larger.
template <int N>
Dual<N> at_least(const Dual<N>& a, double least) {
  return a.value >= least ? a : Dual<N>(least);
}
template <int N>
Dual<N> arctangent(const Dual<N>& a) {
  return Dual<N>::join(std::atan(a.value), a, 1 / (1 + a.value * a.value), a, 0);
}

}  // namespace softnpu::kernels
