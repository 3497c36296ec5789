#include "distributed/communicator.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "acl/config.h"
#include "acl/library.h"
#include "distributed/hccl_api.h"
#include "distributed/liveness.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/event.h"

namespace npu::distributed {

namespace {

constexpr uint32_t kNamedConfig = 4;  // capability from which on the long structure is understood
constexpr uint32_t kVersion = 10;
constexpr size_t kShortConfig = 32;
constexpr std::chrono::seconds kMargin{2};  // rank 0 knows who is late: the others wait a little longer

uint32_t number(const HcclConfigMap& options, const char* key, uint32_t fallback, int64_t most = UINT32_MAX) {
  const auto found = options.find(key);
  if (found == options.end()) return fallback;
  TORCH_CHECK_TYPE(std::holds_alternative<int64_t>(found->second), "Value type of ", key, " should be int.");
  const int64_t value = std::get<int64_t>(found->second);
  TORCH_CHECK_VALUE(value >= 0 && value <= most, key, " of hccl_config must be from 0 to ", most, ", but is ", value);
  return static_cast<uint32_t>(value);
}

std::string text(const HcclConfigMap& options, const char* key) {
  const auto found = options.find(key);
  if (found == options.end()) return "";
  TORCH_CHECK_TYPE(std::holds_alternative<std::string>(found->second), "Value type of ", key, " should be string.");
  return std::get<std::string>(found->second);
}

void check_keys(const HcclConfigMap& options) {
  static const char* const known[] = {
      "hccl_buffer_size",       "group_name",         "qos_service_level", "qos_traffic_class",
      "hccl_op_expansion_mode", "hccl_world_rank_id", "hccl_exec_timeout"};
  for (const auto& [key, value] : options) {
    bool found = false;
    for (const char* name : known) found |= key == name;
    TORCH_CHECK_VALUE(found, "hccl_config has no key '", key,
                      "'; known are hccl_buffer_size, group_name, qos_service_level, qos_traffic_class, "
                      "hccl_op_expansion_mode, hccl_world_rank_id and hccl_exec_timeout.");
  }
}

// The communicator of the whole job carries the process's number in it and the address where its processes met, as the
// official client was seen to do: HCCL's logs and heartbeats name them.
void name_job(HcclCommConfig& config, const CommunicatorSettings& settings) {
  const auto job = config::job();
  if (!job || job->ranks != static_cast<int>(settings.members.size())) return;
  config.hcclWorldRankID = static_cast<uint32_t>(job->rank);
  config.hcclJobID = static_cast<uint64_t>(job->port) << 32 | job->address;
}

// How long a collective waits for the other ranks. softnpu is told the group's limit, because its words name who is
// late. The official client was seen to tell HCCL nothing: HCCL_EXEC_TIMEOUT counts there, and the watchdog keeps the
// group's limit.
int32_t patience(std::chrono::milliseconds timeout) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  const bool told = acl::provider() == acl::Provider::softnpu && seconds > 0 && seconds < INT32_MAX;
  return told ? static_cast<int32_t>(seconds) : -1;
}

HcclCommConfig make_config(const CommunicatorSettings& settings, bool named) {
  constexpr uint32_t unset = 0xffffffff;
  check_keys(settings.options);
  HcclCommConfig config{};
  config.size = named ? sizeof config : kShortConfig;
  config.magic = HCCL_COMM_CONFIG_MAGIC;
  config.version = kVersion;
  config.hcclBufferSize =
      number(settings.options, "hccl_buffer_size", static_cast<uint32_t>(settings.buffer_megabytes));
  config.hcclDeterministic = settings.deterministic ? 1 : unset;
  const std::string group = text(settings.options, "group_name");
  TORCH_CHECK_VALUE(group.size() <= 32, "group_name of hccl_config is longer than 32 characters.");
  snprintf(config.hcclCommName, sizeof config.hcclCommName, "%s", settings.name.c_str());
  snprintf(config.hcclUdi, sizeof config.hcclUdi, "%s", group.c_str());
  config.hcclOpExpansionMode = number(settings.options, "hccl_op_expansion_mode", 0);
  config.hcclRdmaTrafficClass = number(settings.options, "qos_traffic_class", unset);
  config.hcclRdmaServiceLevel = number(settings.options, "qos_service_level", unset);
  name_job(config, settings);
  config.hcclWorldRankID = number(settings.options, "hccl_world_rank_id", config.hcclWorldRankID);
  config.unknown = 0;  // its first byte, as the official client sets it
  config.hcclExecTimeOut = static_cast<int32_t>(
      number(settings.options, "hccl_exec_timeout", static_cast<uint32_t>(patience(settings.timeout)), INT32_MAX));
  return config;
}

std::string here(const std::string& key, int rank) { return key + "/here/" + std::to_string(rank); }

std::string process(int rank) { return "hccl_process/" + std::to_string(rank); }

// The first member of `waited_for` whose process has ended, or -1.
int ended(c10d::Store& store, const std::vector<int>& waited_for) {
  for (int rank : waited_for) {
    if (!store.check({process(rank)})) continue;
    const std::vector<uint8_t> note = store.get(process(rank));
    if (process_has_ended(std::string(note.begin(), note.end()))) return rank;
  }
  return -1;
}

// As store.wait(), but not for processes that have ended: `late` says whom it still waits for.
void wait_for_living(c10d::Store& store, const std::vector<std::string>& keys, std::chrono::milliseconds timeout,
                     const std::function<std::vector<int>()>& late) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kNap{10};  // waits that time out would be warned of, one after the other
  constexpr std::chrono::seconds kLook{1};
  const auto end = Clock::now() + timeout;
  auto next = Clock::now() + kLook;
  for (int last = -1;;) {
    if (store.check(keys)) return;
    if (Clock::now() >= end) return store.wait(keys, kNap);  // which says what is missing
    std::this_thread::sleep_for(kNap);
    if (Clock::now() < next) continue;
    next = Clock::now() + kLook;
    const int gone = ended(store, late());  // twice: its note may be one of an earlier process that is being replaced
    TORCH_CHECK_WITH(DistBackendError, gone < 0 || gone != last, "Rank ", gone,
                     "'s process has ended before the first collective");
    last = gone;
  }
}

