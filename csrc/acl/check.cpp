#include "acl/check.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <cctype>
#include <ctime>
#include <string_view>
#include <utility>

#include "acl/config.h"
#include "acl/library.h"

namespace npu::acl {

namespace {

thread_local constinit bool t_asynchronous = false;

// What is wrong and what to do, for the codes a user can do something about; else nullptr.
const char* advice(int code) {
  switch (code) {
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
      return "NPU out of memory. Free tensors, call torch.npu.empty_cache(), or use smaller batches.";
    case ACL_ERROR_INVALID_PARAM:
    case ACL_ERROR_RT_PARAM_INVALID:
    case ACLNN_ERR_PARAM_NULLPTR:
    case ACLNN_ERR_PARAM_INVALID:
      return "The NPU refused an argument; the text below names it. Check dtypes and shapes of the operator's inputs.";
    case ACL_ERROR_RT_INVALID_DEVICEID:
    case ACL_ERROR_INVALID_DEVICE:
    case ACL_ERROR_RT_NO_DEVICE:
      return "The NPU cannot be opened. Check ASCEND_RT_VISIBLE_DEVICES and torch.npu.device_count().";
    case ACL_ERROR_RT_CONTEXT_NULL:
      return "This thread has no NPU selected. Call torch.npu.set_device() in it first.";
    case ACL_ERROR_RT_STREAM_CONTEXT:
      return "A stream was used with another card current. Use `with torch.npu.stream(...)`, which changes both.";
    case ACL_ERROR_RT_NO_STREAM_RESOURCE:
      return "The NPU has no streams left. Reuse streams, or end other processes on this card.";
    case ACL_ERROR_RT_NO_EVENT_RESOURCE:
      return "The NPU has no events left. Reuse events, or end other processes on this card.";
    case ACL_ERROR_RT_STREAM_SYNC_TIMEOUT:
      return "The NPU's work did not end in time. Raise ACL_STREAM_TIMEOUT (milliseconds) or ACL_DEVICE_SYNC_TIMEOUT "
             "(seconds), or unset them.";
    case ACL_ERROR_RT_DEVICE_TASK_ABORT:
      return "The NPU's work was aborted (torch.npu.stop_device). Restart the card before using it again.";
    case ACL_ERROR_RT_LOST_HEARTBEAT:
      return "A process or card that takes part in this work is gone; the text below names it. Look for its own error.";
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
    case ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR:
      return "The NPU's memory has an error that it could not mend (ECC). What was computed since is not to be "
             "trusted: end "
             "the process, go back to a checkpoint, and look at the card with `npu-smi info -t ecc -i ID`.";
    case ACL_ERROR_RT_LINK_ERROR:
      return "The link between NPUs failed. Look at it with `hccn_tool`, and restart the processes of all ranks.";
    case ACL_ERROR_RT_DRV_INTERNAL_ERROR:
      return "The NPU stopped answering. Look at its state with `npu-smi info`, and restart the process.";
    default:
      return nullptr;
  }
}

std::string first_line(int code, const std::string& words) {
  if (const char* text = advice(code)) return text;
  if (words.empty()) return "A call to the NPU runtime failed.";
  return "The NPU reported an error: " + words.substr(0, words.find('\n'));
}

// The function called in `expression`: the identifier in front of the first '(' but those of `api().` and the like.
std::string_view called_function(std::string_view expression) {
  size_t end = expression.size();
  for (size_t at = expression.find('('); at != std::string_view::npos; at = expression.find('(', at + 1)) {
    if (expression.substr(at, 3) == "().") continue;
    end = at;
    break;
  }
  size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(expression[begin - 1])) || expression[begin - 1] == '_'))
    begin--;
  return expression.substr(begin, end - begin);
}

int current_device() noexcept {
  const Api* api = detail::g_api.load(std::memory_order_acquire);
  int32_t device = -1;
  return api && api->aclrtGetDevice(&device) == 0 ? device : -1;
}

std::string device_words() {
  const Api* api = detail::g_api.load(std::memory_order_acquire);
  const char* text = api ? api->aclGetRecentErrMsg() : nullptr;
  std::string words = text ? text : "";
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words;
}

}  // namespace

std::string error_line(const char* text) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%d-%H:%M:%S", &local);
  return c10::str("[ERROR] ", date, " (PID:", getpid(), ", Device:", current_device(), ", RankID:", config::rank(),
                  ") ", text);
}

AsynchronousErrors::AsynchronousErrors() noexcept : before_(std::exchange(t_asynchronous, true)) {}
AsynchronousErrors::~AsynchronousErrors() { t_asynchronous = before_; }

void throw_acl_error(int code, const char* expression, const char* file, int line) {
  const auto function = called_function(expression);
  const auto words = device_words();  // before any other call of the runtime
  std::string text = c10::str(first_line(code, words), "\n", function, " returned ", code, " (", code_name(code), ")");
  if (t_asynchronous)
    text +=
        "\nThe operator was launched asynchronously, so the Python stack shows a later line. Set "
        "ASCEND_LAUNCH_BLOCKING=1 to see the right one.";
  const bool out_of_memory = code == ACL_ERROR_RT_MEMORY_ALLOCATION;
  if (!config::compact_errors()) {
    if (!words.empty()) text += "\n" + words;
    text += "\n" + error_line(out_of_memory ? "ERR00006 PTA memory error" : "ERR00100 PTA call acl api failed");
  }
  const c10::SourceLocation where{"NPU_CHECK", file, static_cast<uint32_t>(line)};
  if (out_of_memory) throw c10::OutOfMemoryError(where, std::move(text));
  throw c10::AcceleratorError(where, code, std::move(text));
}

}  // namespace npu::acl
