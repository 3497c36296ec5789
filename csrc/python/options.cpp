// torch_npu._C: settings that torch_npu/npu/npu_config.py has checked, on their way to the operators and to CANN.
#include "acl/check.h"
#include "acl/library.h"
#include "acl/runtime_symbol.h"
#include "ops/families/cube_math.h"
#include "python/module.h"
#include "python/stream.h"
#include "runtime/stream_limits.h"
#include "runtime/toolkit.h"

namespace npu::python {

void bind_options(py::module_& module) {
  using torch::wrap_pybind_function;
  using torch::wrap_pybind_function_no_gil;
  module.def("package_version", wrap_pybind_function_no_gil([](int package) {
               return package_version(static_cast<aclCANNPackageName>(package));
             }));
  module.def("set_compile_option", wrap_pybind_function_no_gil([](int option, const std::string& value) {
               set_compile_option(static_cast<aclCompileOpt>(option), value);
             }));
  module.def("compile_option", wrap_pybind_function_no_gil(
                                   [](int option) { return compile_option(static_cast<aclCompileOpt>(option)); }));
  module.def("set_op_timeout_us", wrap_pybind_function_no_gil([](uint64_t limit) {
               using Set = decltype(::aclrtSetOpExecuteTimeOutV2);
               auto* const set = reinterpret_cast<Set*>(acl::runtime_symbol("aclrtSetOpExecuteTimeOutV2"));
               TORCH_CHECK_NOT_IMPLEMENTED(set, "This version of CANN cannot limit the time of an operator.");
               uint64_t actual = 0;
               NPU_CHECK(set(limit, &actual));
             }));
  module.def("set_deterministic_level", wrap_pybind_function([](int level) { set_deterministic_level(level); }));
  module.def("device_limit", wrap_pybind_function_no_gil([](int device, int type) {
               using Get = decltype(::aclrtGetDeviceResLimit);
               auto* const get = reinterpret_cast<Get*>(acl::runtime_symbol("aclrtGetDeviceResLimit"));
               TORCH_CHECK_NOT_IMPLEMENTED(get, "This version of CANN cannot limit the cores of a card.");
               uint32_t value = 0;
               NPU_CHECK(get(device, static_cast<aclrtDevResLimitType>(type), &value));
               return value;
             }));
  module.def("set_device_limit", wrap_pybind_function_no_gil([](int device, int type, uint32_t value) {
               using Set = decltype(::aclrtSetDeviceResLimit);
               auto* const set = reinterpret_cast<Set*>(acl::runtime_symbol("aclrtSetDeviceResLimit"));
               TORCH_CHECK_NOT_IMPLEMENTED(set, "This version of CANN cannot limit the cores of a card.");
               NPU_CHECK(set(device, static_cast<aclrtDevResLimitType>(type), value));
             }));
  module.def("stream_limit", wrap_pybind_function([](py::object stream, int type) {
               return stream_limits::get(unwrap_stream(stream.ptr()), static_cast<aclrtDevResLimitType>(type));
             }));
  module.def("set_stream_limit", wrap_pybind_function([](py::object stream, int type, uint32_t cores) {
               const Stream limited = unwrap_stream(stream.ptr());
               py::gil_scoped_release release;
               stream_limits::set(limited, static_cast<aclrtDevResLimitType>(type), cores);
             }));
  module.def("reset_stream_limit", wrap_pybind_function([](py::object stream) {
               const Stream limited = unwrap_stream(stream.ptr());
               py::gil_scoped_release release;
               stream_limits::reset(limited);
             }));
  module.def("convolution_math_type", wrap_pybind_function([] { return int{ops::convolution_math_type()}; }));
  module.def("set_convolution_math_type", wrap_pybind_function([](int type) { ops::set_convolution_math_type(type); }));
  module.def("set_product_math_type", wrap_pybind_function([](int type) { ops::set_product_math_type(type); }));
}

}  // namespace npu::python
