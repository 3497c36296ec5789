// What a client calls, written down. Note [Recording]: with SOFTNPU_RECORD=FILE every call of a C function that guard()
// of error.h runs becomes a line of JSON: its name "f", its arguments "a" as pairs of name and value where the entry
// point noted them, its code "rc" and the thread. tools/calls compares the recordings of two clients. With
// SOFTNPU_RECORD_ONCE=1 a process writes each form of a call once, so that a whole test suite can be recorded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#pragma GCC visibility push(default)
namespace softnpu {

extern bool g_recording;
inline bool recording() noexcept { return g_recording; }

// The line of one call. A call inside another one is no call of the client.
class RecordedCall {
 public:
  explicit RecordedCall(const char* entry) noexcept;
  int end(int code) const noexcept;  // writes the line; gives the code

 private:
  const char* const entry_;
};

// An argument of the call that the thread is making; nothing happens unless calls are recorded.
// `form`: what of it belongs to the form of the call. A call without a form has nothing to compare.
void note_json(const char* name, const std::string& json, const std::string& form = {}) noexcept;
void note_bytes(const char* name, const void* bytes, size_t count) noexcept;  // as hexadecimal digits
template <class T>
void note(const char* name, T value) noexcept {
  if (__builtin_expect(!recording(), true)) return;
  if constexpr (std::is_pointer_v<T>)
    note_json(name, std::to_string(reinterpret_cast<intptr_t>(value)));
  else
    note_json(name, std::to_string(static_cast<int64_t>(value)));
}

inline void note_form(const char* name, int64_t value) noexcept {
  if (recording()) note_json(name, std::to_string(value), std::to_string(value) + ';');
}

}  // namespace softnpu
#pragma GCC visibility pop

// Writes a line {"mark": text}, which must not need escaping; NULL stops recording until the next mark.
extern "C" __attribute__((visibility("default"))) void softnpu_record(const char* mark);
