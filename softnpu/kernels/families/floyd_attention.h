// Attention over triangles: edge (i, k) attends to every j through the edges (i, j) and (j, k).
#pragma once

#include "kernels/families/nn.h"

namespace softnpu::kernels::floyd {

// (batch, heads, i, k, size), (batch, heads, i, j, size), (batch, heads, j, k, size)
struct Inputs {
  const Tensor &query, &key_ij, &value_ij, &key_jk, &value_jk;
  Optional mask;  // of (batch, heads, i, k, j), broadcast: what is hidden
  double scale;
};
void check(const Inputs& in, const Tensor& max, const Tensor& sum, const Tensor& out);
void forward(Tensor& max, Tensor& sum, Tensor& out, const Inputs& in);
struct Gradients {
  Tensor &query, &key_ij, &value_ij, &key_jk, &value_jk;
};
void backward(const Gradients& gradients, const Tensor& dy, const Tensor& max, const Tensor& sum, const Tensor& out,
              const Inputs& in);

}  // namespace softnpu::kernels::floyd
