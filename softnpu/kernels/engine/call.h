// One execution of an operator: its arguments as CPU tensors over device memory, ready to run on a stream.
// Created by phase one (see plan.h), consumed by phase two. The generated entry points are the only users.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/engine/executors.h"
#include "kernels/engine/format.h"
#include "runtime/objects.h"
#include "runtime/task.h"

namespace softnpu::kernels {

using at::ScalarType;
using at::Tensor;
using c10::Scalar;

class Call;

// What a kernel may read from the thread that launched it. See Note [Clean state].
struct ThreadState {
  uint64_t float_flags;  // see float_flags.h
  int threads;
};

// What the generator knows of an operator; one static object each.
struct Operator {
  const char* name;
  void (*run)(Call&);
  void (*require)(Call&);  // throws for arguments that `run` must not see; NULL when it checks them all. See require.h
  const char* arguments;   // "self,other,alpha,out"
  enum class Shape : uint8_t { free, same, broadcast, matmul } shape;
  uint64_t dtypes;         // bit d: inputs may have c10::ScalarType d
  uint64_t outputs;        // bit i: argument i is written
  uint64_t optional;       // bit i: argument i may be NULL
  bool workspace;          // asks for scratch memory
  bool trial;              // may run twice, see Note [Trial run] in trial.h
  bool wide;               // computes float16 and bfloat16 in float32, see Note [Wide kernels] in wide.h
  uint64_t formatted = 0;  // bit i: argument i may be in a private format, see Note [Private formats] in format.h
};

using Value = std::variant<std::monostate, Tensor, std::vector<Tensor>, Scalar, std::vector<Scalar>,
                           std::vector<int64_t>, std::vector<uint8_t>, int64_t, double, ScalarType, std::string>;

class Call final : public Task {
 public:
  explicit Call(const Operator& op) : op(op) {}
  ~Call() override;

  void run() override;
  void compute();  // the kernel itself; throws what ATen throws
  std::string describe() const override;
  void release() noexcept override;
  const char* name() const noexcept override { return op.name; }
  std::vector<TouchedBytes> memory() const override;

  // Accessors of the generated kernels: argument i in the order of abi/aclnn.yaml.
  Tensor& tensor(size_t i) { return std::get<Tensor>(values[i]); }
  std::optional<Tensor> optional(size_t i) {
    auto& t = tensor(i);
    return t.defined() ? std::optional<Tensor>(t) : std::nullopt;
  }
  std::vector<Tensor>& tensors(size_t i) { return std::get<std::vector<Tensor>>(values[i]); }
  const Scalar& scalar(size_t i) { return std::get<Scalar>(values[i]); }
  std::optional<Scalar> maybe_scalar(size_t i) {
    auto* s = std::get_if<Scalar>(&values[i]);
    return s ? std::optional<Scalar>(*s) : std::nullopt;
  }
  const std::vector<Scalar>& scalars(size_t i) { return std::get<std::vector<Scalar>>(values[i]); }
  at::IntArrayRef ints(size_t i) { return std::get<std::vector<int64_t>>(values[i]); }
  const std::vector<uint8_t>& bools(size_t i) { return std::get<std::vector<uint8_t>>(values[i]); }
  int64_t integer(size_t i) { return std::get<int64_t>(values[i]); }
  double real(size_t i) { return std::get<double>(values[i]); }
  ScalarType dtype(size_t i) { return std::get<ScalarType>(values[i]); }
  const std::string& text(size_t i) { return std::get<std::string>(values[i]); }

  // Note [Prepared iterators]: a cached call keeps the TensorIterator of an elementwise operator and only exchanges
  // data pointers, which saves most of what a small kernel costs. Returns nullptr where that is not possible (types
  // differ, an operand needs a temporary): the general kernel runs then. Operands: the output, then tensors or numbers.
  template <class... In>
  at::TensorIterator* iterator(Tensor& out, const In&... in) {
    if (!prepared_) {
      prepared_ = true;
      prepare(out, {operand(in)...});
    }
    if (!iterator_) return nullptr;
    int64_t i = 0;
    iterator_->unsafe_replace_operand(i++, out.mutable_data_ptr());
    (replace(i++, in), ...);
    return iterator_.get();
  }

