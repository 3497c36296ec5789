// Huge pages for the cards' files, whatever the system's default for shared memory is.
//
// Note [Huge pages]
// Kernels that stream through memory are bound by address translation when pages are small, and committing 512 pages
// costs far more than one of 2 MB. The kernel's setting for shared memory is "never" on most systems; an explicit
// MADV_COLLAPSE is not bound by it. It needs one page to begin with, so the first of each 2 MB is committed, and the
// rest comes with the collapse, without a copy. Where that is refused (an old kernel, no free block of 2 MB), small
// pages follow.
#pragma once

#include <cstddef>

namespace softnpu {

constexpr size_t kHugePage = size_t{2} << 20;

// Backs the whole blocks of 2 MB in this range of a file, which is empty, by huge pages if the system gives them.
void commit_huge_pages(int fd, size_t offset, size_t bytes) noexcept;

}  // namespace softnpu
