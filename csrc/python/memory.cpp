// torch_npu._C: memory. Statistics as nested dicts in torch.cuda's shape, limits, raw allocations, private pools. The
// snapshot and the history are in memory_snapshot.cpp.
#include <ATen/EmptyTensor.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "memory/allocator_config.h"
#include "memory/caching_allocator.h"
#include "memory/host_allocator.h"
#include "memory/memory_pool.h"
#include "memory/out_of_memory.h"
#include "memory/prefetch.h"
#include "memory/swapped_memory.h"
#include "python/device_argument.h"
#include "python/memory_snapshot.h"
#include "python/module.h"
#include "python/stream.h"
#include "runtime/device.h"

namespace npu::python {

namespace {

using c10::CachingAllocator::DurationStat;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

c10::DeviceIndex index_of(DeviceArgument device) { return device.index < 0 ? current_device() : device.index; }

// ---- statistics -----------------------------------------------------------------------------------------------------

py::dict to_dict(const Stat& stat) {
  py::dict dict;
  dict["current"] = stat.current;
  dict["peak"] = stat.peak;
  dict["allocated"] = stat.allocated;
  dict["freed"] = stat.freed;
  return dict;
}

py::dict to_dict(const StatArray& stats) {
  py::dict dict;
  dict["all"] = to_dict(stats[0]);
  dict["small_pool"] = to_dict(stats[1]);
  dict["large_pool"] = to_dict(stats[2]);
  return dict;
}

py::dict to_dict(const DurationStat& stat) {
  py::dict dict;
  dict["total"] = stat.total;
  dict["max"] = stat.max;
  dict["min"] = stat.min;
  dict["count"] = stat.count;
  dict["avg"] = stat.count == 0 ? 0 : stat.total / stat.count;
  return dict;
}

py::dict memory_stats(DeviceArgument device) {
  const auto stats = caching_allocator::get()->getDeviceStats(index_of(device));
  py::dict dict;
  dict["num_alloc_retries"] = stats.num_alloc_retries;
  dict["num_ooms"] = stats.num_ooms;
  dict["num_oom_rejections"] = stats.num_oom_rejections;
  dict["num_sync_all_streams"] = stats.num_sync_all_streams;
  dict["num_device_alloc"] = stats.num_device_alloc;
  dict["num_device_free"] = stats.num_device_free;
  dict["max_split_size"] = stats.max_split_size;
  dict["allocation"] = to_dict(stats.allocation);
  dict["segment"] = to_dict(stats.segment);
  dict["active"] = to_dict(stats.active);
  dict["inactive_split"] = to_dict(stats.inactive_split);
  dict["allocated_bytes"] = to_dict(stats.allocated_bytes);
  dict["reserved_bytes"] = to_dict(stats.reserved_bytes);
  dict["active_bytes"] = to_dict(stats.active_bytes);
  dict["inactive_split_bytes"] = to_dict(stats.inactive_split_bytes);
  dict["requested_bytes"] = to_dict(stats.requested_bytes);
  dict["oversize_allocations"] = to_dict(stats.oversize_allocations);
  dict["oversize_segments"] = to_dict(stats.oversize_segments);
  py::dict pools;
  for (const auto& [id, reserved] : stats.reserved_bytes_by_private_pools)
    pools[py::make_tuple(id.first, id.second)] = to_dict(reserved);
  dict["reserved_bytes_by_private_pools"] = pools;
  return dict;
}

// Of the memory that the tensor is a view of, at most `max_size` bytes from `offset` on.
void prefetch_tensor(const at::Tensor& tensor, int64_t max_size, int64_t offset) {
  TORCH_CHECK_VALUE(tensor.is_privateuseone(), "npu_prefetch: input must be an npu tensor, but is on ",
                    tensor.device());
  const auto bytes =
      static_cast<int64_t>(at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size()));
  TORCH_CHECK_VALUE(max_size > 0, "npu_prefetch: max_size must be more than 0, got ", max_size);
  TORCH_CHECK_VALUE(offset >= 0 && offset < bytes, "npu_prefetch: offset must be within the ", bytes,
                    " bytes of input, got ", offset);
  DeviceGuard guard(tensor.device().index());
  const auto* const first = static_cast<const char*>(tensor.const_data_ptr()) + offset;
  prefetch(first, static_cast<size_t>(std::min(max_size, bytes - offset)));
}

// Bytes of host memory that the card reaches, see memory/swapped_memory.h.
at::Tensor empty_swapped_memory(size_t bytes, DeviceArgument device) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, swapped_memory::allocate(bytes, index_of(device)), nullptr, false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                         caffe2::TypeMeta::Make<uint8_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(static_cast<int64_t>(bytes));
  return tensor;
}

py::dict host_memory_stats() {
  const at::HostStats stats = host_allocator::get()->get_stats();
  py::dict dict;
  dict["num_host_alloc"] = stats.num_host_alloc;
  dict["num_host_free"] = stats.num_host_free;
  dict["allocations"] = to_dict(stats.allocations);
  dict["active_requests"] = to_dict(stats.active_requests);
  dict["allocated_bytes"] = to_dict(stats.allocated_bytes);
  dict["active_bytes"] = to_dict(stats.active_bytes);
  dict["host_alloc_time"] = to_dict(stats.host_alloc_time);
  dict["host_free_time"] = to_dict(stats.host_free_time);
  return dict;
}

