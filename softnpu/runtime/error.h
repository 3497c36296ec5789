// How softnpu reports errors: code inside throws one Failure, the C boundary turns it into a code and a message.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "record.h"

#pragma GCC visibility push(default)
namespace softnpu {

// An error with its ACL code. `text` is one sentence that names the argument or object at fault.
struct Failure : std::exception {
  int code;
  std::string text;
  Failure(int code, std::string text) : code(code), text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
};

[[noreturn]] void fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

// The calling thread's last message (aclGetRecentErrMsg), without allocation on the success path.
void remember(const char* entry, int code, const char* text) noexcept;
// Gives and forgets it: NULL when there is none. Valid until the thread's next take_message().
const char* take_message() noexcept;
int last_code(bool forget) noexcept;  // of the calling thread, 0 when no call failed

// True in a child forked after the first device use; such a child may not touch devices. See Note [Fork] in fork.cpp.
extern bool g_forked;
inline bool forked() noexcept { return g_forked; }
int refuse_forked(const char* entry) noexcept;

template <class Body>
int guarded(const char* entry, Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (const Failure& f) {
    remember(entry, f.code, f.what());
    return f.code;
  } catch (const std::bad_alloc&) {
    remember(entry, 207001, "host memory exhausted");
    return 207001;
  } catch (const std::exception& e) {
    remember(entry, 507000, e.what());
    return 507000;
  } catch (...) {
    remember(entry, 507000, "unknown C++ exception");
    return 507000;
  }
}

// Runs the body of a C entry point: 0, or the code of whatever it threw, with the message remembered.
template <class Body>
int guard(const char* entry, Body&& body) noexcept {
  if (__builtin_expect(forked(), false)) return refuse_forked(entry);
  if (__builtin_expect(recording(), false)) {
    const RecordedCall call(entry);
    return call.end(guarded(entry, std::forward<Body>(body)));
  }
  return guarded(entry, std::forward<Body>(body));
}

}  // namespace softnpu
#pragma GCC visibility pop
