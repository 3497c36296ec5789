// torch_npu._C: dumps of operators (dump/session.h), and the line of the user's program for them and for errors.
#include <pybind11/stl.h>

#include "aclnn/origins.h"
#include "dump/session.h"
#include "python/module.h"
#include "runtime/python_line.h"

namespace npu::python {

namespace {

// Folders of torch and torch_npu: what happens there is not the user's line.
std::vector<std::string> library_folders;

bool of_library(const std::string& file) {
  for (const auto& folder : library_folders)
    if (file.compare(0, folder.size(), folder) == 0) return true;
  return false;
}

std::string innermost_user_line() {
  if (!Py_IsInitialized() || _Py_IsFinalizing() || !PyGILState_GetThisThreadState()) return "";
  const py::gil_scoped_acquire lock;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  std::string found;
  while (frame) {
    auto* const at = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    const auto file = code.attr("co_filename").cast<std::string>();
    const bool users = !of_library(file);
    if (found.empty() || users)
      found = c10::str(file, ":", PyFrame_GetLineNumber(at), " in ", code.attr("co_name").cast<std::string>());
    if (users) break;
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return found;
}

}  // namespace

void bind_debug(py::module_& module) {
  using torch::wrap_pybind_function;
  using torch::wrap_pybind_function_no_gil;
  module.def("set_library_folders", wrap_pybind_function([](std::vector<std::string> folders) {
               library_folders = std::move(folders);
               set_python_line(&innermost_user_line);
             }));
  module.def("keep_origins", wrap_pybind_function_no_gil([](bool on) { origins::keep(on); }));
  using Steps = std::vector<std::pair<int64_t, int64_t>>;
  module.def("start_dump",
             wrap_pybind_function_no_gil([](std::string path, std::vector<std::string> operators, Steps steps,
                                            bool inputs, bool outputs, bool data, uint64_t limit) {
               dump::start({std::move(path), std::move(operators), std::move(steps), inputs, outputs, data, limit});
             }),
             py::arg("path"), py::arg("operators"), py::arg("steps"), py::arg("inputs"), py::arg("outputs"),
             py::arg("data"), py::arg("limit"));
  module.def("stop_dump", wrap_pybind_function_no_gil([] { dump::stop(); }));
  module.def("dump_folder", wrap_pybind_function_no_gil([] { return dump::folder(); }));
}

}  // namespace npu::python
