// Tensors that kernels make for themselves lie before pages without access: a kernel that writes behind one ends there
// and then, not in some later call. guard.cpp takes the place of posix_memalign, which ATen allocates with, and of
// free; under AddressSanitizer that one does it.
#pragma once

namespace fuzz {

// Whether the libraries get to see these functions: not when the linker hides them.
bool guards_tensors();

}  // namespace fuzz
