#include "distributed/staged_work.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include <utility>

#include "runtime/gil.h"

namespace npu::distributed {

StagedWork::StagedWork(std::string title, std::vector<WorkPtr> inner, std::vector<at::Tensor> outputs,
                       std::function<void()> finish)
    : title_(std::move(title)), inner_(std::move(inner)), outputs_(std::move(outputs)), finish_(std::move(finish)) {}

bool StagedWork::isCompleted() {
  for (const WorkPtr& work : inner_)
    if (!work->isCompleted()) return false;
  return true;
}

// A work of gloo must not be waited for again once its values were used: a second wait would repeat its own last step.
// Without the GIL: c10d takes it into getFuture(), and gloo's thread needs it to drop the work before, with its queue
// locked.
bool StagedWork::wait(std::chrono::milliseconds timeout) {
  without_gil([&] {
    std::lock_guard<std::mutex> lock(waiting_);
    if (exception_) std::rethrow_exception(exception_);
    const auto finish = std::exchange(finish_, nullptr);
    if (!finish) return;
    try {
      for (const WorkPtr& work : inner_) work->wait(timeout);
      finish();
    } catch (const c10::Error& error) {
      fail(error.what_without_backtrace());
    } catch (const std::exception& error) {
      fail(error.what());
    }
  });
  return true;
}

void StagedWork::fail(const char* text) {
  try {
    TORCH_CHECK_WITH(DistBackendError, false, title_, ": ", text);
  } catch (...) {
    exception_ = std::current_exception();
    throw;
  }
}

c10::intrusive_ptr<c10::ivalue::Future> StagedWork::getFuture() {
  wait(kNoTimeout);
  std::vector<c10::Device> devices;
  if (!outputs_.empty()) devices.push_back(outputs_[0].device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  future->markCompleted(c10::IValue(outputs_));
  return future;
}

}  // namespace npu::distributed
