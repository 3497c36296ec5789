#include "acl/config.h"

#include <c10/util/Exception.h>

#include <arpa/inet.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "acl/json.h"

namespace npu::config {

namespace {

std::optional<std::string> text(const char* name) {
  const char* value = std::getenv(name);
  if (!value) return std::nullopt;
  return value;
}

std::optional<int> integer(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return static_cast<int>(std::strtol(value, nullptr, 10));
}

bool flag(const char* name) { return integer(name).value_or(0) != 0; }

std::vector<std::string> split(const std::string& list, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= list.size();) {
    size_t end = list.find(separator, begin);
    if (end == std::string::npos) end = list.size();
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Runtime runtime() {
  const auto value = text("TORCH_NPU_RUNTIME").value_or("");
  if (value.empty()) return Runtime::automatic;
  if (value == "cann") return Runtime::cann;
  if (value == "soft") return Runtime::softnpu;
  TORCH_CHECK(false, "TORCH_NPU_RUNTIME=", value, " names no runtime. Set it to cann or soft, or unset it.");
}

std::vector<std::string> cann_homes() {
  std::vector<std::string> homes;
  for (const char* name : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"}) {
    auto home = text(name).value_or("");
    if (!home.empty() && (homes.empty() || homes.front() != home)) homes.push_back(std::move(home));
  }
  return homes;
}

std::vector<std::string> custom_operator_paths() {
  auto paths = split(text("ASCEND_CUSTOM_OPP_PATH").value_or(""), ':');
  const auto opp = text("ASCEND_OPP_PATH").value_or("");
  glob_t vendors{};
  if (!opp.empty() && glob((opp + "/vendors/*").c_str(), GLOB_ONLYDIR, nullptr, &vendors) == 0)
    paths.insert(paths.end(), vendors.gl_pathv, vendors.gl_pathv + vendors.gl_pathc);
  globfree(&vendors);
  return paths;
}

std::string acl_init_config() {
  auto path = text("TORCH_ACL_INIT_CONFIG_PATH").value_or("");
  if (path.empty()) return path;
  std::ifstream file(path);
  TORCH_CHECK_VALUE(file.good(), "TORCH_ACL_INIT_CONFIG_PATH=", path,
                    " cannot be read; name a JSON file, or unset it.");
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  TORCH_CHECK_VALUE(is_json(content), "TORCH_ACL_INIT_CONFIG_PATH=", path,
                    " is no JSON file; aclInit takes an object such as {\"dump\": {...}}, or unset it.");
  return path;
}
std::optional<std::string> visible_devices() { return text("ASCEND_RT_VISIBLE_DEVICES"); }

std::optional<int> task_queue_level() {
  const auto level = integer("TASK_QUEUE_ENABLE");
  if (!level || (*level >= 0 && *level <= 2)) return level;
  TORCH_WARN_ONCE("TASK_QUEUE_ENABLE=", *level, " is not 0, 1 or 2; it is ignored.");
  return std::nullopt;
}

bool launch_blocking() { return flag("ASCEND_LAUNCH_BLOCKING"); }

int stream_timeout_ms() {
  const int ms = integer("ACL_STREAM_TIMEOUT").value_or(-1);
  return ms > 0 ? ms : -1;
}

int device_timeout_ms() {
  const int seconds = integer("ACL_DEVICE_SYNC_TIMEOUT").value_or(-1);
  return seconds > 0 && seconds < 2'000'000 ? seconds * 1000 : -1;
}

std::optional<std::string> npu_alloc_conf() { return text("PYTORCH_NPU_ALLOC_CONF"); }
std::optional<std::string> alloc_conf() { return text("PYTORCH_ALLOC_CONF"); }
bool no_memory_caching() { return flag("PYTORCH_NO_NPU_MEMORY_CACHING"); }
bool fallback_cpu_disabled() { return flag("TORCH_NPU_FALLBACK_CPU_DISABLE"); }
bool hccl_blocking_wait() { return flag("TORCH_HCCL_BLOCKING_WAIT") || flag("HCCL_BLOCKING_WAIT"); }

int hccl_async_error_handling() {
  const int value =
      integer("TORCH_HCCL_ASYNC_ERROR_HANDLING").value_or(integer("HCCL_ASYNC_ERROR_HANDLING").value_or(1));
  if (value >= 0 && value <= 3) return value;
  TORCH_WARN_ONCE("TORCH_HCCL_ASYNC_ERROR_HANDLING=", value, " is not 0 to 3; it is ignored.");
  return 1;
}

bool hccl_high_priority() { return flag("TORCH_HCCL_HIGH_PRIORITY"); }
std::string hccl_transport() { return text("TORCH_NPU_HCCL_TRANSPORT").value_or(""); }
int hccl_trace_buffer_size() { return integer("TORCH_HCCL_TRACE_BUFFER_SIZE").value_or(0); }
bool hccl_trace_cpp_stack() { return flag("TORCH_HCCL_TRACE_CPP_STACK"); }
bool hccl_dump_on_timeout() { return flag("TORCH_HCCL_DUMP_ON_TIMEOUT"); }

std::string hccl_debug_info_file() {
  if (const auto file = text("TORCH_HCCL_DEBUG_INFO_TEMP_FILE")) return *file;
  return text("TMPDIR").value_or("/tmp") + "/hccl_trace_rank_";
}

int hccl_buffer_megabytes() { return std::max(1, integer("HCCL_BUFFSIZE").value_or(200)); }
int hccl_p2p_buffer_megabytes() { return std::max(1, integer("P2P_HCCL_BUFFSIZE").value_or(20)); }
bool hccl_deterministic() { return text("HCCL_DETERMINISTIC").value_or("") == "true"; }
bool hccl_enable_timing() { return flag("TORCH_HCCL_ENABLE_TIMING"); }

bool compact_errors() { return flag("TORCH_NPU_COMPACT_ERROR_OUTPUT"); }
int rank() { return integer("RANK").value_or(-1); }

std::optional<Job> job() {
  const auto rank = integer("RANK"), ranks = integer("WORLD_SIZE"), port = integer("MASTER_PORT");
  const auto host = text("MASTER_ADDR");
  if (!rank || !ranks || !port || !host) return std::nullopt;
  in_addr address{};
  if (inet_pton(AF_INET, host->c_str(), &address) != 1) address.s_addr = 0;
  return Job{*rank, *ranks, *port, ntohl(address.s_addr)};
}

}  // namespace npu::config
