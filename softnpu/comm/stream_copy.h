// Copies around the caches. What a large collective writes is not read again before it has left the caches, and an
// ordinary store would first fetch the line it overwrites: a third of the traffic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace softnpu::comm {

enum class Store { cached, streaming };

inline void copy_bytes(char* to, const char* from, size_t bytes, Store store) {
#ifdef __SSE2__
  if (store == Store::streaming && bytes >= 256) {
    const size_t head = -reinterpret_cast<uintptr_t>(to) & 15;
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    for (; bytes >= 64; to += 64, from += 64, bytes -= 64) {
      const auto* source = reinterpret_cast<const __m128i*>(from);
      auto* target = reinterpret_cast<__m128i*>(to);
      const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
      const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
      _mm_stream_si128(target, a);
      _mm_stream_si128(target + 1, b);
      _mm_stream_si128(target + 2, c);
      _mm_stream_si128(target + 3, d);
    }
  }
#else
  (void)store;
#endif
  memcpy(to, from, bytes);
}

// After streaming stores, before others may look.
inline void finish_stores(Store store) {
#ifdef __SSE2__
  if (store == Store::streaming) _mm_sfence();
#else
  (void)store;
#endif
}

}  // namespace softnpu::comm
