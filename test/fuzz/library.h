// The libraries under test, and one way to call whatever they export.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "acl.h"
#include "aclnn.h"
#include "hccl.h"

namespace fuzz {

inline void* symbol(const char* name) {
  static void* const library = [] {
    const char* path = getenv("FUZZ_LIBRARY");
    void* opened = dlopen(path ? path : NPU_FUZZ_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!opened) fprintf(stderr, "%s\n", dlerror()), exit(2);
    return opened;
  }();
  return dlsym(library, name);
}

#define ACL(name) (reinterpret_cast<decltype(&name)>(fuzz::symbol(#name)))

// Integers and pointers, and apart from them floating-point numbers, each in the order of the parameters: the calling
// conventions of Linux on x86-64 and AArch64 keep the two apart and let a caller pass more than is read.
constexpr size_t kMostIntegers = 80, kMostReals = 8;
struct Arguments {
  uint64_t integers[kMostIntegers] = {};
  double reals[kMostReals] = {};
  size_t integer_count = 0, real_count = 0;
  void add(uint64_t value) { integers[integer_count++ % kMostIntegers] = value; }
  void add(const void* pointer) { add(reinterpret_cast<uint64_t>(pointer)); }
  void add_real(double value) { reals[real_count++ % kMostReals] = value; }
};

template <size_t... I, size_t... R>
uint64_t call(void* function, const Arguments& a, std::index_sequence<I...>, std::index_sequence<R...>) {
  using Function = uint64_t (*)(decltype(I, uint64_t{})..., decltype(R, double{})...);
  return reinterpret_cast<Function>(function)(a.integers[I]..., a.reals[R]...);
}

inline uint64_t call(void* function, const Arguments& a) {
  return call(function, a, std::make_index_sequence<kMostIntegers>(), std::make_index_sequence<kMostReals>());
}

}  // namespace fuzz
