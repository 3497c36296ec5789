// The extension module torch_npu._C. Importing it loads libtorch_npu.so, whose static registrations give torch the
// PrivateUse1 device; no device is touched and no CANN or softnpu library is loaded here.
#include "python/module.h"

#include "runtime/gil.h"

namespace {

void without_gil(void (*body)(void*), void* argument) {
  if (!Py_IsInitialized() || !PyGILState_Check()) return body(argument);
  npu::python::WithoutGil released;
  body(argument);
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  using namespace npu::python;
  module.attr("version") = NPU_VERSION;
  npu::set_without_gil(&without_gil);
  bind_captured_call(module);
  bind_debug(module);
  bind_device(module);
  bind_distributed(module);
  bind_event(module);
  bind_graph(module);
  bind_inspection(module);
  bind_memory(module);
  bind_ops(module);
  bind_options(module);
  bind_profiler(module);
  bind_recovery(module);
  bind_random(module);
  bind_sharing(module);
  bind_stream(module);
}
