// Numbers that Fourier transforms multiply with, on the card: made once for a length and kept. Called by fourier.cpp,
// on any thread.
//
// Note [Fourier transforms as products]: with n = f1 * f2 * ... the transform of n numbers is one product with matrices
// for each factor. Input j = j1 * (n / f1) + j', output k = k1 + f1 * k': the first product sums over j1, and what is
// left, for each k1, is a transform of n / f1 numbers with twiddle factors, of which those that belong to j2 are part
// of the second product's matrices, one for each k1. So product s, behind P = f1 * ... * f(s-1) outputs, has P
// matrices, and in the one for the outputs K = k1 + f1 * k2 + ... the number exp(-+ 2 pi i * j * (K + P * k) / (P * f))
// in row k and column j. Complex numbers are two real ones: rows are (k, part), columns (part, j), which is how the
// numbers of one product lie in memory for the next. The official client was seen to send the same products.
#pragma once

#include <vector>

#include "ops/tensor.h"

namespace npu::ops::fourier {

// A transform along one dimension.
struct Line {
  int64_t length;          // inputs
  int64_t wanted;          // outputs, from the first
  bool forward;            // the sign of the exponent is negative
  bool real_in, real_out;  // no imaginary parts are read, or made
};

// Whether the products of a length are done at once. Longer ones are cut in two, and lengths with a large prime factor
// become a convolution.
bool is_direct(int64_t length);
bool has_large_prime(int64_t length);
// Two factors, near to each other, whose product is `length`.
std::pair<int64_t, int64_t> halves(int64_t length);

// The factors of a direct length, largest first.
std::vector<int64_t> factors(int64_t length);

// Matrices of the products: [P, rows, columns] each. `dtype` is real.
std::vector<Tensor> matrices(const Line& line, at::ScalarType dtype);
// exp(-+ 2 pi i * j * k / (p * q)) as a complex tensor [p, q].
Tensor twiddles(int64_t p, int64_t q, bool forward, at::ScalarType dtype);
// exp(-+ pi i * j * j / n) as a complex tensor [n].
Tensor chirp(int64_t length, bool forward, at::ScalarType dtype);

}  // namespace npu::ops::fourier
