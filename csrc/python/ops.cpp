// torch_npu._C: which operators the npu has, and which ran on the CPU because it has none.
#include <pybind11/stl.h>

#include "ops/fallback.h"
#include "ops/support.h"
#include "python/module.h"

namespace npu::python {

void bind_ops(py::module_& module) {
  module.def("fallback_counts", torch::wrap_pybind_function(&ops::fallback_counts));
  module.def("operators", torch::wrap_pybind_function(&ops::operators));
  module.def("refused_operators", torch::wrap_pybind_function(&ops::refused_operators));
  module.def("withdrawn_operators", torch::wrap_pybind_function(&ops::withdrawn_operators));
  module.def("reset_fallback_counts", torch::wrap_pybind_function(&ops::reset_fallback_counts));
}

}  // namespace npu::python
