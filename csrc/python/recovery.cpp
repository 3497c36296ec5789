// torch_npu._C: what torch_npu/npu/_recovery.py needs. See Note [Recovery] in runtime/recovery.h.
#include "runtime/recovery.h"

#include "acl/memory_fault.h"
#include "memory/lost_data.h"
#include "python/module.h"
#include "runtime/sync_debug.h"

namespace npu::python {

void bind_recovery(py::module_& module) {
  using torch::wrap_pybind_function_no_gil;
  module.def("stop_device", wrap_pybind_function_no_gil(&recovery::stop_device));
  module.def("restart_device", wrap_pybind_function_no_gil(&recovery::restart_device));
  module.def("look_for_fault", wrap_pybind_function_no_gil(
                                   [](c10::DeviceIndex device) { return int{lost_data::look_for_fault(device)}; }));
  module.def("faulty_memory", [](c10::DeviceIndex device) {
    py::list ranges;
    for (const auto& range : acl::memory_fault(device).ranges)
      ranges.append(py::dict(py::arg("ptr") = reinterpret_cast<uintptr_t>(range.addr), py::arg("size") = range.len));
    return ranges;
  });
  module.def("lose_all", wrap_pybind_function_no_gil(&lost_data::lose_all));
  module.def("is_lost", wrap_pybind_function_no_gil([](const at::Tensor& tensor) {
               return lost_data::is_lost(tensor.const_data_ptr(), tensor.device().index());
             }));
  module.def("restore_lost", wrap_pybind_function_no_gil([](const at::Tensor& tensor) {
               lost_data::restore(tensor.const_data_ptr(), tensor.device().index());
             }));
  module.def("set_lost_checked", &lost_data::set_checked);
  module.def("is_lost_checked", &lost_data::is_checked);
  module.def("set_sync_debug_mode", [](int mode) { sync_debug::mode.store(mode); });
  module.def("get_sync_debug_mode", [] { return sync_debug::mode.load(); });
}

}  // namespace npu::python
