// The profiler's reporting functions that clients link. No profiler ever listens on softnpu: reports are dropped, times
// and hashes are real. The facts have no prototypes; these are the parameters seen at call sites.
#include <time.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

uint64_t MsprofSysCycleTime() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

uint64_t MsprofGetHashId(const char* text, size_t length) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (size_t i = 0; text && i < length; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 1099511628211u;
  return hash;
}

int MsprofRegisterCallback() { return 0; }
int MsprofReportApi() { return 0; }
int MsprofReportCompactInfo() { return 0; }
int MsprofReportAdditionalInfo() { return 0; }

}  // extern "C"
#pragma GCC visibility pop
