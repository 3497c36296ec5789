#include "config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "acl_types.h"
#include "error.h"
#include "soc.h"

namespace softnpu {

namespace {

const char* variable(const char* name) {
  const char* text = getenv(name);
  return text && *text ? text : nullptr;
}

bool parse_int(const char* text, long* value) {
  char* end = nullptr;
  errno = 0;
  *value = strtol(text, &end, 10);
  return end != text && *end == '\0' && errno == 0;
}

void complain(Config& config, const char* name, const char* text, const std::string& expected) {
  if (config.error.empty()) config.error = std::string(name) + "='" + text + "' makes no sense; expected " + expected;
}

int read_int(Config& config, const char* name, int fallback, int low, int high) {
  const char* text = variable(name);
  if (!text) return fallback;
  long value = 0;
  if (parse_int(text, &value) && value >= low && value <= high) return static_cast<int>(value);
  complain(config, name, text, "a number from " + std::to_string(low) + " to " + std::to_string(high));
  return fallback;
}

bool read_switch(Config& config, const char* name) { return read_int(config, name, 0, 0, 1) == 1; }

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<int>(n) : 1;
}

int default_threads() {
  long value = 0;  // OMP_NUM_THREADS may be a list, one number per nesting level: the first one counts
  if (const char* text = variable("OMP_NUM_THREADS")) value = strtol(text, nullptr, 10);
  return value > 0 && value <= 1024 ? static_cast<int>(value) : usable_cores();
}

// torch_npu/smi.py looks there too.
std::string record_folder(const std::string& pool) {
  const std::string suffix = pool.empty() ? "" : "." + pool;
  if (const char* folder = variable("XDG_RUNTIME_DIR")) return std::string(folder) + "/softnpu" + suffix;
  const char* folder = variable("TMPDIR");
  return std::string(folder ? folder : "/tmp") + "/softnpu-" + std::to_string(geteuid()) + suffix;
}

Config read_environment() {
  Config c;
  const char* soc = variable("SOFTNPU_SOC");
  c.soc = find_soc(soc ? soc : kDefaultSoc);
  if (!c.soc) complain(c, "SOFTNPU_SOC", soc, "one of " + soc_names());
  c.devices = read_int(c, "SOFTNPU_DEVICES", 8, 0, kMaxCards);
  if (const char* text = variable("SOFTNPU_MEMORY"); text && (!parse_bytes(text, &c.memory) || c.memory == 0))
    complain(c, "SOFTNPU_MEMORY", text, "bytes, or a number with K, M, G or T, such as 512M");
  c.async = read_switch(c, "SOFTNPU_ASYNC");
  c.threads = read_int(c, "SOFTNPU_THREADS", default_threads(), 1, 1024);
  if (const char* text = variable("SOFTNPU_WORKSPACE")) {
    c.workspace_all = std::string(text) == "all";
    if (!c.workspace_all) complain(c, "SOFTNPU_WORKSPACE", text, "'all' or nothing");
  }
  c.trace = read_switch(c, "SOFTNPU_TRACE");
  if (const char* text = variable("SOFTNPU_STRICT")) {
    const std::string value = text;
    c.strict_types = value == "1";
    c.strict = c.strict_types || value == "calls";
    if (!c.strict && value != "0") complain(c, "SOFTNPU_STRICT", text, "0, 'calls' or 1");
  }
  c.hostile = static_cast<uint32_t>(read_int(c, "SOFTNPU_HOSTILE", 0, 0, INT_MAX));
  if (const char* text = variable("SOFTNPU_FAULT"); text && !parse_faults(text, &c.faults)) {
    c.faults.clear();
    complain(c, "SOFTNPU_FAULT", text, kFaultForms);
  }
  c.cache_limit = read_int(c, "ACLNN_CACHE_LIMIT", c.cache_limit, 0, 10'000'000);
  c.connect_timeout = read_int(c, "HCCL_CONNECT_TIMEOUT", 120, 1, 7 * 24 * 3600);
  c.exec_timeout = read_int(c, "HCCL_EXEC_TIMEOUT", 1800, 0, INT_MAX);
  if (variable("ASCEND_GLOBAL_LOG_LEVEL")) {
    long level = 0;  // CANN ignores what it does not understand here, and so do we
    if (parse_int(variable("ASCEND_GLOBAL_LOG_LEVEL"), &level) && level >= 0 && level <= 4) c.log_level = level;
  }
  c.visible = parse_visible_devices(getenv("ASCEND_RT_VISIBLE_DEVICES"), c.devices);
  std::string pool;
  if (const char* text = variable("SOFTNPU_POOL")) {
    pool = is_pool_name(text) ? text : "";
    if (pool.empty()) complain(c, "SOFTNPU_POOL", text, "a name of up to 64 letters, digits, '_', '-' and '.'");
  }
  c.record_folder = record_folder(pool);
  return c;
}

}  // namespace

bool parse_bytes(const std::string& text, size_t* bytes) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = strtoull(text.c_str(), &end, 10);
  if (errno != 0) return false;
  const size_t unit = std::string("kmgt").find(static_cast<char>(tolower(*end)));
  const int shift = *end && unit != std::string::npos ? 10 * static_cast<int>(unit + 1) : 0;
  if (shift) ++end;
  const std::string rest = end;
  if (rest != "" && !(shift && (rest == "B" || rest == "iB"))) return false;
  if (value > (~0ull >> shift)) return false;
  *bytes = static_cast<size_t>(value << shift);
  return true;
}

// A part of a file's name.
bool is_pool_name(const std::string& text) {
  const auto fits = [](unsigned char c) { return (c < 128 && isalnum(c)) || c == '_' || c == '-' || c == '.'; };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), fits);
}

// CANN takes the entries up to the first one that is no card of this host (not a number, out of range, named before).
std::vector<int> parse_visible_devices(const char* text, int devices) {
  std::vector<int> cards;
  if (!text) {
    for (int i = 0; i < devices; ++i) cards.push_back(i);
    return cards;
  }
  std::string rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string item = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    while (!item.empty() && item.front() == ' ') item.erase(0, 1);
    while (!item.empty() && item.back() == ' ') item.pop_back();
    long card = -1;
    if (!parse_int(item.c_str(), &card) || card < 0 || card >= devices) break;
    bool repeated = false;
    for (int seen : cards) repeated |= seen == card;
    if (repeated) break;
    cards.push_back(static_cast<int>(card));
  }
  return cards;
}

const char* record_file() { return variable("SOFTNPU_RECORD"); }

bool record_once() {
  const char* const value = variable("SOFTNPU_RECORD_ONCE");
  return value && value == std::string("1");
}

const Config& config() {
  static const Config* const c = new Config(read_environment());  // leaked: threads may outlive static destruction
  return *c;
}

const Config& checked_config() {
  const Config& c = config();
  if (!c.error.empty()) fail(ACL_ERROR_RT_SOC_VERSION, "%s", c.error.c_str());
  return c;
}

}  // namespace softnpu
