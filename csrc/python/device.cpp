// torch_npu._C: devices. Everything above the line "context" answers without initialising a card.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "acl/check.h"
#include "acl/library.h"
#include "python/device_argument.h"
#include "runtime/device.h"
#include "runtime/task_queue.h"

namespace npu::python {

namespace {

using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

c10::DeviceIndex checked(DeviceArgument device) {
  const c10::DeviceIndex index = device.index < 0 ? current_device() : device.index;
  check_device_index(index);
  return index;
}

PyObject* current_device_function(PyObject*, PyObject*) { return PyLong_FromLong(current_device()); }

void init_with_fork_handler() {
  init();
  torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1);
}

bool autograd_threads_live() {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.starts_with("pt_autograd_")) return true;
  }
  return false;
}

// When backward() returns, the engine's thread of the card may still hold the last nodes. Python must not end before
// these are gone: the thread would wait for the GIL with a tensor in its hand, and be unwound through a destructor. The
// engine's own count of threads falls before they take the GIL for the last time, so it is their end that is awaited.
void finalize_with_autograd() {
  if (!is_initialized()) return;
  torch::autograd::Engine::get_default_engine().stop();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (autograd_threads_live() && std::chrono::steady_clock::now() < patience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  finalize();
}

bool can_access_peer(DeviceArgument device, DeviceArgument peer) {
  const auto from = checked(device), to = checked(peer);
  const auto query = acl::api().aclrtDeviceCanAccessPeer;
  if (from == to || query == nullptr) return false;
  int32_t answer = 0;
  NPU_CHECK(query(&answer, from, to));
  return answer != 0;
}

int32_t utilization(DeviceArgument device) {
  const auto index = checked(device);
  const auto query = acl::api().aclrtGetDeviceUtilizationRate;
  TORCH_CHECK(query != nullptr, "torch.npu.utilization() needs a CANN runtime with aclrtGetDeviceUtilizationRate.");
  aclrtUtilizationInfo info{};
  NPU_CHECK(query(index, &info));
  return info.cubeUtilization;
}

void bind_properties(py::module_& module) {
  py::class_<DeviceProperties>(module, "_NPUDeviceProperties")
      .def_readonly("name", &DeviceProperties::name)
      .def_readonly("total_memory", &DeviceProperties::total_memory)
      .def_readonly("L2_cache_size", &DeviceProperties::L2_cache_size)
      .def_readonly("multi_processor_count", &DeviceProperties::multi_processor_count)
      .def_readonly("cube_core_num", &DeviceProperties::cube_core_num)
      .def_readonly("vector_core_num", &DeviceProperties::vector_core_num)
      .def_readonly("uuid", &DeviceProperties::uuid)
      .def_readonly("bf16", &DeviceProperties::bf16)
      .def("__repr__", [](const DeviceProperties& p) {
        return c10::str("_NPUDeviceProperties(name='", p.name, "', total_memory=", p.total_memory / (1024 * 1024),
                        "MB, multi_processor_count=", p.multi_processor_count, ", cube_core_num=", p.cube_core_num,
                        ", vector_core_num=", p.vector_core_num, ", L2_cache_size=", p.L2_cache_size / (1024 * 1024),
                        "MB, uuid='", p.uuid, "')");
      });
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("device_index", [](DeviceArgument device) { return device.index; });
  module.def("device_count", wrap_pybind_function([] { return device_count(); }));
  module.def("is_available", wrap_pybind_function([] { return is_available(); }));
  module.def("why_unavailable", wrap_pybind_function(&acl::why_unavailable));
  module.def("is_softnpu", wrap_pybind_function([] { return acl::provider() == acl::Provider::softnpu; }));
  module.def("runtime_path", wrap_pybind_function(&acl::path));
  module.def("missing_functions", wrap_pybind_function([] {  // of those that a provider may lack
               const auto& api = acl::api();
               std::vector<std::string> names;
#define NPU_ADD_IF_MISSING(name) \
  if (!api.name) names.emplace_back(#name);
               NPU_ACL_OPTIONAL(NPU_ADD_IF_MISSING)
#undef NPU_ADD_IF_MISSING
               return names;
             }));
  module.def("get_soc_name", wrap_pybind_function(&get_soc_name));
  module.def("cann_version", wrap_pybind_function(&cann_version));
  module.def("is_initialized", &is_initialized);
  module.def("is_in_bad_fork", &is_in_bad_fork);

  // context
  module.def("init", wrap_pybind_function_no_gil(&init_with_fork_handler));
  module.def("finalize", &finalize_with_autograd, py::call_guard<py::gil_scoped_release>());
  module.def("set_device", wrap_pybind_function_no_gil([](DeviceArgument device) {
               if (device.index >= 0) set_device(device.index);
             }));
  module.def("exchange_device", wrap_pybind_function_no_gil(&exchange_device));
  module.def("maybe_exchange_device", wrap_pybind_function_no_gil(&maybe_exchange_device));
  module.def("synchronize", wrap_pybind_function_no_gil([](DeviceArgument device) { synchronize(device.index); }));
  module.def("can_device_access_peer", wrap_pybind_function_no_gil(&can_access_peer));
  module.def("utilization", wrap_pybind_function_no_gil(&utilization));
  bind_properties(module);
  module.def("get_device_properties",
             wrap_pybind_function_no_gil([](DeviceArgument device) { return get_device_properties(checked(device)); }));
  module.def("get_task_queue_enable", &task_queue::level);
  module.def("set_task_queue_enable", wrap_pybind_function_no_gil(&task_queue::set_level));

  static PyMethodDef hot[] = {{"current_device", current_device_function, METH_NOARGS,
                               "current_device($module)\n--\n\nIndex of the calling thread's current card."},
                              {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module.ptr(), hot) < 0) throw py::error_already_set();
}

}  // namespace npu::python
