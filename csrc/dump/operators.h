// The ATen operators that the calling thread is in, as torch's observers of the dispatcher tell them; only while
// somebody watches launches. Also counts steps, which end with an optimiser's step().
#pragma once

#include <string>
#include <vector>

#include "runtime/watchers.h"

namespace npu::dump {

// A tensor argument: enough to find it again among those of a launch.
struct TensorKey {
  const void* storage;
  int64_t offset;
  std::vector<int64_t> sizes;
  bool is_out;  // only written
};

struct Operator {
  std::string name, overload;  // "aten::add", "Tensor"; no overload for the default one
  // JSON of the arguments, in the schema's order. Tensors are {"tensor": i}, a place in `tensors`.
  std::string arguments;
  std::vector<TensorKey> tensors;
  bool in_dispatcher = false;  // not a range that Python or autograd has named
};

// Innermost last. Of the calling thread.
const std::vector<Operator>& operators();
const Operator* innermost();  // of the dispatcher's; null outside of any
std::string scope();          // the names around it, outermost first

int64_t step();
// For a dump with their arguments, beginning at step 0; for others their names.
void observe_operators(watchers::Watcher watcher, bool on);

}  // namespace npu::dump
