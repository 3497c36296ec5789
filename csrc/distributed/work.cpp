#include "distributed/work.h"

#include <ATen/core/ivalue.h>
#include <c10/core/StreamGuard.h>

#include <thread>

#include "acl/check.h"
#include "runtime/device.h"

namespace npu::distributed {

WorkHCCL::WorkHCCL(int rank, std::shared_ptr<Execution> execution, std::vector<at::Tensor> outputs, bool blocking)
    : Work(rank, execution->description().type, execution->description().title),
      execution_(std::move(execution)),
      outputs_(std::move(outputs)),
      blocking_(blocking) {}

bool WorkHCCL::isCompleted() { return execution_->settle() || execution_->failure(); }

void WorkHCCL::throw_if_failed() const {
  if (const auto failure = execution_->failure())
    TORCH_CHECK_WITH(DistBackendError, false, failure->text, "\n",
                     acl::error_line("ERR02200 DIST call hccl api failed"));
}

std::exception_ptr WorkHCCL::exception() const {
  try {
    throw_if_failed();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void WorkHCCL::block_host(std::chrono::milliseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  while (!isCompleted()) {
    if (timeout != kNoTimeout && std::chrono::steady_clock::now() - start > timeout)
      execution_->fail({c10::str(execution_->describe(), " did not end within ", timeout.count(), " ms"), true});
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void WorkHCCL::synchronize() {
  if (execution_->failure()) execution_->absorb();
  throw_if_failed();
  const c10::DeviceIndex device = execution_->device().index();
  DeviceGuard guard(device);
  const Stream current = current_stream(device);
  execution_->block(current);
  if (execution_->description().barrier) current.synchronize();
  execution_->release();
}

// A limit is one for the host. It comes first: the rest of a barrier waits without one.
bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  if (blocking_ || timeout != kNoTimeout)
    block_host(timeout == kNoTimeout ? execution_->description().timeout : timeout);
  synchronize();
  return true;
}

// Marked complete at once; its callbacks run on streams that wait for the device, as upstream's do.
c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!future_) {
    const c10::Device device = execution_->device();
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{device});
    DeviceGuard device_guard(device.index());
    c10::StreamGuard guard(execution_->stream().unwrap());
    execution_->block(execution_->stream());
    future_->markCompleted(c10::IValue(outputs_));
  }
  return future_;
}

}  // namespace npu::distributed
