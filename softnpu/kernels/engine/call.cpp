#include "kernels/engine/call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/Formatting.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "kernels/engine/float_flags.h"
#include "kernels/engine/overflow.h"
#include "kernels/engine/wide.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/float_status.h"
#include "runtime/hostility.h"

namespace softnpu::kernels {

namespace {

// Note [Clean state]: a task sees no trace of the thread that happens to run it: no dispatch mode, no functorch layer,
// no autograd or autocast, no profiler callback, the launching thread's floating-point flags and thread count. The last
// two are all that a prepared elementwise loop could see, which calls no operator; they are the thread's own where it
// runs what it has launched, but no kernel gets more threads than SOFTNPU_THREADS.
class LoopState {
 public:
  explicit LoopState(const std::optional<ThreadState>& launcher) : threads_(at::get_num_threads()) {
    static const int most = config().threads;
    if (launcher) {
      flags_ = float_flags(), restore_flags_ = true;
      set_float_flags(launcher->float_flags);
    }
    const int threads = std::min(launcher ? launcher->threads : threads_, most);
    if (threads != threads_) at::set_num_threads(threads), restore_threads_ = true;
  }
  ~LoopState() {
    if (restore_flags_) set_float_flags(flags_);
    if (restore_threads_) at::set_num_threads(threads_);
  }
  LoopState(const LoopState&) = delete;

 private:
  uint64_t flags_ = 0;
  int threads_;
  bool restore_flags_ = false, restore_threads_ = false;
};

class CleanState {
 public:
  explicit CleanState(const std::optional<ThreadState>& launcher)
      : dispatch_(c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
                  c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::default_excluded_set),
        autograd_(c10::AutogradState::get_tls_state()),
        with_grad_(autograd_.get_grad_mode()),
        loop_(launcher) {
    autograd_.set_grad_mode(false);
    // Costly to switch: only when somebody listens to operators.
    if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) no_profiler_.emplace(false);
  }
  ~CleanState() { autograd_.set_grad_mode(with_grad_); }
  CleanState(const CleanState&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard dispatch_;
  std::optional<at::RecordFunctionGuard> no_profiler_;
  c10::AutogradState& autograd_;
  const bool with_grad_;
  LoopState loop_;
};

void describe_tensor(std::ostream& out, const Tensor& t) {
  if (!t.defined()) {
    out << "none";
    return;
  }
  out << t.scalar_type() << t.sizes();
}

struct Describe {
  std::ostream& out;
  void operator()(std::monostate) const {}
  void operator()(const Tensor& t) const { describe_tensor(out, t); }
  void operator()(const std::vector<Tensor>& list) const {
    out << list.size() << " tensors";
    if (!list.empty()) {
      out << ", first ";
      describe_tensor(out, list[0]);
    }
  }
  void operator()(const Scalar& s) const { out << s; }
  void operator()(const std::vector<Scalar>& s) const { out << s.size() << " scalars"; }
  void operator()(const std::vector<int64_t>& v) const { out << at::IntArrayRef(v); }
  void operator()(const std::vector<uint8_t>& v) const { out << v.size() << " flags"; }
  template <class T>
  void operator()(const T& v) const {
    out << v;
  }
};

void run_kernel(Call& call) {
  if (C10_UNLIKELY(overflow_watched())) return run_watched(call);
  call.op.wide ? run_wide(call) : call.op.run(call);
}

}  // namespace

Call::~Call() {
  if (ticket) ticket->give_back();
}

void Call::leave_thread() noexcept { launcher_ = {float_flags(), at::get_num_threads()}; }

void Call::compute() {
  if (is_bare_ && !op.wide && formatted.empty() && !overflow_watched()) {
    const LoopState state(launcher_);
    return op.run(*this);  // leaves the layouts as they are
  }
  CleanState clean(launcher_);
  if (C10_UNLIKELY(!formatted.empty())) return run_formatted();
  run_kernel(*this);
  if (!layouts_.empty()) restore_layouts();
}

void Call::run_formatted() {
  struct Memory {
    std::vector<Formatted>& all;
    ~Memory() {
      for (auto& each : all) each.release();
    }
  } memory{formatted};
  for (auto& each : formatted) each.unpack();
  run_kernel(*this);
  if (!layouts_.empty()) restore_layouts();
  for (auto& each : formatted) each.pack();
}

void Call::remember_layouts() {
  for (size_t i = 0; i < values.size(); i++)
    if (const auto* t = op.outputs >> i & 1 ? std::get_if<Tensor>(&values[i]) : nullptr; t && t->defined()) {
      layouts_.push_back(t->dim());
      layouts_.append(t->strides().begin(), t->strides().end());
    }
}

void Call::restore_layouts() {
  const int64_t* next = layouts_.data();
  for (size_t i = 0; i < values.size(); i++) {
    auto* t = op.outputs >> i & 1 ? std::get_if<Tensor>(&values[i]) : nullptr;
    if (!t || !t->defined()) continue;
    const at::IntArrayRef strides(next + 1, *next);
    next = strides.end();
    if (C10_LIKELY(t->strides() == strides) || t->dim() != static_cast<int64_t>(strides.size())) continue;
    const auto result = t->clone();
    t->unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), strides, t->storage_offset());
    t->copy_(result);
  }
}

