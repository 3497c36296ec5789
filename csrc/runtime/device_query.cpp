#include "runtime/device_query.h"

#include <c10/util/Exception.h>

#include <glob.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "acl/config.h"
#include "acl/library.h"
#include "runtime/device.h"

namespace npu {

namespace {

constexpr int kChildSeconds = 60;  // CANN needs several to open a card

// Cards, and shares of cards as virtual machines see them.
int count_device_nodes() {
  int count = 0;
  for (const char* pattern : {"/dev/davinci[0-9]*", "/dev/vdavinci[0-9]*"}) {
    glob_t nodes{};
    if (glob(pattern, 0, nullptr, &nodes) == 0) count += static_cast<int>(nodes.gl_pathc);
    globfree(&nodes);
  }
  return count;
}

bool count_in_child(void* out, int) {
  uint32_t count = 0;
  const auto& api = acl::api();
  if (api.aclInit(nullptr) != 0 || api.aclrtGetDeviceCount(&count) != 0) return false;
  *static_cast<int*>(out) = static_cast<int>(count);
  return true;
}

// Nodes cost nothing and leave the process free to fork. Where none has a known name, the runtime is asked once, in a
// child, which sees what ASCEND_RT_VISIBLE_DEVICES says.
int count_cards() {
  const int nodes = count_device_nodes();
  if (nodes > 0) return count_visible(config::visible_devices(), nodes);
  static const int answer = [] {
    int count = 0;
    return ask_child(count_in_child, &count, sizeof(count), 0, kChildSeconds) ? count : 0;
  }();
  return answer;
}

// DeviceProperties in a form that can cross a pipe.
struct Description {
  char name[64] = "";
  char uuid[40] = "";
  int64_t total_memory = 0, l2 = 0, ai_cores = 0, cube_cores = 0, vector_cores = 0;
  int32_t bf16 = 1;
};

void describe_uuid(int device, Description& d) {
  aclrtUuid uuid{};
  const auto query = acl::api().aclrtDeviceGetUuid;
  if (!query || query(device, &uuid) != 0) return;
  char* out = d.uuid;
  for (int i = 0; i < 16; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
    out += snprintf(out, 3, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
}

// Asks the runtime in this process. What it does not know keeps its default.
void describe(int device, Description& d) {
  const auto& api = acl::api();
  if (const char* name = api.aclrtGetSocName()) strncpy(d.name, name, sizeof(d.name) - 1);
  describe_uuid(device, d);
  const auto ask = [&](aclrtDevAttr attribute, int64_t& value) {
    int64_t answer = 0;
    if (api.aclrtGetDeviceInfo && api.aclrtGetDeviceInfo(device, attribute, &answer) == 0) value = answer;
  };
  ask(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, d.total_memory);
  ask(ACL_DEV_ATTR_L2_CACHE_SIZE, d.l2);
  ask(ACL_DEV_ATTR_AICORE_CORE_NUM, d.ai_cores);
  ask(ACL_DEV_ATTR_CUBE_CORE_NUM, d.cube_cores);
  ask(ACL_DEV_ATTR_VECTOR_CORE_NUM, d.vector_cores);
  if (api.aclGetCannAttribute) {
    int32_t supported = 1;
    if (api.aclGetCannAttribute(ACL_CANN_ATTR_BF16, &supported) == 0) d.bf16 = supported;
  }
}

bool describe_in_child(void* out, int device) {
  auto& d = *static_cast<Description*>(out);
  const auto& api = acl::api();
  if (api.aclInit(nullptr) != 0 || api.aclrtSetDevice(device) != 0) return false;
  describe(device, d);
  size_t free = 0, total = 0;
  if (d.total_memory == 0 && api.aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == 0) d.total_memory = total;
  return true;
}

Description description(c10::DeviceIndex device) {
  if (is_in_bad_fork()) init();  // throws: the runtime answers nothing here
  Description d;
  if (acl::provider() == acl::Provider::softnpu || is_initialized())
    describe(device, d);
  else
    TORCH_CHECK(ask_child(describe_in_child, &d, sizeof(d), device, kChildSeconds), "npu:", int{device},
                " did not tell its properties. Look at its state with `npu-smi info`.");
  return d;
}

}  // namespace

int count_visible(const std::optional<std::string>& visible, int existing) {
  if (!visible) return existing;
  std::vector<long> cards;
  for (const char* at = visible->c_str(); *at >= '0' && *at <= '9';) {
    char* end = nullptr;
    const long card = strtol(at, &end, 10);
    if (card >= existing || std::find(cards.begin(), cards.end(), card) != cards.end()) break;
    cards.push_back(card);
    at = *end == ',' ? end + 1 : "";
  }
  return static_cast<int>(cards.size());
}

c10::DeviceIndex count_devices() {
  int count = 0;
  if (acl::provider() == acl::Provider::cann) {
    count = count_cards();
  } else {
    uint32_t answer = 0;
    if (acl::api().aclrtGetDeviceCount(&answer) == 0) count = static_cast<int>(answer);
  }
  return static_cast<c10::DeviceIndex>(std::min(count, kMaxDevices));
}

bool ask_child(bool (*fill)(void*, int), void* out, size_t bytes, int argument, int seconds) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    const bool ok = fill(out, argument);
    const bool sent = ok && write(ends[1], out, bytes) == static_cast<ssize_t>(bytes);
    _exit(sent ? 0 : 1);  // no exit handlers: they belong to the parent
  }
  close(ends[1]);
  pollfd readable{ends[0], POLLIN, 0};
  const auto buffer = std::make_unique<char[]>(bytes);
  const bool answered = child > 0 && poll(&readable, 1, seconds * 1000) == 1 &&
                        read(ends[0], buffer.get(), bytes) == static_cast<ssize_t>(bytes);
  close(ends[0]);
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  if (answered) memcpy(out, buffer.get(), bytes);
  return answered;
}

const DeviceProperties& get_device_properties(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  check_device_index(device);
  static std::mutex mutex;
  static std::array<std::unique_ptr<const DeviceProperties>, kMaxDevices> known;
  std::lock_guard lock(mutex);
  auto& properties = known[device];
  if (!properties) {
    const auto d = description(device);
    properties = std::make_unique<const DeviceProperties>(DeviceProperties{
        .name = d.name,
        .total_memory = static_cast<uint64_t>(d.total_memory),
        .L2_cache_size = d.l2,
        .multi_processor_count = static_cast<int32_t>(d.ai_cores),
        .cube_core_num = static_cast<int32_t>(d.cube_cores),
        .vector_core_num = static_cast<int32_t>(d.vector_cores),
        .uuid = d.uuid,
        .bf16 = d.bf16 != 0,
    });
  }
  return *properties;
}

std::string get_soc_name() {
  if (acl::provider() == acl::Provider::cann && !is_initialized()) return get_device_properties(0).name;
  const char* name = acl::api().aclrtGetSocName();
  return name ? name : "";
}

std::string cann_version() {
  aclCANNPackageVersion version{};
  const auto query = acl::api().aclsysGetCANNVersion;
  return query && query(ACL_PKG_NAME_CANN, &version) == 0 ? version.version : "";
}

}  // namespace npu
