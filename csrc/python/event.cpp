// The base of torch.npu.Event: torch.Event bound to the npu device, so that it goes wherever a torch.Event does. Adds
// the defaults of torch.cuda.Event, checked arguments, recorded_time(), npu_event and handles for other processes;
// query, synchronize and the rest are inherited.
#include <torch/csrc/Event.h>

#include <cstring>
#include <memory>

#include "python/device_argument.h"
#include "python/stream.h"
#include "runtime/event.h"

namespace npu::python {

namespace {

c10::Event& native(PyObject* self) { return reinterpret_cast<THPEvent*>(self)->event; }

// What the guard keeps behind a c10::Event; nullptr until the first record. See Note [Event objects] in guard.cpp.
const Event* device_event(PyObject* self) { return static_cast<const Event*>(native(self).eventId()); }

PyObject* event_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static const char* names[] = {"enable_timing", "blocking", "interprocess", "external", nullptr};
    int timing = 0, blocking = 0, interprocess = 0, external = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pppp:Event", const_cast<char**>(names), &timing, &blocking,
                                     &interprocess, &external)) {
      return nullptr;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(!external,
                                "torch.npu.Event(external=True) is not supported: the event that graphs share with the "
                                "rest of the world is torch.npu.ExternalEvent().");
    TORCH_CHECK_VALUE(!(timing && interprocess), "An event with interprocess=True cannot have enable_timing=True.");
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) return nullptr;
    new (&native(self)) c10::Event(c10::DeviceType::PrivateUse1, timing         ? c10::EventFlag::BACKEND_DEFAULT
                                                                 : interprocess ? kInterprocess
                                                                                : c10::EventFlag::PYTORCH_DEFAULT);
    return self;
  });
}

// The optional argument `stream` of record and wait.
Stream stream_argument(PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  TORCH_CHECK_TYPE(count + named <= 1, "Expected at most one argument, the stream");
  TORCH_CHECK_TYPE(named == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "stream") == 0,
                   "Expected no keyword argument but stream");
  return count + named == 0 || args[0] == Py_None ? current_stream() : unwrap_stream(args[0]);
}

PyObject* event_record(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const Stream stream = stream_argument(args, count, keywords);
    {
      WithoutGil no_gil;
      native(self).record(stream);
    }
    Py_RETURN_NONE;
  });
}

PyObject* event_wait(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    const Stream stream = stream_argument(args, count, keywords);
    {
      WithoutGil no_gil;
      native(self).block(stream);
    }
    Py_RETURN_NONE;
  });
}

PyObject* event_elapsed_time(PyObject* self, PyObject* end) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(PyObject_TypeCheck(end, THPEventClass),
                     "Expected a torch.npu.Event, but got: ", Py_TYPE(end)->tp_name);
    double milliseconds = 0;
    {
      WithoutGil no_gil;
      milliseconds = native(self).elapsedTime(native(end));
    }
    return PyFloat_FromDouble(milliseconds);
  });
}

PyObject* event_recorded_time(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Event* event = device_event(self);
    TORCH_CHECK_VALUE(event != nullptr, "The event must be recorded before its time can be read.");
    uint64_t microseconds = 0;
    {
      WithoutGil no_gil;
      microseconds = event->recorded_time();
    }
    return PyLong_FromUnsignedLongLong(microseconds);
  });
}

// Puts an event that exists into a c10::Event; see Note [Event objects] in guard.cpp.
c10::Event give(std::unique_ptr<Event> event) {
  c10::Event holder(c10::DeviceType::PrivateUse1, kGiven);
  const c10::Device device(c10::DeviceType::PrivateUse1, event->device_index());
  holder.record(c10::Stream(c10::Stream::UNSAFE, device, reinterpret_cast<c10::StreamId>(event.release())));
  return holder;
}