// The ranks come to their first collective at different times, and HCCL's own patience is short: wait for all first.
void wait_for_all(c10d::Store& store, const std::string& key, int ranks, const CommunicatorSettings& settings) {
  const auto timeout = settings.timeout;
  std::vector<std::string> keys;
  for (int rank = 0; rank < ranks; ++rank) keys.push_back(here(key, rank));
  try {
    wait_for_living(store, keys, timeout, [&] {
      std::vector<int> late;
      for (int rank = 0; rank < ranks; ++rank)
        if (!store.check({keys[rank]})) late.push_back(settings.members.at(rank));
      return late;
    });
  } catch (const c10::DistStoreError& error) {
    std::string late;
    for (int rank = 0; rank < ranks; ++rank)
      if (!store.check({keys[rank]})) late += (late.empty() ? "" : ", ") + std::to_string(rank);
    TORCH_CHECK_WITH(DistBackendError, !late.empty(), error.what());
    TORCH_CHECK_WITH(DistBackendError, false, "Rank ", late, " of ", ranks,
                     " did not come to the first collective within ", timeout.count(), " ms");
  }
}

// Rank 0 makes the root info, the others find it in the store. A failure of rank 0 is told to all.
HcclRootInfo exchange_root_info(c10d::Store& store, const std::string& key, int rank, int ranks,
                                const CommunicatorSettings& settings) {
  const auto timeout = settings.timeout;
  HcclRootInfo info{};
  constexpr uint8_t good = 1, bad = 0;
  store.set(here(key, rank), std::vector<uint8_t>{good});
  if (rank == 0) {
    std::vector<uint8_t> value(1, good);
    try {
      wait_for_all(store, key, ranks, settings);
      HCCL_CHECK(hccl::api().HcclGetRootInfo(&info));
    } catch (const c10::Error& error) {
      value[0] = bad;
      const std::string why = error.what_without_backtrace();
      value.insert(value.end(), why.begin(), why.end());
      store.set(key, value);
      throw;
    }
    value.insert(value.end(), info.internal, info.internal + sizeof info.internal);
    store.set(key, value);
    return info;
  }
  try {
    wait_for_living(store, {key}, timeout + kMargin, [&] { return std::vector<int>{settings.members.at(0)}; });
  } catch (const c10::DistStoreError& error) {
    TORCH_CHECK_WITH(DistBackendError, false, "Rank 0 did not come to the first collective within ", timeout.count(),
                     " ms: ", error.what());
  }
  const std::vector<uint8_t> value = store.get(key);
  TORCH_CHECK_WITH(DistBackendError, !value.empty() && value[0] == good,
                   "No communicator: ", std::string(value.begin() + !value.empty(), value.end()));
  TORCH_CHECK_WITH(DistBackendError, value.size() == 1 + sizeof info.internal,
                   "The store holds no root info of HCCL under ", key, ". Do all ranks run the same torch_npu?");
  memcpy(info.internal, value.data() + 1, sizeof info.internal);
  return info;
}

