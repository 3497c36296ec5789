// torch_npu._C: streams. torch.npu.Stream is a Python subclass of torch.Stream; the functions here make and read its
// objects without going through Python's constructor, because current_stream() is called per operator by some users.
#include "python/stream.h"

#include <torch/csrc/Stream.h>

#include "python/device_argument.h"
#include "runtime/device.h"

namespace npu::python {

Stream unwrap_stream(PyObject* object) {
  TORCH_CHECK_TYPE(PyObject_TypeCheck(object, THPStreamClass),
                   "Expected a torch.npu.Stream or torch.Stream, but got: ", Py_TYPE(object)->tp_name);
  const auto* stream = reinterpret_cast<THPStream*>(object);
  return Stream(c10::Stream::unpack3(stream->stream_id, static_cast<c10::DeviceIndex>(stream->device_index),
                                     static_cast<c10::DeviceType>(stream->device_type)));
}

namespace {

PyTypeObject* stream_class = nullptr;  // torch.npu.Stream, told to us by Python; kept for the life of the process

// A new object of `type`, a subclass of torch.Stream.
PyObject* wrap_stream(PyTypeObject* type, Stream stream) {
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) throw py::error_already_set();
  auto* fields = reinterpret_cast<THPStream*>(object);
  fields->stream_id = stream.id();
  fields->device_index = stream.device_index();
  fields->device_type = static_cast<int64_t>(c10::DeviceType::PrivateUse1);
  return object;
}

void set_stream_class(py::type type) {
  stream_class = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  TORCH_CHECK(PyType_IsSubtype(stream_class, THPStreamClass), "torch.npu.Stream must subclass torch.Stream");
}

// (device=None) of current_stream and default_stream.
template <Stream (*get)(c10::DeviceIndex)>
PyObject* get_stream(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    TORCH_CHECK_TYPE(count + named <= 1, "Expected at most one argument, the device");
    TORCH_CHECK_TYPE(named == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "device") == 0,
                     "Expected no keyword argument but device");
    return wrap_stream(stream_class, get(count + named == 0 ? -1 : device_index(args[0])));
  });
}

py::object new_stream(py::type type, DeviceArgument device, int priority) {
  return py::reinterpret_steal<py::object>(
      wrap_stream(reinterpret_cast<PyTypeObject*>(type.ptr()), stream_from_pool(priority, device.index)));
}

py::object new_external_stream(py::type type, uintptr_t handle, DeviceArgument device) {
  const auto index = device.index < 0 ? current_device() : device.index;
  return py::reinterpret_steal<py::object>(wrap_stream(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                                       external_stream(reinterpret_cast<aclrtStream>(handle), index)));
}

py::object wrap_stream_id(py::type type, c10::StreamId id, c10::DeviceIndex device) {
  const c10::Device on(c10::DeviceType::PrivateUse1, device);
  return py::reinterpret_steal<py::object>(
      wrap_stream(reinterpret_cast<PyTypeObject*>(type.ptr()), Stream(c10::Stream(c10::Stream::UNSAFE, on, id))));
}

// Like torch.cuda's: the stream's card becomes current too.
void set_stream(py::handle object) {
  const Stream stream = unwrap_stream(object.ptr());
  py::gil_scoped_release no_gil;
  if (current_device() != stream.device_index()) set_device(stream.device_index());
  set_current_stream(stream);
}

}  // namespace

void bind_stream(py::module_& module) {
  using torch::wrap_pybind_function;
  module.def("set_stream_class", wrap_pybind_function(&set_stream_class));
  module.def("new_stream", wrap_pybind_function(&new_stream));
  module.def("new_external_stream", wrap_pybind_function(&new_external_stream));
  module.def("wrap_stream_id", wrap_pybind_function(&wrap_stream_id));
  module.def("set_stream", wrap_pybind_function(&set_stream));
  module.def("stream_handle", wrap_pybind_function([](py::handle stream) {
               return reinterpret_cast<uintptr_t>(unwrap_stream(stream.ptr()).handle());
             }));
  module.def("stream_priority",
             wrap_pybind_function([](py::handle stream) { return unwrap_stream(stream.ptr()).priority(); }));

  constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;
  static PyMethodDef hot[] = {
      {"current_stream", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&get_stream<&current_stream>)),
       kFast,
       "current_stream($module, /, device=None)\n--\n\n"
       "The calling thread's current stream on a card (default: the current card)."},
      {"default_stream", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&get_stream<&default_stream>)),
       kFast,
       "default_stream($module, /, device=None)\n--\n\nThe default stream of a card (default: the current card)."},
      {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module.ptr(), hot) < 0) throw py::error_already_set();
}

}  // namespace npu::python
