// torch_npu._C: graphs. The graph itself is torch._C._acceleratorGraph over npu::Graph; here is what only an NPU has.
#include "graph/graph.h"

#include <pybind11/stl.h>

#include "memory/memory_pool.h"
#include "python/module.h"
#include "python/stream.h"
#include "runtime/generator.h"

namespace npu::python {

void bind_graph(py::module_& module) {
  using torch::wrap_pybind_function;
  py::class_<ExternalEvent>(module, "ExternalEvent")
      .def(py::init<>())
      .def("record", wrap_pybind_function(
                         [](ExternalEvent& self, py::handle stream) { self.record(unwrap_stream(stream.ptr())); }))
      .def("wait",
           wrap_pybind_function([](ExternalEvent& self, py::handle stream) { self.wait(unwrap_stream(stream.ptr())); }))
      .def("reset", wrap_pybind_function(
                        [](ExternalEvent& self, py::handle stream) { self.reset(unwrap_stream(stream.ptr())); }));
  module.def("graph_pool_handle", wrap_pybind_function([] { return caching_allocator::new_pool_id(false); }));
  module.def("is_current_stream_capturing",
             wrap_pybind_function([] { return captures::any() && captures::of_current_stream() != nullptr; }));
  module.def("graph_task_group_begin",
             wrap_pybind_function([](py::handle stream) { begin_task_group(unwrap_stream(stream.ptr())); }),
             py::arg("stream"));
  module.def("graph_task_group_end",
             wrap_pybind_function([](py::handle stream) { return end_task_group(unwrap_stream(stream.ptr())); }),
             py::arg("stream"));
  module.def("graph_task_update_begin", wrap_pybind_function([](py::handle stream, uintptr_t group) {
               begin_task_update(unwrap_stream(stream.ptr()), group);
             }),
             py::arg("stream"), py::arg("handle"));
  module.def("graph_task_update_end",
             wrap_pybind_function([](py::handle stream) { end_task_update(unwrap_stream(stream.ptr())); }),
             py::arg("stream"));
}

}  // namespace npu::python