// Everybody has read it. A later group may use the same store and key, and must not find this one's.
void forget_root_info(c10d::Store& store, const std::string& key, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) store.deleteKey(here(key, rank));
  store.deleteKey(key);
}

}  // namespace

void announce_process(c10d::Store& store, int rank) {
  const std::string note = own_process();
  store.set(process(rank), std::vector<uint8_t>(note.begin(), note.end()));
}

std::shared_ptr<Communicator> Communicator::connect(c10d::Store& store, const std::string& key, int rank, int ranks,
                                                    const CommunicatorSettings& settings) {
  const hccl::Api& api = hccl::api();
  const HcclRootInfo info = exchange_root_info(store, key, rank, ranks, settings);
  HcclComm handle = nullptr;
  const uint32_t capability = api.HcclGetCommConfigCapability ? api.HcclGetCommConfigCapability() : 0;
  if (api.HcclCommInitRootInfoConfig) {
    HcclCommConfig config = make_config(settings, capability >= kNamedConfig);
    HCCL_CHECK(api.HcclCommInitRootInfoConfig(static_cast<uint32_t>(ranks), &info, static_cast<uint32_t>(rank), &config,
                                              &handle));
  } else {
    HCCL_CHECK(api.HcclCommInitRootInfo(static_cast<uint32_t>(ranks), &info, static_cast<uint32_t>(rank), &handle));
  }
  if (rank == 0) forget_root_info(store, key, ranks);
  return std::shared_ptr<Communicator>(new Communicator(handle));
}

HcclComm Communicator::handle() const {
  std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, handle_, "The HCCL communicator was aborted.");
  return handle_;
}

std::optional<Failure> Communicator::failure() {
  std::lock_guard<std::mutex> lock(mutex_);
  ask();
  return failure_;
}

void Communicator::ask() {
  if (failure_ || !handle_ || !is_usable()) return;
  HcclResult error = HCCL_SUCCESS;
  if (hccl::api().HcclGetCommAsyncError(handle_, &error) != HCCL_SUCCESS || error == HCCL_SUCCESS) return;
  const char* words = acl::api().aclGetRecentErrMsg();
  failure_ = Failure{c10::str(words && *words ? words : "HCCL reported an error in the background", " (",
                              hccl::result_name(error), ")"),
                     error == HCCL_E_TIMEOUT};
}

void Communicator::set_last_good(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_good_ = std::max<uint64_t>(last_good_, number);
}

std::string Communicator::name() const {
  char name[MAX_GROUP_NAME] = {};
  if (hccl::api().HcclGetCommName) HCCL_CHECK(hccl::api().HcclGetCommName(handle(), name));
  return name;
}

void Communicator::follow(Stream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Work outside of a capture cannot be waited for inside: a replay is ordered by the stream that it is given to.
  const auto same_capture = [&] {
    return captures::of_stream(last_stream_->handle()) == captures::of_stream(stream.handle());
  };
  if (last_stream_ && !(*last_stream_ == stream) && (!captures::any() || same_capture())) {
    Event done;
    done.record(*last_stream_);
    done.block(stream);
  }
  last_stream_ = stream;
}

void Communicator::destroy() noexcept {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!handle_) return;
  ask();
  if (!failure_) failure_ = Failure{"The HCCL communicator was aborted."};
  if (is_usable()) hccl::api().HcclCommDestroy(handle_);
  handle_ = nullptr;
}

}  // namespace npu::distributed
