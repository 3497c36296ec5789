// torch.set_num_threads holds for copies as well as for kernels: the runtime, which does not know torch, asks here.
#include <ATen/Parallel.h>

#include "runtime/copy.h"

namespace softnpu::kernels {

namespace {

[[maybe_unused]] const bool g_told = (set_thread_count([] { return at::get_num_threads(); }), true);

}  // namespace

}  // namespace softnpu::kernels
