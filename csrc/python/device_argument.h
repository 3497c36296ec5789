// A device as Python users write it: None, 1, "npu:1", torch.device("npu", 1). Any bound function can take one.
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/Device.h>

#include <string>

#include "python/module.h"

namespace npu::python {

// The index named by `object`, -1 (the current card) for None, an index-less device or a negative number.
// Raises torch.cuda's ValueError for a device of another type.
inline c10::DeviceIndex device_index(PyObject* object) {
  if (object == nullptr || object == Py_None) return -1;
  if (PyLong_Check(object)) {
    const long index = PyLong_AsLong(object);
    if (index == -1 && PyErr_Occurred()) throw py::error_already_set();
    TORCH_CHECK_INDEX(index <= INT8_MAX, "Invalid npu device index: ", index);
    return index < 0 ? -1 : static_cast<c10::DeviceIndex>(index);
  }
  c10::Device device(c10::DeviceType::CPU);
  if (THPDevice_Check(object)) {
    device = reinterpret_cast<THPDevice*>(object)->device;
  } else if (PyUnicode_Check(object)) {
    device = c10::Device(py::cast<std::string>(object));
  } else {
    TORCH_CHECK_TYPE(false,
                     "Expected an npu device (torch.device, str, int or None), but got: ", Py_TYPE(object)->tp_name);
  }
  TORCH_CHECK_VALUE(device.is_privateuseone(), "Expected a npu device, but got: ", device.str());
  return device.index();
}

struct DeviceArgument {
  c10::DeviceIndex index = -1;
};

}  // namespace npu::python

namespace pybind11::detail {

template <>
struct type_caster<npu::python::DeviceArgument> {
  PYBIND11_TYPE_CASTER(npu::python::DeviceArgument, const_name("torch.device | int | str | None"));

  bool load(handle source, bool /*convert*/) {
    HANDLE_TH_ERRORS
    value.index = npu::python::device_index(source.ptr());
    return true;
    END_HANDLE_TH_ERRORS_PYBIND
  }
};

}  // namespace pybind11::detail
