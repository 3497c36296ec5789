#include "distributed/process_group.h"

#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/Logging.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>

#include "acl/check.h"
#include "acl/config.h"
#include "distributed/hccl_api.h"
#include "distributed/inspection.h"
#include "profiler/kernel_trace.h"
#include "runtime/device.h"

namespace npu::distributed {

namespace {

constexpr size_t kMaxName = 100;

enum Reaction { kNone = 0, kTearDown = 1, kCleanUpOnly = 2, kSkipCleanUp = 3 };

}  // namespace

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                   c10::intrusive_ptr<Options> options)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      blocking_(config::hccl_blocking_wait()),
      reaction_(config::hccl_async_error_handling()),
      timed_(config::hccl_enable_timing()),
      everyone_(size) {
  setGroupUid(options_->group_name);
  auto ranks = options_->global_ranks_in_group;
  if (ranks.empty())  // the default group: all of them
    for (int i = 0; i < size; ++i) ranks.push_back(static_cast<uint64_t>(i));
  FlightRecorder::get().set_ranks(options_->group_name, std::move(ranks));
  std::iota(everyone_.begin(), everyone_.end(), 0);
  init();
  announce_process(*store_, rank);
  // A connection of its own: the main thread may block in the store for minutes.
  watchdog_ = std::make_unique<Watchdog>(store_->clone(), rank, size, options_->group_name,
                                         [this](const std::string& text) { on_failure(text); });
  begin_inspection(*this);
}

ProcessGroupHCCL::~ProcessGroupHCCL() {
  end_inspection(*this);
  watchdog_->stop();
  if (!closed_) abort();
}

void ProcessGroupHCCL::check_usable() {
  TORCH_CHECK_WITH(DistBackendError, !closed_, "The process group was shut down or aborted.");
  watchdog_->settle();
  if (const auto failure = watchdog_->failure(); failure && reaction_ != kNone)
    TORCH_CHECK_WITH(DistBackendError, false, "An earlier collective of this group failed: ", failure->text);
}

std::optional<std::string> ProcessGroupHCCL::failure() const {
  const auto failure = watchdog_->failure();
  return failure ? std::optional(failure->text) : std::nullopt;
}

// Nothing may go on waiting: communicators are given up, which ends what runs on this rank and is told to the others.
void ProcessGroupHCCL::on_failure(const std::string& text) {
  LOG(ERROR) << "[rank " << rank_ << ", group " << options_->group_name << "] " << text;
  if (config::hccl_dump_on_timeout() && FlightRecorder::get().enabled())
    FlightRecorder::get().write_file(global_rank());
  if (reaction_ == kTearDown || reaction_ == kCleanUpOnly)
    for (const auto& communicator : all_communicators()) communicator->destroy();
}

std::vector<std::shared_ptr<Communicator>> ProcessGroupHCCL::all_communicators() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [key, communicator] : communicators_) all.push_back(communicator);
  return all;
}

void ProcessGroupHCCL::abort() {
  watchdog_->settle();
  closed_ = true;
  for (const auto& communicator : all_communicators()) communicator->destroy();
}

void ProcessGroupHCCL::waitForPendingWorks() {
  TORCH_CHECK_WITH(DistBackendError, watchdog_->wait_until_idle(options_->timeout), "Collectives did not end within ",
                   options_->timeout.count(), " ms.");
}

void ProcessGroupHCCL::shutdown() {
  if (!closed_ && !watchdog_->failure()) watchdog_->wait_until_idle(options_->timeout);
  watchdog_->stop();
  abort();
}

c10d::ErrorType ProcessGroupHCCL::getError() {
  const auto failure = watchdog_->failure();
  if (!failure) return c10d::ErrorType::SUCCESS;
  return failure->timed_out ? c10d::ErrorType::TIMEOUT : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroupHCCL::pause() { watchdog_->stop(); }
void ProcessGroupHCCL::resume() { watchdog_->restart(); }

void ProcessGroupHCCL::rebuild() {
  watchdog_->stop();
  for (const auto& communicator : all_communicators()) communicator->destroy();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    communicators_.clear();
    ++generation_;
  }
  closed_ = false;
  watchdog_->restart();
}

