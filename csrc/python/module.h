// Each file of this folder binds one concept onto the extension module torch_npu._C; module.cpp calls them all.
// Functions are wrapped by torch::wrap_pybind_function (or its _no_gil form when they can wait), which translates
// c10 errors; the few that are called per operator are plain CPython functions inside guarded().
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

namespace npu::python {

namespace py = pybind11;

void bind_captured_call(py::module_& module);
void bind_debug(py::module_& module);
void bind_device(py::module_& module);
void bind_distributed(py::module_& module);
void bind_event(py::module_& module);
void bind_graph(py::module_& module);
void bind_inspection(py::module_& module);
void bind_memory(py::module_& module);
void bind_ops(py::module_& module);
void bind_options(py::module_& module);
void bind_profiler(py::module_& module);
void bind_recovery(py::module_& module);
void bind_random(py::module_& module);
void bind_sharing(py::module_& module);
void bind_stream(py::module_& module);

// Runs the body of a CPython function with torch's translation of C++ errors and warnings.
template <typename Body>
PyObject* guarded(Body&& body) {
  HANDLE_TH_ERRORS
  return body();
  END_HANDLE_TH_ERRORS
}

// Cheaper than pybind11::gil_scoped_release, for calls of well under a microsecond that may have to wait.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace npu::python
