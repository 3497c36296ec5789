#include "communicator.h"

#include <poll.h>
#include <sched.h>

#include <chrono>
#include <thread>
#include <unordered_map>

#include "acl_types.h"
#include "codes.h"
#include "runtime/error.h"
#include "runtime/groups.h"
#include "runtime/spin_lock.h"
#include "runtime/stream.h"
#include "runtime/task.h"

namespace softnpu::comm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(20);       // only while ranks do not outnumber cores
constexpr auto kWatch = std::chrono::microseconds(200);     // before sleep: waking up an idle core costs about 50 us
constexpr auto kCrowd = std::chrono::microseconds(10);      // a yield that took so long has let somebody else run
constexpr int kNap = 5;                                     // milliseconds between looks at what wakes nobody
constexpr auto kInsiderPatience = std::chrono::seconds(5);  // for a peer in the middle of one block

// Handles are numbers that are never used twice, so that a stale one is known for what it is.
struct Handles {
  std::mutex mutex;
  uintptr_t last = 0x1000;
  std::unordered_map<uintptr_t, std::shared_ptr<Communicator>> live;
};

Handles& handles() {
  static Handles* const h = new Handles;
  return *h;
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Looks for a short while; with `spin`, as long as a peer on another core needs that works already, without giving the
// core away, and then in turns with whoever wants it. Where somebody does, looking only delays him, and the scheduler
// serves a thread that slept before one that looked: then this ends at once.
bool comes_soon(const std::function<bool()>& ready, Clock::time_point start, bool spin) {
  for (auto now = start; now - start < kWatch;) {
    for (int i = 0; i < 8; ++i) {
      if (ready()) return true;
      pause_cpu();
    }
    const auto before = Clock::now();
    if (!spin || before - start > kSpin) sched_yield();
    now = Clock::now();
    if (now - before > kCrowd) break;
  }
  return ready();
}

std::string listed(const std::vector<uint32_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

Communicator::Communicator(Membership membership, uint32_t rank, int card, Settings settings)
    : seen_invitations(membership.peers.size()),
      rank_(rank),
      card_(card),
      settings_(std::move(settings)),
      control_(std::move(membership.control)),
      peers_(std::move(membership.peers)),
      spins_(peers_.size() <= static_cast<size_t>(usable_cores())),
      sent_(peers_.size()),
      received_(peers_.size()) {}

void Communicator::check_order(const char* what, aclrtStream handle) {
  if (!softnpu::config().strict) return;
  const Stream& stream = Stream::launchable(handle);
  std::lock_guard<std::mutex> lock(order_mutex_);
  if (!order::stands_behind(stream, last_))
    fail(ACL_ERROR_RT_PARAM_INVALID,
         "%s: argument 'comm' (%s) is in use on stream %d, and nothing orders stream %d behind it: let it wait for an "
         "event of stream %d, or use one stream for a communicator (SOFTNPU_STRICT)",
         what, name().c_str(), last_.stream, stream.id(), last_.stream);
}

void Communicator::note_order(aclrtStream handle) {
  if (!softnpu::config().strict) return;
  std::lock_guard<std::mutex> lock(order_mutex_);
  last_ = order::mark(Stream::launchable(handle));
}

HcclComm Communicator::publish(std::shared_ptr<Communicator> communicator) {
  std::lock_guard<std::mutex> lock(handles().mutex);
  const uintptr_t handle = handles().last += 16;
  name_group(communicator->name(), communicator->card(), {reinterpret_cast<HcclComm>(handle), communicator->ranks()});
  handles().live[handle] = std::move(communicator);
  return reinterpret_cast<HcclComm>(handle);
}

std::shared_ptr<Communicator> Communicator::checked(HcclComm handle) {
  if (!handle) fail(ACL_ERROR_INVALID_PARAM, "comm is NULL");
  std::lock_guard<std::mutex> lock(handles().mutex);
  const auto found = handles().live.find(reinterpret_cast<uintptr_t>(handle));
  if (found == handles().live.end())
    fail(ACL_ERROR_RT_INVALID_HANDLE, "comm %p is no live communicator (destroyed before, or not made here)", handle);
  return found->second;
}

std::shared_ptr<Communicator> Communicator::withdraw(HcclComm handle) {
  std::shared_ptr<Communicator> communicator = checked(handle);
  std::lock_guard<std::mutex> lock(handles().mutex);
  handles().live.erase(reinterpret_cast<uintptr_t>(handle));
  forget_group(handle);
  return communicator;
}

void Communicator::leave() {
  closing_.store(true);
  control().rank(rank_).left.store(1);
  control().notify();
}

void Communicator::complete(uint64_t number) {
  completed_.store(number, std::memory_order_release);
  if (submitted_.load(std::memory_order_relaxed) != number) control().notify();  // the next one may wait on its stream
}

bool Communicator::is_gone(uint32_t rank) const {
  if (control().rank(rank).left.load(std::memory_order_acquire) != 0) return true;
  pollfd line{peers_[rank]->life_line(), POLLIN, 0};
  return line.fd >= 0 && poll(&line, 1, 0) > 0 && (line.revents & (POLLHUP | POLLERR)) != 0;
}

std::string Communicator::gone_reason(uint32_t rank) const {
  const bool left = control().rank(rank).left.load(std::memory_order_acquire) != 0;
  return "rank " + std::to_string(rank) + (left ? " has destroyed its communicator" : "'s process has ended");
}

std::string Communicator::list_needed(const Wait& wait) const {
  std::vector<uint32_t> late;
  for (uint32_t rank = 0; rank < ranks(); ++rank)
    if (wait.needs(rank)) late.push_back(rank);
  return late.empty() ? "the collective before it" : listed(late);
}

void Communicator::throw_fault() const {
  const Fault& fault = control().fault;
  while (fault.state.load(std::memory_order_acquire) == 1) std::this_thread::yield();
  if (fault.state.load(std::memory_order_acquire) == 2) throw Failure(fault.code, fault.text);
}

HcclResult Communicator::async_error() const {
  return control().fault.state.load(std::memory_order_acquire) == 2 ? hccl_code(control().fault.code) : HCCL_SUCCESS;
}

void Communicator::give_up(int code, const std::string& text) {
  control().set_fault(code, text.c_str());
  throw_fault();
  throw Failure(code, text);
}

void Communicator::wait(const Wait& wait) {
  const auto start = Clock::now();
  if (comes_soon(wait.ready, start, spins_)) return;
  Clock::time_point hope{};
  for (;;) {
    const uint32_t seen = control().event.load(std::memory_order_seq_cst);
    if (wait.ready()) return;
    throw_fault();
    const auto now = Clock::now();
    if (closing_.load())
      give_up(ACL_ERROR_RT_STREAM_ABORT,
              wait.describe() + ": rank " + std::to_string(rank_) + " destroyed its communicator while it ran");
    if (abandoned())
      give_up(ACL_ERROR_RT_STREAM_ABORT,
              wait.describe() + ": the work of rank " + std::to_string(rank_) + " was aborted");
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      if (rank == rank_ || !wait.needs(rank) || !is_gone(rank) || wait.ready()) continue;
      if (hope == Clock::time_point{}) hope = now + std::chrono::milliseconds(wait.grace_milliseconds);
      if (now >= hope) give_up(ACL_ERROR_RT_LOST_HEARTBEAT, wait.describe() + ": " + gone_reason(rank));
    }
    if (settings_.exec_timeout > 0 && now - start >= std::chrono::seconds(settings_.exec_timeout))
      give_up(ACL_ERROR_RT_TASK_TIMEOUT, wait.describe() + ": " + list_needed(wait) + " did not come within " +
                                             std::to_string(settings_.exec_timeout) + " s, rank " +
                                             std::to_string(rank_) + " waited (HCCL_EXEC_TIMEOUT)");
    control().sleep(seen, kNap);
  }
}

void Communicator::wait_for_insiders(uint64_t number) const {
  const auto end = Clock::now() + kInsiderPatience;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) continue;
    while (control().rank(rank).inside.load(std::memory_order_seq_cst) == number && !is_gone(rank) &&
           Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace softnpu::comm
