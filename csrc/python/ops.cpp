// torch_npu._C: which operators ran on the CPU because the npu has none.
#include <pybind11/stl.h>

#include "module.h"
#include "ops/fallback.h"

namespace npu::python {

void bind_ops(py::module_& module) {
  module.def("fallback_counts", torch::wrap_pybind_function(&ops::fallback_counts));
  module.def("reset_fallback_counts", torch::wrap_pybind_function(&ops::reset_fallback_counts));
}

}  // namespace npu::python
