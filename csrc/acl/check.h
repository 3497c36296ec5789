// NPU_CHECK(code): turns a non-zero ACL code into an exception with what is wrong, what to do, the code and the
// device's words. 207001 (out of memory) becomes c10::OutOfMemoryError, anything else c10::AcceleratorError with the
// code.
#pragma once

#include <c10/macros/Macros.h>

#include <string>

namespace npu::acl {

const char* code_name(int code) noexcept;  // "ACL_ERROR_RT_CONTEXT_NULL", or "unknown code"

// `expression` is a call ("acl::api().aclrtSetDevice(d)") or only a function's name.
[[noreturn]] void throw_acl_error(int code, const char* expression, const char* file, int line);

// The last line of every error of this plugin: "[ERROR] <time> (PID:n, Device:n, RankID:n) <text>", where the text is
// ERRmmccc, the module and a short class, such as "ERR00006 PTA memory error".
std::string error_line(const char* text);

// For as long as it lives, errors of this thread are raised at a later call (tasks of the queue): they say so.
class AsynchronousErrors {
 public:
  AsynchronousErrors() noexcept;
  ~AsynchronousErrors();
  AsynchronousErrors(const AsynchronousErrors&) = delete;
  AsynchronousErrors& operator=(const AsynchronousErrors&) = delete;

 private:
  const bool before_;
};

}  // namespace npu::acl

#define NPU_CHECK(expression)                                                                                  \
  do {                                                                                                         \
    const int npu_code_ = (expression);                                                                        \
    if (C10_UNLIKELY(npu_code_ != 0)) ::npu::acl::throw_acl_error(npu_code_, #expression, __FILE__, __LINE__); \
  } while (0)
