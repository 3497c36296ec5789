// torch_npu._C: tensors between processes, and tensors and storages over memory that somebody else owns.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <pybind11/stl.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/utils/pybind.h>

#include "acl/library.h"
#include "memory/caching_allocator.h"
#include "memory/shared_memory.h"
#include "python/module.h"
#include "python/stream.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace npu::python {
namespace {

using shared_memory::Handle;
using torch::wrap_pybind_function;

// (key, segment bytes, offset, ledger, cell, message), or None where the memory cannot be exported.
py::object send(py::handle object) {
  const c10::Storage storage = THPStorage_Unpack(object.ptr());
  if (!shared_memory::can_send(storage)) return py::none();
  const Handle handle = [&] {
    py::gil_scoped_release no_gil;
    return shared_memory::send(storage);
  }();
  return py::make_tuple(py::bytes(handle.key), handle.segment_bytes, handle.offset, handle.ledger, handle.cell,
                        handle.message);
}

py::object receive(const std::string& key, int64_t segment_bytes, int64_t offset, const std::string& ledger,
                   int64_t cell, int64_t message, int64_t bytes, int device) {
  init();
  c10::Storage storage = [&] {
    py::gil_scoped_release no_gil;
    return shared_memory::receive({key, segment_bytes, offset, ledger, cell, message}, bytes,
                                  static_cast<c10::DeviceIndex>(device));
  }();
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage)));
}

c10::Device on(int device) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)}; }

at::Tensor weak_reference(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.is_privateuseone(), "Expected an npu tensor, but got one of ", tensor.device());
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [](void*) {}, tensor.options(), tensor.device());
}

py::object storage_at(uintptr_t address, py::handle device, size_t bytes) {
  const auto place = py::cast<c10::Device>(device);
  TORCH_CHECK_VALUE(place.is_privateuseone(), "Expected an npu device, but got ", place);
  const c10::Device whole = on(place.has_index() ? place.index() : current_device());
  TORCH_CHECK_VALUE(address != 0 || bytes == 0, "address is 0, expected one of the memory of ", whole);
  init();
  // Where the provider can tell, an address of another card is found here and not by the first kernel.
  if (bytes > 0 && acl::api().aclrtPointerGetAttributes != nullptr) {
    const auto owner = at::globalContext()
                           .getAcceleratorHooksInterface(whole.type())
                           .getDeviceFromPtr(reinterpret_cast<void*>(address));
    TORCH_CHECK_VALUE(owner == whole, "address is memory of ", owner, ", not of ", whole);
  }
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(reinterpret_cast<void*>(address), whole),
                       nullptr, false);
  return py::reinterpret_steal<py::object>(THPStorage_Wrap(std::move(storage)));
}

}  // namespace

void bind_sharing(py::module_& module) {
  module.def("send_storage", wrap_pybind_function(&send));
  module.def("receive_storage", wrap_pybind_function(&receive));
  module.def("decline_storage", wrap_pybind_function([](const std::string& ledger, int64_t cell, int64_t message) {
               shared_memory::decline({"", 0, 0, ledger, cell, message});
             }));
  module.def("collect_shared", torch::wrap_pybind_function_no_gil([] { return shared_memory::collect(); }));
  module.def("end_sharing", torch::wrap_pybind_function_no_gil([] { return shared_memory::end_sending(); }));
  module.def("erase_stream", wrap_pybind_function([](const at::Tensor& tensor, py::handle stream) {
               caching_allocator::heap(tensor.device().index())
                   .erase_stream(tensor.storage().data(), unwrap_stream(stream.ptr()).unwrap());
             }));
  // Official names that libraries use.
  module.def("_weak_ref_tensor", wrap_pybind_function(&weak_reference),
             "A tensor over the memory of an npu tensor that does not keep it alive.");
  module.def("_construct_storage_from_data_pointer", wrap_pybind_function(&storage_at),
             "An UntypedStorage over an address of the card (address, device, bytes), whose owner keeps it alive.");
  module.def("_npu_getCurrentRawStream", wrap_pybind_function([](int device) {
               return reinterpret_cast<uintptr_t>(current_stream(static_cast<c10::DeviceIndex>(device)).handle());
             }),
             "The current stream of a card, as an aclrtStream.");
}

}  // namespace npu::python