void Call::run() {
  if (workspace_bytes) check_workspace();
  try {
    compute();
  } catch (const Failure&) {
    throw;
  } catch (const c10::Error& e) {
    throw Failure(ACL_ERROR_RT_AICORE_EXCEPTION, e.what_without_backtrace());
  } catch (const std::exception& e) {
    throw Failure(ACL_ERROR_RT_AICORE_EXCEPTION, e.what());
  }
}

// The scratch memory is real: overwriting all of it shows a client that passed too little, or memory it still uses.
void Call::check_workspace() const {
  check_allocated(workspace, workspace_bytes, -1, "workspace");
  memset(kernel_address(workspace), kUnwritten, workspace_bytes);
}

Call::Operand Call::operand(const Scalar& s) {
  auto t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return {t, true};
}

// However large it appears: of an expanded number the iterator keeps one element.
static bool is_one_number(const Tensor& t) {
  for (int64_t d = 0; d < t.dim(); d++)
    if (t.size(d) != 1 && t.stride(d) != 0) return false;
  return true;
}

void Call::prepare(const Tensor& out, std::initializer_list<Operand> in) {
  const auto type = in.begin()->tensor.scalar_type();
  if (!c10::isFloatingType(type) || (out.scalar_type() != type && out.scalar_type() != at::kBool)) return;
  if (at::has_internal_overlap(out) == at::MemOverlap::Yes) return;  // ATen says what is wrong with it
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).allow_cpu_scalars(true).promote_inputs_to_common_dtype(true).resize_outputs(
      false);
  config.cast_common_dtype_to_outputs(out.scalar_type() == type).add_owned_output(out);
  for (const auto& o : in) {
    if (o.number ? o.tensor.is_complex() : o.tensor.scalar_type() != type) return;
    // ATen's loops over float16 and bfloat16 take a single number out of the iterator, which then cannot run again.
    if (at::isReducedFloatingType(type) && is_one_number(o.tensor)) return;
    config.add_owned_const_input(o.tensor);
  }
  auto iterator = std::make_unique<at::TensorIterator>(config.build());
  if (iterator->common_dtype() != type || iterator->data_ptr(0) != out.data_ptr()) return;
  int64_t i = 1;
  for (const auto& o : in)
    if (const auto at = i++; !o.number && iterator->data_ptr(at) != o.tensor.const_data_ptr()) return;
  iterator_ = std::move(iterator);
  is_bare_ = true;
}

void Call::prepare_reduction(const Tensor& out, const Tensor& in, at::IntArrayRef dims, bool keepdim) {
  const auto type = in.scalar_type();  // ATen adds up shorter ones in another way than their loop does
  if ((type != at::kFloat && type != at::kDouble) || out.scalar_type() != type || in.numel() == 0) return;
  if (out.sizes() != at::meta::get_reduction_shape(in, dims, keepdim)) return;
  auto iterator = at::meta::make_reduction(in, out, dims, keepdim, type);
  if (iterator.data_ptr(0) != out.data_ptr() || iterator.data_ptr(1) != in.const_data_ptr()) return;
  iterator_ = std::make_unique<at::TensorIterator>(std::move(iterator));
}

