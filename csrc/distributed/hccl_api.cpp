#include "distributed/hccl_api.h"

#include <c10/util/Exception.h>

#include <memory>
#include <string>

#include "acl/check.h"
#include "acl/library.h"
#include "runtime/recovery.h"
#include "runtime/task_queue.h"

namespace npu::hccl {

namespace {

Api load() {
  Api api;
#define NPU_HCCL_LOAD(name) api.name = reinterpret_cast<decltype(api.name)>(acl::hccl_symbol(#name));
#define NPU_HCCL_REQUIRE(name) \
  NPU_HCCL_LOAD(name)          \
  TORCH_CHECK(api.name, "HCCL has no function " #name ": the library is too old or not complete.");
  NPU_HCCL_REQUIRED(NPU_HCCL_REQUIRE)
  NPU_HCCL_OPTIONAL(NPU_HCCL_LOAD)
  return api;
}

}  // namespace

const Api& api() {
  static const Api api = load();
  return api;
}

const char* result_name(HcclResult result) noexcept {
  static const char* const names[] = {"HCCL_SUCCESS",
                                      "HCCL_E_PARA",
                                      "HCCL_E_PTR",
                                      "HCCL_E_MEMORY",
                                      "HCCL_E_INTERNAL",
                                      "HCCL_E_NOT_SUPPORT",
                                      "HCCL_E_NOT_FOUND",
                                      "HCCL_E_UNAVAIL",
                                      "HCCL_E_SYSCALL",
                                      "HCCL_E_TIMEOUT",
                                      "HCCL_E_OPEN_FILE_FAILURE",
                                      "HCCL_E_TCP_CONNECT",
                                      "HCCL_E_ROCE_CONNECT",
                                      "HCCL_E_TCP_TRANSFER",
                                      "HCCL_E_ROCE_TRANSFER",
                                      "HCCL_E_RUNTIME",
                                      "HCCL_E_DRV",
                                      "HCCL_E_PROFILING",
                                      "HCCL_E_CCE",
                                      "HCCL_E_NETWORK",
                                      "HCCL_E_AGAIN",
                                      "HCCL_E_REMOTE"};
  return result >= 0 && result < static_cast<int>(std::size(names)) ? names[result] : "unknown code";
}

void throw_hccl_error(HcclResult result, const char* expression) {
  const char* words = acl::api().aclGetRecentErrMsg();
  std::string text = words ? words : "";
  const std::string call(expression);
  const size_t begin = call.find("Hccl");
  const std::string function = begin == std::string::npos ? call : call.substr(begin, call.find('(', begin) - begin);
  if (text.empty()) text = "A call to HCCL failed.";
  text += "\n" + function + " returned " + std::to_string(result) + " (" + result_name(result) + ")";
  text += "\n" + acl::error_line("ERR02200 DIST call hccl api failed");
  throw c10::DistBackendError({"HCCL_CHECK", __FILE__, static_cast<uint32_t>(__LINE__)}, std::move(text));
}

void enqueue(std::function<void(aclrtStream)> body, Stream stream) {
  if (recovery::watched()) recovery::check_not_stopped(stream.device_index());
  const aclrtStream handle = stream.handle();
  if (task_queue::level() == 0) return body(handle);
  struct Call {
    std::function<void(aclrtStream)>* body;
    aclrtStream handle;
  };
  const Call call{new std::function<void(aclrtStream)>(std::move(body)), handle};
  const auto run = [](void* payload) {
    const Call call = *static_cast<Call*>(payload);
    const std::unique_ptr<std::function<void(aclrtStream)>> owned(call.body);
    (*owned)(call.handle);
  };
  task_queue::push(run, &call, sizeof call);
}

}  // namespace npu::hccl
