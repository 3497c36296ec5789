#include "ops/families/float_status.h"

#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <string_view>

#include "acl/check.h"
#include "acl/library.h"
#include "acl/op_compiler.h"
#include "acl/runtime_symbol.h"
#include "runtime/device.h"
#include "runtime/stream.h"
#include "runtime/task_queue.h"

namespace npu::ops {

namespace {

constexpr int64_t kNumbers = 8;
constexpr int64_t kDebug = 1;  // mode: the status of the chip's debugging of overflows

// An operator over one tensor of eight numbers at most, which waits in the queue.
struct Launch {
  const char* op;
  void *input, *output;  // NULL when there is none
  aclDataType dtype;
  aclrtStream stream;
};

// A function that CANN has had since its first release; `symbol` finds it.
template <class Function>
Function* found(void* (*symbol)(const char*), const char* name) {
  auto* const function = reinterpret_cast<Function*>(symbol(name));
  TORCH_CHECK(function != nullptr, "The runtime in ", acl::path(), " has no ", name,
              ", so the float status cannot be used; check results with torch.isfinite.");
  return function;
}
#define NPU_RUNTIME(name) found<decltype(::name)>(&acl::runtime_symbol, #name)

// A tensor descriptor and the memory behind it.
class Described {
 public:
  Described(void* data, aclDataType dtype)
      : desc_(NPU_RUNTIME(aclCreateTensorDesc)(dtype, 1, &kNumbers, ACL_FORMAT_ND)),
        buffer_(NPU_RUNTIME(aclCreateDataBuffer)(data, kNumbers * 4)) {}
  ~Described() {
    if (desc_) NPU_RUNTIME(aclDestroyTensorDesc)(desc_);
    if (buffer_) NPU_RUNTIME(aclDestroyDataBuffer)(buffer_);
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;

  aclTensorDesc* const desc_;
  aclDataBuffer* const buffer_;
};

void run(void* payload) {
  const Launch launch = *static_cast<Launch*>(payload);
  using Run = decltype(::aclopCompileAndExecute);
  const auto aclopCompileAndExecute = found<Run>(&acl::op_compiler_symbol, "aclopCompileAndExecute");
  const Described in(launch.input, launch.dtype), out(launch.output, launch.dtype);
  const aclTensorDesc *in_desc = in.desc_, *out_desc = out.desc_;
  const aclDataBuffer* in_buffer = in.buffer_;
  aclDataBuffer* out_buffer = out.buffer_;
  NPU_CHECK(aclopCompileAndExecute(launch.op, launch.input ? 1 : 0, &in_desc, &in_buffer, launch.output ? 1 : 0,
                                   &out_desc, &out_buffer, nullptr, ACL_ENGINE_SYS, ACL_COMPILE_SYS, nullptr,
                                   launch.stream));
}

// Memory is handed on in the order of the stream, so the tensors need not live until the launch.
void launch(const char* op, const at::Tensor& input, const at::Tensor& output) {
  const auto& some = output.defined() ? output : input;
  const auto data = [](const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; };
  const auto dtype = some.defined() && some.scalar_type() == at::kFloat ? ACL_FLOAT : ACL_INT32;
  const Launch launch{op, data(input), data(output), dtype, current_stream_handle()};
  task_queue::push(run, &launch, sizeof launch);
}

// The chips whose operators take the status as a tensor.
bool is_first_generation() {
  static const bool older = [] {
    const auto soc = get_soc_name();
    constexpr std::array<std::string_view, 5> kFirst{"Ascend910PremiumA", "Ascend910ProA", "Ascend910A",
                                                     "Ascend910ProB", "Ascend910B"};
    return soc.starts_with("Ascend310P") || std::find(kFirst.begin(), kFirst.end(), soc) != kFirst.end();
  }();
  return older;
}

}  // namespace

void check_float_status_mode(const char* op, int64_t mode) {
  TORCH_CHECK(mode == 0 || mode == kDebug, op, ": mode must be 0, or 1 for the status of overflow debugging, got ",
              mode);
}

at::ScalarType float_status_type(int64_t mode) {
  return mode != kDebug && is_first_generation() ? at::kFloat : at::kInt;
}

void make_float_status(const at::Tensor& status) { launch("NPUAllocFloatStatus", {}, status); }

void read_float_status(const at::Tensor& status, int64_t mode) {
  if (mode == kDebug) return launch("NPUGetFloatDebugStatus", {}, status);
  if (!is_first_generation()) return launch("NPUGetFloatStatusV2", {}, status);
  const auto unread = at::empty_like(status);  // the status is written into the input
  launch("NPUGetFloatStatus", status, unread);
}

void clear_float_status(const at::Tensor& status, int64_t mode) {
  if (mode == kDebug) return launch("NPUClearFloatDebugStatus", {}, {});
  if (!is_first_generation()) return launch("NPUClearFloatStatusV2", {}, {});
  const auto read = at::zeros({kNumbers}, status.options().dtype(at::kFloat));
  launch("NPUClearFloatStatus", read, at::empty_like(read));
}

}  // namespace npu::ops
