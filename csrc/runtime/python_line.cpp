#include "runtime/python_line.h"

#include <atomic>

namespace npu {

namespace {
std::atomic<PythonLine> g_function{nullptr};
}  // namespace

void set_python_line(PythonLine function) noexcept { g_function = function; }

std::string python_line() {
  const PythonLine function = g_function;
  return function ? function() : "";
}

}  // namespace npu
