// torch_npu._C._distributed_c10d: ProcessGroupHCCL and its options. Bound when torch_npu.distributed is imported,
// because the base classes are torch.distributed's.
#include "distributed/process_group.h"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "acl/config.h"
#include "distributed/staged_backend.h"
#include "python/module.h"

namespace npu::python {

// The last reference may be dropped by Python: the watchdog, for which the destructor waits, may need the GIL.
template <typename T>
class WithoutGilHolder {
 public:
  WithoutGilHolder() = default;
  explicit WithoutGilHolder(T* object) : object_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object)) {}
  WithoutGilHolder(c10::intrusive_ptr<T> object) : object_(std::move(object)) {}
  WithoutGilHolder(const WithoutGilHolder&) = default;
  WithoutGilHolder(WithoutGilHolder&&) noexcept = default;
  WithoutGilHolder& operator=(const WithoutGilHolder&) = default;
  WithoutGilHolder& operator=(WithoutGilHolder&&) noexcept = default;
  ~WithoutGilHolder() {
    if (!object_) return;
    if (PyGILState_Check()) {
      py::gil_scoped_release release;
      object_.reset();
    } else {
      object_.reset();
    }
  }
  T* get() const { return object_.get(); }

 private:
  c10::intrusive_ptr<T> object_;
};

}  // namespace npu::python

PYBIND11_DECLARE_HOLDER_TYPE(T, npu::python::WithoutGilHolder<T>, true)

namespace npu::python {

namespace {

using distributed::ProcessGroupHCCL;
using distributed::StagedBackend;
using Release = py::call_guard<py::gil_scoped_release>;

void bind_classes(py::module_& parent) {
  const py::module_ torch_module = py::module_::import("torch._C._distributed_c10d");
  py::module_ module = parent.def_submodule("_distributed_c10d", "The distributed backend of npu devices.");
  const py::object backend = torch_module.attr("Backend");

  py::class_<ProcessGroupHCCL, WithoutGilHolder<ProcessGroupHCCL>> group(module, "ProcessGroupHCCL", backend);
  py::class_<ProcessGroupHCCL::Options, c10::intrusive_ptr<ProcessGroupHCCL::Options>>(group, "Options",
                                                                                       backend.attr("Options"))
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def("__deepcopy__", [](const ProcessGroupHCCL::Options& options,
                              const py::dict&) { return c10::make_intrusive<ProcessGroupHCCL::Options>(options); })
      .def_readwrite("is_high_priority_stream", &ProcessGroupHCCL::Options::is_high_priority_stream)
      .def_readwrite("hccl_config", &ProcessGroupHCCL::Options::hccl_config)
      .def_readwrite("group_name", &ProcessGroupHCCL::Options::group_name)
      .def_readwrite("global_ranks_in_group", &ProcessGroupHCCL::Options::global_ranks_in_group);

  group
      .def(py::init([](c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                       c10::intrusive_ptr<ProcessGroupHCCL::Options> options) {
             py::gil_scoped_release release;
             return c10::make_intrusive<ProcessGroupHCCL>(std::move(store), rank, size, std::move(options));
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
      .def_property_readonly(
          "options",
          [](ProcessGroupHCCL& self) {
            return c10::static_intrusive_pointer_cast<ProcessGroupHCCL::Options>(self.getBackendOptions());
          })
      .def("get_hccl_comm_name", &ProcessGroupHCCL::comm_name, py::arg("device"), py::arg("init_comm") = true,
           Release())
      .def("allgather_uneven", &ProcessGroupHCCL::allgather_uneven, py::arg("output"), py::arg("input"),
           py::arg("output_split_sizes"), py::arg("async_op"), Release())
      .def("reduce_scatter_uneven", &ProcessGroupHCCL::reduce_scatter_uneven, py::arg("output"), py::arg("input"),
           py::arg("input_split_sizes"), py::arg("op"), py::arg("async_op"), Release())
      .def("pause", &ProcessGroupHCCL::pause, Release())
      .def("resume", &ProcessGroupHCCL::resume, Release())
      .def("rebuild", &ProcessGroupHCCL::rebuild, Release())
      .def("failure", &ProcessGroupHCCL::failure)
      .def("enable_collectives_timing", &ProcessGroupHCCL::enableCollectivesTiming)
      .def("_wait_for_pending_works", &ProcessGroupHCCL::waitForPendingWorks, Release());

  py::class_<StagedBackend, c10::intrusive_ptr<StagedBackend>>(module, "StagedBackend", backend)
      .def(py::init([](c10::intrusive_ptr<c10d::Backend> inner, const std::string& name) {
             return c10::make_intrusive<StagedBackend>(std::move(inner), name);
           }),
           py::arg("inner"), py::arg("name"))
      .def("allgather_uneven", &StagedBackend::allgather_uneven, py::arg("output"), py::arg("input"),
           py::arg("output_split_sizes"), py::arg("async_op"), Release())
      .def("reduce_scatter_uneven", &StagedBackend::reduce_scatter_uneven, py::arg("output"), py::arg("input"),
           py::arg("input_split_sizes"), py::arg("op"), py::arg("async_op"), Release());
}

}  // namespace

void bind_distributed(py::module_& module) {
  module.def("_hccl_transport", config::hccl_transport);
  module.def(
      "_dump_hccl_trace",
      [](bool collectives, bool stacks, bool only_active) {
        std::string text;
        {
          py::gil_scoped_release release;
          text = distributed::FlightRecorder::get().dump(collectives, stacks, only_active);
        }
        return py::bytes(text);
      },
      py::arg("includeCollectives") = true, py::arg("includeStackTraces") = true, py::arg("onlyActive") = false);
  module.def("_bind_distributed", [module]() mutable {
    if (!py::hasattr(module, "_distributed_c10d")) bind_classes(module);
  });
}

}  // namespace npu::python
