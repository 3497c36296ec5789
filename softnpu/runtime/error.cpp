#include "error.h"

#include <cstdarg>
#include <cstdio>

#include "acl_types.h"

namespace softnpu {

namespace {

struct LastError {
  int code = 0;
  std::string text;
  std::string handed_out;
};
thread_local LastError t_error;

}  // namespace

void fail(int code, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Failure(code, text);
}

void remember(const char* entry, int code, const char* text) noexcept {
  t_error.code = code;
  try {
    t_error.text = std::string("[softnpu] ") + entry + ": " + text + " (code " + std::to_string(code) + ")";
  } catch (...) {
    t_error.text.clear();  // out of host memory: the code alone has to do
  }
}

const char* take_message() noexcept {
  if (t_error.text.empty()) return nullptr;
  t_error.handed_out.swap(t_error.text);
  t_error.text.clear();
  return t_error.handed_out.c_str();
}

int last_code(bool forget) noexcept {
  const int code = t_error.code;
  if (forget) t_error.code = 0;
  return code;
}

int refuse_forked(const char* entry) noexcept {
  remember(entry, ACL_ERROR_RT_CONTEXT_NULL,
           "this process was forked after its parent had used a card; a forked child cannot use cards, "
           "start it with the 'spawn' or 'forkserver' method instead");
  return ACL_ERROR_RT_CONTEXT_NULL;
}

}  // namespace softnpu
