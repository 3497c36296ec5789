#include "guard.h"

#ifndef __SANITIZE_ADDRESS__

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" void __libc_free(void*);

namespace {

constexpr size_t kPage = 4096, kPages = size_t{1} << 24;  // 64 GiB of addresses, used once each
constexpr size_t kLarge = size_t{1} << 20;                // larger ones are libc's: they would use the addresses up
std::atomic<size_t> g_next{0};

void* reserve(size_t bytes, int access) {
  return mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
char* base() {
  static char* const memory = static_cast<char*>(reserve(kPages * kPage, PROT_NONE));
  return memory;
}
uint32_t* lengths() {  // in pages, by first page
  static auto* const table = static_cast<uint32_t*>(reserve(kPages * sizeof(uint32_t), PROT_READ | PROT_WRITE));
  return table;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int posix_memalign(void** out, size_t alignment, size_t bytes) {
  const size_t unit = alignment < 16 ? alignment : 16;
  const size_t size = (bytes + unit - 1) / unit * unit, pages = size / kPage + 1;
  const bool guarded = bytes < kLarge && alignment <= kPage;
  const size_t first = guarded ? g_next.fetch_add(pages + 1) : kPages;
  if (first + pages + 1 > kPages) {
    *out = aligned_alloc(alignment, bytes);
    return *out ? 0 : ENOMEM;
  }
  char* const begin = base() + first * kPage;
  if (mprotect(begin, pages * kPage, PROT_READ | PROT_WRITE) != 0) return ENOMEM;
  lengths()[first] = static_cast<uint32_t>(pages);
  *out = begin + pages * kPage - (size ? size : unit);
  return 0;
}

EXPORTED void free(void* address) {
  const size_t offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base());
  if (offset >= kPages * kPage) return __libc_free(address);
  size_t first = offset / kPage;
  while (lengths()[first] == 0) --first;
  const size_t bytes = lengths()[first] * kPage;
  madvise(base() + first * kPage, bytes, MADV_DONTNEED);
  mprotect(base() + first * kPage, bytes, PROT_NONE);
}

bool fuzz::guards_tensors() {
  return dlsym(RTLD_DEFAULT, "posix_memalign") == reinterpret_cast<void*>(&posix_memalign) &&
         dlsym(RTLD_DEFAULT, "free") == reinterpret_cast<void*>(&free);
}

#else

bool fuzz::guards_tensors() { return true; }

#endif
