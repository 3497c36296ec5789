// Tensors in private formats, which a matrix or convolution unit reads in blocks. Note [Private formats]: the memory of
// FRACTAL_NZ holds blocks of 16 rows and C0 columns, column of blocks by column of blocks: a matrix of m rows and n
// columns is [n / C0, m / 16, 16, C0], rounded up and filled with zeros. NC1HWC0 splits the channels of an image:
// [N, C / C0, H, W, C0]. A descriptor names the format and these sizes as those of its storage. A table says under
// `formatted` which arguments of an operator may come so; its kernel sees the elements in their order, in memory that
// lives while it runs, and what it writes is put into blocks again.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/objects.h"

namespace softnpu::kernels {

bool is_private(aclFormat format);

// The sizes of the storage in blocks of C0 elements. Throws Failure for sizes that the format does not have.
std::vector<int64_t> stored_sizes(aclFormat format, at::IntArrayRef sizes, int64_t c0);

// An argument that is stored in blocks.
struct Formatted {
  aclFormat format;
  bool written;
  at::Tensor stored;  // over device memory
  at::Tensor plain;   // the same elements in their order; without memory between runs

  void unpack();  // gives `plain` its memory
  void pack();    // writes `stored`, if the operator does
  void release();
};

// The sizes in which the elements of `t` lie, a whole tensor or its transpose. Throws Failure for other views, and for
// a storage of other sizes.
std::vector<int64_t> base_sizes(const aclTensor& t);

}  // namespace softnpu::kernels
