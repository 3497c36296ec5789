#include "distributed/execution.h"

#include <algorithm>
#include <thread>

#include "acl/check.h"
#include "runtime/capture.h"
#include "runtime/device.h"

namespace npu::distributed {

void Execution::begin(Stream stream) {
  streams_.push_back(stream);
  if (C10_UNLIKELY(captures::of_stream(stream.handle()) != nullptr)) {  // nothing of it runs now
    good_ = true;
    description_.timed = false;
  }
  if (!description_.timed) return;
  begins_.emplace_back(true);
  begins_.back().record(stream);
}

void Execution::end(Stream stream, std::shared_ptr<Communicator> communicator) {
  ends_.emplace_back(description_.timed);
  ends_.back().record(stream);
  communicators_.push_back(std::move(communicator));
}

void Execution::keep(const std::vector<at::Tensor>& tensors) {
  kept_.insert(kept_.end(), tensors.begin(), tensors.end());
}

std::string Execution::describe() const {
  const std::string title(description_.title);
  return title.substr(title.find(':') + 1) + " #" + std::to_string(description_.number);
}

bool Execution::is_done() const {
  return std::all_of(ends_.begin(), ends_.end(), [](const Event& event) { return event.query(); });
}

bool Execution::is_good() const {
  return good_ || (description_.collective && communicators_[0]->last_good() >= description_.number);
}

// The order counts: the event first, then the failure that would have come before it.
bool Execution::settle() {
  if (is_good()) return true;
  if (!is_done()) return false;
  for (const auto& communicator : communicators_)
    if (communicator->failure()) return false;
  good_ = true;
  if (description_.collective) communicators_[0]->set_last_good(description_.number);
  return true;
}

std::optional<Failure> Execution::failure() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return failure_;
  }
  for (const auto& communicator : communicators_) {
    auto failure = communicator->failure();
    if (!failure || is_good()) continue;
    fail(*failure);
    return failure;
  }
  return std::nullopt;
}

void Execution::fail(Failure failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

void Execution::block(Stream stream) const {
  for (size_t i = 0; i < ends_.size(); ++i)
    if (!(streams_[i] == stream)) ends_[i].block(stream);
}

void Execution::release() {
  std::vector<at::Tensor> kept;  // freed outside of the lock
  std::lock_guard<std::mutex> lock(mutex_);
  kept.swap(kept_);
}

void Execution::absorb() {
  constexpr auto patience = std::chrono::seconds(1);  // what has failed ends soon, if it ends
  for (const auto start = std::chrono::steady_clock::now(); !is_done();) {
    if (std::chrono::steady_clock::now() - start > patience) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (const Stream& stream : streams_) {
    try {
      stream.synchronize();
    } catch (const c10::Error&) {
    }
  }
}

void Execution::abort() {
  for (const auto& communicator : communicators_) communicator->destroy();
}

float Execution::duration() const {
  TORCH_CHECK(description_.timed,
              "The duration of a collective is known only when timing is on: call "
              "enable_collectives_timing() or set TORCH_HCCL_ENABLE_TIMING=1.");
  ends_.back().synchronize();
  return begins_.back().elapsed_time(ends_.back());
}

}  // namespace npu::distributed
