// Launches of operators with a collective before, behind or between their kernels.
#include "kernels/engine/collective.h"
#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

// The first kernel of `call`, with the same arguments.
Call* part_of(const Call& call, const Operator& first) {
  auto* part = new Call(first);
  part->values = call.values;
  part->storages = call.storages;
  part->extents = call.extents;
  part->workspace = call.workspace;
  part->workspace_bytes = call.workspace_bytes;
  return part;
}

// A call whose workspace a collective has filled: it is not overwritten first.
class Receiving final : public Task {
 public:
  explicit Receiving(Call* call) : call_(call) {}

  void run() override {
    try {
      call_->compute();
    } catch (const c10::Error& e) {
      throw Failure(ACL_ERROR_RT_AICORE_EXCEPTION, e.what_without_backtrace());
    }
  }
  std::string describe() const override { return call_->describe(); }
  void leave_thread() noexcept override { call_->leave_thread(); }
  void release() noexcept override {
    call_->release();
    delete this;
  }
  const char* name() const noexcept override { return call_->name(); }
  std::vector<TouchedBytes> memory() const override { return call_->memory(); }

 private:
  Call* const call_;
};

}  // namespace

int launch(const Operator& op, Collective (*collective)(Call&), const Operator* first, void* workspace,
           uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream) {
  return guard(op.name, [&] {
    std::optional<Collective> part;
    Stream& target = launchable(stream);
    Call* call = take(op, workspace, workspace_size, executor, card_of(target), [&](Call& c) { part = collective(c); });
    if (part->behind) {
      submit(target, call);
      return part->submit(stream);
    }
    try {
      if (first) submit(target, part_of(*call, *first));
      part->submit(stream);
    } catch (...) {
      call->release();
      throw;
    }
    if (call->workspace_bytes)
      submit(target, new Receiving(call));
    else
      submit(target, call);
  });
}

}  // namespace softnpu::kernels