void bind_statistics(py::module_& module) {
  module.def("memory_stats", wrap_pybind_function(&memory_stats));
  module.def("prefetch", wrap_pybind_function_no_gil(&prefetch_tensor));
  module.def("empty_swapped_memory", wrap_pybind_function_no_gil(&empty_swapped_memory));
  module.def("reset_accumulated_memory_stats", wrap_pybind_function([](DeviceArgument device) {
               caching_allocator::get()->resetAccumulatedStats(index_of(device));
             }));
  module.def("reset_peak_memory_stats", wrap_pybind_function([](DeviceArgument device) {
               caching_allocator::get()->resetPeakStats(index_of(device));
             }));
  module.def("mem_get_info", wrap_pybind_function_no_gil([](DeviceArgument device) {
               return caching_allocator::get()->getMemoryInfo(index_of(device));
             }));
  module.def("host_memory_stats", wrap_pybind_function(&host_memory_stats));
  module.def("reset_accumulated_host_memory_stats",
             wrap_pybind_function([] { host_allocator::get()->reset_accumulated_stats(); }));
  module.def("reset_peak_host_memory_stats", wrap_pybind_function([] { host_allocator::get()->reset_peak_stats(); }));
}

// ---- private pools and the user's own allocators --------------------------------------------------------------------

using PluggableHandle = std::shared_ptr<caching_allocator::PluggableAllocator>;

PluggableHandle pluggable_allocator(uintptr_t allocate, uintptr_t free) {
  using caching_allocator::PluggableAllocator;
  return std::make_shared<PluggableAllocator>(PluggableAllocator{
      reinterpret_cast<PluggableAllocator::Allocate*>(allocate), reinterpret_cast<PluggableAllocator::Free*>(free)});
}

void bind_pools(py::module_& module) {
  using caching_allocator::MemoryPool;
  py::class_<caching_allocator::PluggableAllocator, PluggableHandle>(module, "_npu_NPUAllocator");
  module.def("pluggable_allocator", wrap_pybind_function(&pluggable_allocator));
  module.def("change_current_allocator", wrap_pybind_function([](const PluggableHandle& allocator) {
               caching_allocator::change_current_allocator(*allocator);
             }));

  py::class_<MemoryPool, std::shared_ptr<MemoryPool>>(module, "_MemPool")
      .def(py::init([](PluggableHandle allocator, bool user_created, bool use_on_oom, bool no_split) {
             py::gil_scoped_release no_gil;
             return std::make_shared<MemoryPool>(
                 caching_allocator::ArenaOptions{std::move(allocator), use_on_oom, no_split}, user_created);
           }),
           py::arg("allocator") = py::none(), py::arg("user_created") = true, py::arg("use_on_oom") = false,
           py::arg("no_split") = false)
      .def_property_readonly("id", &MemoryPool::id)
      .def_property_readonly("device", &MemoryPool::device)
      .def("use_count", &MemoryPool::use_count);
  module.def("begin_allocate_current_thread_to_pool",
             wrap_pybind_function(&caching_allocator::begin_allocate_current_thread_to_pool));
  module.def("end_allocate_to_pool", wrap_pybind_function([](c10::DeviceIndex device, c10::MempoolId_t id) {
               caching_allocator::heap(device).end_allocate_to_pool(id);
             }));
  module.def("release_pool", wrap_pybind_function([](c10::DeviceIndex device, c10::MempoolId_t id) {
               caching_allocator::heap(device).release_pool(id);
             }));
}

// Calls observer(device, bytes asked for, bytes of the card, bytes free); it may look at the allocator but not
// allocate.
void attach_out_of_memory_observer(py::function observer) {
  auto* kept = observer.release().ptr();  // for the life of the process
  caching_allocator::attach_out_of_memory_observer([kept](const caching_allocator::OutOfMemory& facts) {
    py::gil_scoped_acquire gil;
    PyObject* result =
        PyObject_CallFunction(kept, "innn", static_cast<int>(facts.device), static_cast<Py_ssize_t>(facts.requested),
                              static_cast<Py_ssize_t>(facts.total), static_cast<Py_ssize_t>(facts.free));
    if (result == nullptr) throw py::error_already_set();
    Py_DECREF(result);
  });
}

}  // namespace

void bind_memory(py::module_& module) {
  bind_statistics(module);
  bind_pools(module);
  bind_memory_snapshot(module);

  module.def("empty_cache", wrap_pybind_function_no_gil(&caching_allocator::empty_cache));
  module.def("host_empty_cache", wrap_pybind_function_no_gil([] { host_allocator::get()->empty_cache(); }));
  module.def("set_memory_fraction", wrap_pybind_function_no_gil([](double fraction, DeviceArgument device) {
               caching_allocator::set_memory_fraction(fraction, index_of(device));
             }));
  module.def("get_memory_fraction", wrap_pybind_function_no_gil([](DeviceArgument device) {
               return caching_allocator::get_memory_fraction(index_of(device));
             }));
  module.def("caching_allocator_alloc", wrap_pybind_function([](size_t bytes, py::handle stream) {
               const Stream on = unwrap_stream(stream.ptr());
               py::gil_scoped_release no_gil;
               return reinterpret_cast<uintptr_t>(caching_allocator::raw_alloc(bytes, on));
             }));
  module.def("caching_allocator_delete", wrap_pybind_function_no_gil([](uintptr_t address) {
               caching_allocator::raw_delete(reinterpret_cast<void*>(address));
             }));
  module.def("allocator_backend", &caching_allocator::backend_name);
  module.def("set_allocator_settings", wrap_pybind_function(&caching_allocator::settings::set));
  module.def("attach_out_of_memory_observer", wrap_pybind_function(&attach_out_of_memory_observer));
}

}  // namespace npu::python