std::shared_ptr<Communicator> ProcessGroupHCCL::find_or_connect(const std::string& name,
                                                                const std::vector<int>& members, const char* title) {
  uint64_t generation = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = communicators_.find(name);
    if (found != communicators_.end()) return found->second;
    generation = generation_;
    connecting_ = {title, name == "all", std::chrono::steady_clock::now()};
  }
  const auto connected = c10::make_scope_exit([&] {
    std::lock_guard<std::mutex> lock(mutex_);
    connecting_.reset();
  });
  CommunicatorSettings settings;
  const std::string group = options_->group_name.empty() ? "group" : options_->group_name;
  settings.name = name == "all" ? group : group + ":" + name;  // CANN wants names that are unique
  settings.name.resize(std::min(settings.name.size(), kMaxName));
  settings.timeout = options_->timeout;
  settings.buffer_megabytes = name == "all" ? config::hccl_buffer_megabytes() : config::hccl_p2p_buffer_megabytes();
  settings.deterministic = config::hccl_deterministic() || at::globalContext().deterministicAlgorithms();
  settings.options = options_->hccl_config;
  const int rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  const int ranks = static_cast<int>(members.size());
  settings.members = members;
  std::shared_ptr<Communicator> communicator;
  try {
    communicator = Communicator::connect(*store_, c10::str("hccl_root/", generation, "/", name), rank, ranks, settings);
  } catch (c10::Error& error) {
    error.add_context(c10::str(title, " on rank ", rank_, " of group ", group, " got no communicator"));
    throw;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  return communicators_.emplace(name, std::move(communicator)).first->second;
}

std::shared_ptr<Communicator> ProcessGroupHCCL::communicator(c10::DeviceIndex device, const char* title) {
  int used = -1;
  last_device_.compare_exchange_strong(used, device);
  TORCH_CHECK_WITH(DistBackendError, used < 0 || used == device,
                   "A process group works with one card for "
                   "each rank: this one has used npu:",
                   used, " and now got a tensor on npu:", int(device),
                   ". Call torch.npu.set_device(local_rank) first, or make another group.");
  return find_or_connect("all", everyone_, title);
}

// Of two ranks (or one, for what a rank sends to itself), so that sends do not need the whole group to take part.
// Each direction has its own, and batches have: they run beside each other, and a communicator does one thing at a
// time. Both directions are connected in one order, because two ranks may both send before they receive.
std::shared_ptr<Communicator> ProcessGroupHCCL::pair_communicator(int peer, Direction direction, const char* title) {
  const int low = std::min(rank_, peer), high = std::max(rank_, peer);
  if (direction == Direction::both)
    return find_or_connect(c10::str(low, "+", high), low == high ? std::vector{low} : std::vector{low, high}, title);
  const auto up = find_or_connect(c10::str(low, "-", high), {low, high}, title);
  const auto down = find_or_connect(c10::str(high, "-", low), {low, high}, title);
  return (direction == Direction::there) == (rank_ == low) ? up : down;
}

Stream ProcessGroupHCCL::side_stream(c10::DeviceIndex device, int which) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto key = std::make_pair(device, which);
  const auto found = streams_.find(key);
  if (found != streams_.end()) return found->second;
  const bool high = options_->is_high_priority_stream || config::hccl_high_priority();
  return streams_.emplace(key, stream_from_pool(high ? -1 : 0, device)).first->second;
}

c10::DeviceIndex ProcessGroupHCCL::any_device() const {
  if (bound_device_id_) return bound_device_id_->index();
  const int used = last_device_;
  return used >= 0 ? static_cast<c10::DeviceIndex>(used) : current_device();
}

void ProcessGroupHCCL::eagerConnectSingleDevice(at::Device device) {
  DeviceGuard guard(device.index());
  communicator(device.index(), "the eager connection");
}