std::string Call::describe() const {
  std::ostringstream out;
  out << op.name << "(";
  const char* name = op.arguments;
  for (size_t i = 0; i < values.size(); i++) {
    const char* end = strchrnul(name, ',');
    out << (i ? ", " : "") << std::string(name, end) << ": ";
    std::visit(Describe{out}, values[i]);
    name = *end ? end + 1 : end;
  }
  out << ")";
  return out.str();
}

std::string_view Call::argument(size_t i) const {
  const char* name = op.arguments;
  while (i--) name = strchrnul(name, ',') + 1;
  return {name, static_cast<size_t>(strchrnul(name, ',') - name)};
}

std::vector<TouchedBytes> Call::memory() const {
  std::vector<TouchedBytes> touched;
  const auto add = [&](size_t i, const Tensor& t) {
    if (!t.defined() || t.numel() == 0 || !t.storage().data()) return;
    int64_t reach = 1;
    for (int64_t d = 0; d < t.dim(); d++) reach += (t.size(d) - 1) * t.stride(d);
    const auto item = static_cast<int64_t>(t.element_size());
    touched.push_back({static_cast<const char*>(t.const_data_ptr()), static_cast<size_t>(reach * item),
                       (op.outputs >> i & 1) != 0, argument(i), t.is_non_overlapping_and_dense()});
  };
  for (size_t i = 0; i < values.size(); i++) {
    if (const auto* t = std::get_if<Tensor>(&values[i])) add(i, *t);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&values[i]))
      for (const Tensor& t : *list) add(i, t);
  }
  for (const auto& each : formatted)
    touched.push_back({static_cast<const char*>(each.stored.const_data_ptr()), each.stored.nbytes(), each.written,
                       "a formatted argument"});
  if (workspace && workspace_bytes) touched.push_back({kernel_address(workspace), workspace_bytes, true, "workspace"});
  return touched;
}

void Call::release() noexcept {
  uint8_t now = state.load(std::memory_order_relaxed);
  if (now == busy && state.compare_exchange_strong(now, idle, std::memory_order_release)) return;
  delete this;
}

void Call::set_addresses(void* const* addresses, size_t count) {
  for (size_t i = 0; i < count; i++)
    storages[i]->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(addresses[i] ? kernel_address(addresses[i])
                                                                                      : nullptr);  // nobody's to delete
}

void Call::check_memory(int card) const {
  for (size_t i = 0; i < storages.size(); i++)
    if (extents[i]) check_allocated(device_address(storages[i]->data()), extents[i], card, op.name);
}

void Call::check_descriptors() const {
  for (const Descriptor& each : descriptors)
    if (!each.object->alive(each.number)) {
      const auto name = argument(each.argument);
      fail(ACLNN_ERR_PARAM_INVALID,
           "the descriptor of argument '%.*s' was destroyed before phase two; destroy it afterwards "
           "(SOFTNPU_STRICT)",
           static_cast<int>(name.size()), name.data());
    }
}

void Call::set_workspace(void* address, uint64_t bytes) {
  if (bytes < workspace_bytes)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: workspace_size is %llu, phase one asked for %llu", op.name,
         static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(workspace_bytes));
  if (workspace_bytes && !is_device_address(address))
    fail(ACLNN_ERR_PARAM_NULLPTR, "%s: workspace is not device memory", op.name);
  workspace = address;
}

void Call::set_output(size_t i, const Tensor& result) {
  auto& out = tensor(i);
  note_selection(i);
  TORCH_CHECK(out.numel() >= result.numel(), "output ", i, " has room for ", out.numel(), " elements, needs ",
              result.numel());
  auto view = out.as_strided(
      result.sizes(), result.is_contiguous() ? result.strides() : at::IntArrayRef(result.contiguous().strides()));
  view.copy_(result);
  const Held<aclTensor> handle(handles[i]);
  if (!handle) return;
  handle->sizes.assign(result.sizes().begin(), result.sizes().end());
  handle->strides.assign(view.strides().begin(), view.strides().end());
}

}  // namespace softnpu::kernels
