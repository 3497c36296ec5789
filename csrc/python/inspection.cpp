// Python's part of an inspection (runtime/inspection.h): the stacks of all threads.
//
// Note [Stacks of a stuck process]
// Python's lock is asked for on a thread made for it. Whoever waits for the device has given it up, so mostly it is had
// at once, and torch_npu/_inspection.py lists the threads. When it is not had in time, another thread keeps it while it
// is stuck outside of Python; no thread runs Python code then, and faulthandler's function, which needs no lock, reads
// their frames.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "acl/json.h"
#include "python/module.h"
#include "runtime/inspection.h"

namespace npu::python {

namespace {

constexpr auto kPatience = std::chrono::seconds(2);

PyObject* g_stacks = nullptr;  // torch_npu._inspection.stacks, which gives JSON

struct Request {
  std::mutex mutex;
  std::condition_variable answered;
  std::string answer;
};

std::string call_stacks() {
  if (_Py_IsFinalizing()) return "null";
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string text = "null";
  if (PyObject* const result = PyObject_CallNoArgs(g_stacks)) {
    if (const char* const json = PyUnicode_AsUTF8(result)) text = json;
    Py_DECREF(result);
  }
  PyErr_Clear();
  PyGILState_Release(state);
  return text;
}

void* answer(void* argument) {
  const std::unique_ptr<std::shared_ptr<Request>> request(static_cast<std::shared_ptr<Request>*>(argument));
  std::string text = call_stacks();
  std::lock_guard<std::mutex> lock((*request)->mutex);
  (*request)->answer = std::move(text);
  (*request)->answered.notify_one();
  return nullptr;
}

// In faulthandler's own words. Python versions may hide the function.
std::string stacks_without_lock() {
  using Dump = const char* (*)(int, PyInterpreterState*, PyThreadState*);
  const auto dump = reinterpret_cast<Dump>(dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  const int fd = dump ? memfd_create("stacks", MFD_CLOEXEC) : -1;
  if (fd < 0) return "null";
  dump(fd, nullptr, nullptr);
  std::string text(static_cast<size_t>(lseek(fd, 0, SEEK_CUR)), '\0');
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  close(fd);
  text.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return "{\"dumped\": " + npu::quoted(text) + "}";
}

std::string stacks_part() {
  auto request = std::make_shared<Request>();
  auto* const argument = new std::shared_ptr<Request>(request);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, &answer, argument) != 0) {
    delete argument;
    return stacks_without_lock();
  }
  pthread_detach(thread);
  std::unique_lock<std::mutex> lock(request->mutex);
  request->answered.wait_for(lock, kPatience, [&] { return !request->answer.empty(); });
  return request->answer.empty() ? stacks_without_lock() : request->answer;
}

}  // namespace

void bind_inspection(py::module_& module) {
  module.def("inspect_stacks_with", [](py::object function) {
    g_stacks = function.release().ptr();
    inspection::add("stacks", &stacks_part);
  });
}

}  // namespace npu::python