PyObject* event_ipc_handle(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    aclrtIpcEventHandle handle;
    {
      WithoutGil no_gil;
      if (auto* event = static_cast<Event*>(native(self).eventId())) {
        handle = event->ipc_handle();
      } else {
        auto fresh = std::make_unique<Event>(false, native(self).flag() == kInterprocess);
        handle = fresh->ipc_handle();
        native(self) = give(std::move(fresh));
      }
    }
    return PyBytes_FromStringAndSize(handle.reserved, sizeof handle.reserved);
  });
}

PyObject* event_from_ipc_handle(PyObject* type, PyObject* args, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    PyObject* device = nullptr;
    PyObject* bytes = nullptr;
    static const char* names[] = {"device", "handle", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OS:from_ipc_handle", const_cast<char**>(names), &device,
                                     &bytes)) {
      return nullptr;
    }
    aclrtIpcEventHandle handle;
    TORCH_CHECK_VALUE(PyBytes_GET_SIZE(bytes) == sizeof handle, "handle must be the ", sizeof handle,
                      " bytes that Event.ipc_handle() gives, but has ", PyBytes_GET_SIZE(bytes));
    memcpy(&handle, PyBytes_AS_STRING(bytes), sizeof handle);
    auto event = [&] {
      const c10::DeviceIndex index = device_index(device);
      WithoutGil no_gil;
      return std::make_unique<Event>(Event::from_ipc_handle(index, handle));
    }();
    auto* const cls = reinterpret_cast<PyTypeObject*>(type);
    PyObject* self = cls->tp_alloc(cls, 0);
    if (self != nullptr) new (&native(self)) c10::Event(give(std::move(event)));
    return self;
  });
}

PyObject* event_handle(PyObject* self, void*) {
  const Event* event = device_event(self);
  return PyLong_FromVoidPtr(event == nullptr ? nullptr : event->handle());
}

PyObject* event_repr(PyObject* self) {
  const Event* event = device_event(self);
  if (event == nullptr) return PyUnicode_FromString("<torch.npu.Event uninitialized>");
  return PyUnicode_FromFormat("<torch.npu.Event %p>", event->handle());
}

template <typename Function>
PyCFunction as_c_function(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace

void bind_event(py::module_& module) {
  constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;
  static PyMethodDef methods[] = {
      {"record", as_c_function(&event_record), kFast,
       "record($self, /, stream=None)\n--\n\nMarks this point of the stream (default: the current one)."},
      {"wait", as_c_function(&event_wait), kFast,
       "wait($self, /, stream=None)\n--\n\nMakes later work of the stream wait for the last record."},
      {"elapsed_time", event_elapsed_time, METH_O,
       "elapsed_time($self, end_event, /)\n--\n\nMilliseconds between this record and the one of end_event."},
      {"recorded_time", event_recorded_time, METH_NOARGS,
       "recorded_time($self, /)\n--\n\nThe card's clock at the record, in microseconds."},
      {"ipc_handle", event_ipc_handle, METH_NOARGS,
       "ipc_handle($self, /)\n--\n\nBytes from which another process makes this event: see from_ipc_handle()."},
      {"from_ipc_handle", as_c_function(&event_from_ipc_handle), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
       "from_ipc_handle($type, device, handle)\n--\n\nThe event of another process, from what its ipc_handle() "
       "gave."},
      {nullptr, nullptr, 0, nullptr}};
  static PyGetSetDef properties[] = {
      {"npu_event", event_handle, nullptr, "The aclrtEvent as an int, 0 before the first record.", nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(&event_new)},
                                {Py_tp_repr, reinterpret_cast<void*>(&event_repr)},
                                {Py_tp_methods, methods},
                                {Py_tp_getset, properties},
                                {0, nullptr}};
  static PyType_Spec spec = {"torch_npu._C.Event", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  const py::object bases = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(THPEventClass));
  module.attr("Event") =
      py::reinterpret_steal<py::object>(PyType_FromSpecWithBases(&spec, py::make_tuple(bases).ptr()));
}

}  // namespace npu::python