  // The same for a reduction of `in` over `dims`, whose loop calls operators of ATen. Not where `out` has another type
  // or shape than the result, or where there is nothing to reduce.
  at::TensorIterator* reduction(Tensor& out, const Tensor& in, at::IntArrayRef dims, bool keepdim, ScalarType dtype) {
    if (!prepared_) {
      prepared_ = true;
      if (in.scalar_type() == dtype) prepare_reduction(out, in, dims, keepdim);
    }
    if (!iterator_) return nullptr;
    iterator_->unsafe_replace_operand(0, out.mutable_data_ptr());
    replace(1, in);
    return iterator_.get();
  }

  // Operators whose output size depends on data: argument i's view gets the shape of `result`, and its values.
  void set_output(size_t i, const Tensor& result);

  // Note [Layouts of outputs]: some of ATen's out= forms give `out` the format of their input instead of writing its
  // strides (padding of channels_last images, for one). The client reads what its descriptor says, so a run that
  // changed the strides of an output is followed by a copy into those that remember_layouts() saw.
  void remember_layouts();
  // Points the tensors, in argument order, at new device addresses.
  void set_addresses(void* const* addresses, size_t count);
  void set_workspace(void* workspace, uint64_t bytes);
  // Before every launch: the memory of a call from the cache, or of one that waited, may be gone, or that of another
  // card, whose frees do not wait for this one's streams. Throws Failure.
  void check_memory(int card) const;
  // In strict mode, before phase two: nothing says that CANN does not look at the descriptors again. Throws Failure.
  void check_descriptors() const;
  // The name of argument i, with the length that it has there.
  std::string_view argument(size_t i) const;
  // See Note [Clean state].
  void leave_thread() noexcept override;
  void stay_on_thread() noexcept { launcher_.reset(); }  // for a call that runs again

  const Operator& op;
  c10::SmallVector<Value, 6> values;
  c10::SmallVector<c10::StorageImpl*, 6> storages;     // of the non-null tensors, in argument order
  c10::SmallVector<size_t, 6> extents;                 // the bytes of each that the call reaches
  c10::SmallVector<Remembered<aclTensor>, 6> handles;  // of the tensor arguments, for set_output
  struct Descriptor {
    const Life* object;
    uint64_t number;
    size_t argument;
  };
  std::vector<Descriptor> descriptors;  // in strict mode: all that phase one saw, elements of lists too
  std::vector<Formatted> formatted;     // arguments in private formats
  Ticket* ticket = nullptr;
  bool cached = false;  // taken from the executor cache, so that there are no descriptors
  uint64_t workspace_bytes = 0;
  void* workspace = nullptr;

  // Note [Call states]: a cached call belongs to its thread's plan. It is `busy` between the cache hit and release(),
  // which may happen on another thread; a plan that goes away leaves its busy calls as `orphan`, which delete
  // themselves.
  enum State : uint8_t { transient, idle, busy, orphan };
  std::atomic<uint8_t> state{transient};

 private:
  void run_formatted();
  void check_workspace() const;
  void restore_layouts();

  struct Operand {
    Tensor tensor;
    bool number;
  };
  static Operand operand(const Tensor& t) { return {t, false}; }
  static Operand operand(const Scalar& s);
  void replace(int64_t i, const Tensor& t) {
    iterator_->unsafe_replace_operand(i, const_cast<void*>(t.const_data_ptr()));
  }
  void replace(int64_t, const Scalar&) {}
  void prepare(const Tensor& out, std::initializer_list<Operand> in);
  void prepare_reduction(const Tensor& out, const Tensor& in, at::IntArrayRef dims, bool keepdim);
  std::unique_ptr<at::TensorIterator> iterator_;
  bool prepared_ = false;
  bool is_bare_ = false;                   // the iterator's loop calls no operator
  c10::SmallVector<int64_t, 12> layouts_;  // of the written tensors: their rank, then their strides
  std::optional<ThreadState> launcher_;    // when it has left the launching thread
};

}  // namespace softnpu::kernels
