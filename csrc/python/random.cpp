// torch_npu._C: the default random generators. They are host state, so that seeding initialises no card.
#include <torch/csrc/Generator.h>

#include "python/module.h"
#include "runtime/generator.h"

namespace npu::python {

void bind_random(py::module_& module) {
  module.def("default_generator", torch::wrap_pybind_function([](c10::DeviceIndex device) {
               return py::reinterpret_steal<py::object>(THPGenerator_Wrap(npu::default_generator(device)));
             }));
}

}  // namespace npu::python
