// torch_npu._C: what torch_npu/profiler needs of csrc/profiler, and of torch to record more threads than one.
#include "profiler/kernel_trace.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <optional>

#include "python/module.h"

namespace npu::python {

namespace {

// What makes a thread's operators part of a recording, as autograd's threads get it with the rest of their state.
struct Participation {
  at::RecordFunctionTLS callbacks = at::get_record_function_tls_();
  std::shared_ptr<c10::ThreadLocalDebugInfo> info = c10::ThreadLocalDebugInfo::current();

  void take() const {
    at::set_record_function_tls_(callbacks);
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(info);
  }
};

std::optional<Participation> recording_thread;              // with Python's lock
thread_local std::optional<Participation> without_profile;  // of this thread, before it joined

// False: there is no recording to join, or none that this thread has joined.
bool join_recording(bool join) {
  if (join) {
    if (!recording_thread || without_profile) return recording_thread.has_value();
    without_profile.emplace();
    recording_thread->take();
    return true;
  }
  if (!without_profile) return false;
  without_profile->take();
  without_profile.reset();
  return true;
}

}  // namespace

void bind_profiler(py::module_& module) {
  using torch::wrap_pybind_function;
  module.def("write_finished_launches", torch::wrap_pybind_function_no_gil([](int file) {
               const int64_t lines = kernel_trace::write_finished(file);
               return std::pair(lines, lines < 0 ? errno : 0);
             }));
  // Called by the thread that records, when it has begun and before it ends.
  module.def("set_recording_thread", wrap_pybind_function([](bool records) {
               records ? static_cast<void>(recording_thread.emplace()) : recording_thread.reset();
             }));
  module.def("join_recording", wrap_pybind_function(&join_recording));
}

}  // namespace npu::python
