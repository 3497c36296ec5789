#include "acl/check.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <ctime>
#include <string_view>
#include <utility>

#include "acl/advice.h"
#include "acl/config.h"
#include "acl/error_origin.h"
#include "acl/library.h"
#include "acl/memory_fault.h"

namespace npu::acl {

namespace {

thread_local constinit bool t_asynchronous = false;
std::atomic<FindOrigin> g_find_origin{nullptr};

// What a launch comes to, after it has returned.
bool fails_later(int code) {
  return code == ACL_ERROR_RT_MODEL_EXECUTE || code == ACL_ERROR_RT_AICORE_EXCEPTION ||
         code == ACL_ERROR_RT_AICPU_EXCEPTION || code == ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
}

std::string origin_of(const std::string& report) {
  const FindOrigin find = g_find_origin;
  if (const auto origin = find ? find(report) : ""; !origin.empty())
    return "\n" + origin + ". With ASCEND_LAUNCH_BLOCKING=1 the error is raised there.";
  return "\nThe operator was launched asynchronously, so the Python stack shows a later line. Set "
         "ASCEND_LAUNCH_BLOCKING=1 to see the right one, or TORCH_NPU_ERROR_ORIGIN=1 to have operator and line named "
         "here.";
}

std::string first_line(int code, const std::string& words) {
  if (const char* text = advice(code)) return text;
  const char* general = general_advice(code);
  if (words.empty()) return general ? general : "A call to the NPU runtime failed.";
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

void set_find_origin(FindOrigin function) noexcept { g_find_origin = function; }

AsynchronousErrors::AsynchronousErrors() noexcept : before_(std::exchange(t_asynchronous, true)) {}
AsynchronousErrors::~AsynchronousErrors() { t_asynchronous = before_; }

void throw_acl_error(int code, const char* expression, const char* file, int line) {
  const auto function = called_function(expression);
  const auto words = device_words();  // before any other call of the runtime
  remember_memory_fault(code, current_device());
  const bool quoted = !words.empty() && !advice(code);  // by first_line
  std::string text = c10::str(first_line(code, words), "\n", function, " returned ", code, " (", code_name(code), ")");
  if (const char* general = general_advice(code); general && !words.empty()) text += std::string("\n") + general;
  if (t_asynchronous || (fails_later(code) && !config::launch_blocking()))
    text += origin_of(c10::str(function, "\n", words));
  const bool out_of_memory = code == ACL_ERROR_RT_MEMORY_ALLOCATION;
  if (!config::compact_errors()) {
    const size_t rest = quoted ? words.find('\n') : 0;
    if (!words.empty() && rest != std::string::npos) text += (quoted ? "" : "\n") + words.substr(rest);
    text += "\n" + error_line(out_of_memory ? "ERR00006 PTA memory error" : "ERR00100 PTA call acl api failed");
  }
  const c10::SourceLocation where{"NPU_CHECK", file, static_cast<uint32_t>(line)};
  if (out_of_memory) throw c10::OutOfMemoryError(where, std::move(text));
  throw c10::AcceleratorError(where, code, std::move(text));
}

}  // namespace npu::acl
