// Where in the user's Python program the calling thread is, for dumps and errors. libtorch_npu.so knows no Python:
// csrc/python says how to find it.
#pragma once

#include <string>

namespace npu {

using PythonLine = std::string (*)();
void set_python_line(PythonLine function) noexcept;
std::string python_line();  // "train.py:12 in forward"; empty on a thread without Python. Takes Python's lock.

}  // namespace npu