std::string ProcessGroupHCCL::comm_name(int device, bool connect) {
  const c10::DeviceIndex index = checked_device(device);
  if (!connect) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = communicators_.find("all");
    return found == communicators_.end() ? "" : found->second->name();
  }
  DeviceGuard guard(index);
  return communicator(index, "get_hccl_comm_name")->name();
}

int ProcessGroupHCCL::global_rank(int rank) const {
  const auto& ranks = options_->global_ranks_in_group;
  return static_cast<size_t>(rank) < ranks.size() ? static_cast<int>(ranks[rank]) : rank;
}

// In this group's own store, which knows about attempts of torchrun (torch_npu/distributed/backend.py).
c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(const c10::intrusive_ptr<c10d::Store>&,
                                                          const std::vector<int>& ranks,
                                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank_);
  if (me == ranks.end()) return nullptr;
  auto options = c10::dynamic_intrusive_pointer_cast<Options>(opts);
  TORCH_CHECK_TYPE(options, "pg_options for hccl must be ProcessGroupHCCL.Options");
  options->global_ranks_in_group.clear();
  for (int rank : ranks) options->global_ranks_in_group.push_back(static_cast<uint64_t>(global_rank(rank)));
  auto store = c10::make_intrusive<c10d::PrefixStore>("split/" + options->group_name, store_);
  auto group = c10::make_intrusive<ProcessGroupHCCL>(std::move(store), static_cast<int>(me - ranks.begin()),
                                                     static_cast<int>(ranks.size()), std::move(options));
  if (bound_device_id_) group->setBoundDeviceId(bound_device_id_);
  return group;
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::watch(std::shared_ptr<Execution> execution, const Tensors& inputs,
                                                  const Tensors& outputs) {
  const Execution::Description& what = execution->description();
  FlightRecorder& recorder = FlightRecorder::get();
  if (recorder.enabled())
    execution->trace = recorder.record(
        {options_->group_name, pg_desc_, what.title, what.number, !what.collective, what.timeout}, inputs, outputs);
  watchdog_->watch(execution);
  return c10::make_intrusive<WorkHCCL>(rank_, std::move(execution), outputs, blocking_);
}

ProcessGroupHCCL::WorkPtr ProcessGroupHCCL::launch(Launch launch) {
  check_usable();
  const c10::Device device = launch.outputs.empty() ? launch.inputs.at(0).device() : launch.outputs[0].device();
  DeviceGuard guard(device.index());
  const auto communicator = this->communicator(device.index(), launch.title);
  const bool aside = launch.async || coalescing_;
  const Stream current = current_stream(device.index());
  const Stream stream = aside ? side_stream(device.index(), kCollectiveStream) : current;
  const Execution::Description what{.type = launch.type,
                                    .title = launch.title,
                                    .number = ++collectives_,
                                    .timeout = timeout_or_default(launch.timeout),
                                    .collective = true,
                                    .barrier = launch.barrier,
                                    .timed = timed_};
  auto execution = std::make_shared<Execution>(what, device);
  if (aside) {
    Event ready;
    ready.record(current);
    ready.block(stream);
    execution->keep(launch.inputs);
    execution->keep(launch.outputs);
  }
  communicator->follow(stream);
  execution->begin(stream);
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;  // as for the collective itself
    std::optional<c10::StreamGuard> on_stream;
    if (aside) on_stream.emplace(stream.unwrap());
    Tensors made;
    auto call = launch.prepare(made);
    {
      const kernel_trace::Span span(launch.title, kernel_trace::Kind::collective, stream, [&] {
        return kernel_trace::Traffic{bytes_of(launch.inputs.empty() ? launch.outputs : launch.inputs), nullptr,
                                     communicator->name()};
      });
      hccl::enqueue([call, comm = communicator->handle()](aclrtStream handle) { call(comm, handle); }, stream);
    }
    if (launch.after) launch.after();
  }
  execution->end(stream, communicator);
  auto work = watch(std::move(execution), launch.inputs, launch.outputs);
  if (coalescing_) last_coalesced_ = work;
  return work;
}

}  // namespace npu::distributed
