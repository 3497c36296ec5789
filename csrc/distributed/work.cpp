#include "distributed/work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include <thread>

#include "acl/check.h"
#include "runtime/device.h"

namespace npu::distributed {

WorkHCCL::WorkHCCL(int rank, Description description, std::vector<at::Tensor> outputs, c10::Device device,
                   bool blocking)
    : Work(rank, description.type, description.title),
      description_(description),
      device_(device),
      blocking_(blocking),
      outputs_(std::move(outputs)) {}

void WorkHCCL::begin(Stream stream) {
  streams_.push_back(stream);
  if (!description_.timed) return;
  begins_.emplace_back(true);
  begins_.back().record(stream);
}

void WorkHCCL::end(Stream stream, std::shared_ptr<Communicator> communicator) {
  ends_.emplace_back(description_.timed);
  ends_.back().record(stream);
  communicators_.push_back(std::move(communicator));
}

void WorkHCCL::keep(std::vector<at::Tensor> tensors) {
  kept_.insert(kept_.end(), std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end()));
}

bool WorkHCCL::isCompleted() {
  for (const Event& event : ends_)
    if (!event.query()) return false;
  return true;
}

std::optional<std::string> WorkHCCL::error() const {
  for (const auto& communicator : communicators_)
    if (auto text = communicator->error()) return text;
  return std::nullopt;
}

bool WorkHCCL::isSuccess() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_.empty();
}

void WorkHCCL::throw_if_failed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, failure_.empty(), failure_);
}

std::exception_ptr WorkHCCL::exception() const {
  try {
    throw_if_failed();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void WorkHCCL::fail(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.empty()) failure_ = text + "\n" + acl::error_line("ERR02200 DIST call hccl api failed");
}

void WorkHCCL::release() {
  std::vector<at::Tensor> kept;
  std::lock_guard<std::mutex> lock(mutex_);
  kept.swap(kept_);
}

std::string WorkHCCL::describe() const {
  const std::string title(description_.title);
  return title.substr(title.find(':') + 1) + " #" + std::to_string(description_.number);
}

void WorkHCCL::block_current_stream() {
  DeviceGuard guard(device_.index());
  const Stream current = current_stream(device_.index());
  for (size_t i = 0; i < ends_.size(); ++i)
    if (!(streams_[i] == current)) ends_[i].block(current);
}

void WorkHCCL::block_host(std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  while (!isCompleted()) {
    throw_if_failed();
    if (timeout != kNoTimeout && std::chrono::steady_clock::now() - start > timeout)
      fail(c10::str(describe(), " did not end within ", timeout.count(), " ms"));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (auto text = error()) fail(*text);
  throw_if_failed();
}

void WorkHCCL::synchronize() {
  throw_if_failed();
  block_current_stream();
  if (description_.barrier) current_stream(device_.index()).synchronize();
  release();
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  synchronize();
  if (blocking_ || timeout != kNoTimeout) block_host(timeout == kNoTimeout ? description_.timeout : timeout);
  return true;
}

void WorkHCCL::abort() {
  for (const auto& communicator : communicators_) communicator->destroy();
}

// Marked complete at once; its callbacks run on streams that wait for the device, as upstream's do.
c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{device_});
    DeviceGuard device(device_.index());
    c10::StreamGuard guard(streams_.empty() ? current_stream(device_.index()).unwrap() : streams_.back().unwrap());
    for (const Event& event : ends_) event.block(current_stream(device_.index()));
    future_->markCompleted(c10::IValue(outputs_));
  }
  return future_;
}

float WorkHCCL::getDuration() const {
  TORCH_CHECK(description_.timed,
              "The duration of a collective is known only when timing is on: call "
              "enable_collectives_timing() or set TORCH_HCCL_ENABLE_TIMING=1.");
  TORCH_CHECK(!ends_.empty(), "This work has not been launched.");
  ends_.back().synchronize();
  return begins_.back().elapsed_time(ends_.back());
}

}  // namespace npu::distributed
