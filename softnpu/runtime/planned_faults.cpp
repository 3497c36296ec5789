#include "planned_faults.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>

#include "address.h"
#include "breakdown.h"
#include "config.h"
#include "error.h"
#include "task.h"

namespace softnpu {

const char* const kFaultForms =
    "entries KIND@PLACE=N separated by commas: ecc, timeout, lost or link at launch or collective, slow@collective "
    "(:ms=T, else 100), oom@allocation; N from 1, and :card=C for one card, such as 'ecc@launch=100:card=1'";

namespace {

using Kind = PlannedFault::Kind;
using Place = PlannedFault::Place;

template <class T>
struct Word {
  std::string_view name;
  T value;
};
constexpr Word<Kind> kKinds[] = {{"ecc", Kind::ecc},   {"timeout", Kind::timeout}, {"lost", Kind::lost},
                                 {"link", Kind::link}, {"slow", Kind::slow},       {"oom", Kind::oom}};
constexpr Word<Place> kPlaces[] = {
    {"launch", Place::launch}, {"collective", Place::collective}, {"allocation", Place::allocation}};

template <class T, size_t N>
bool parse_word(std::string_view text, const Word<T> (&words)[N], T* value) {
  for (const auto& word : words) {
    if (word.name != text) continue;
    *value = word.value;
    return true;
  }
  return false;
}

bool parse_number(std::string_view text, uint64_t low, uint64_t high, uint64_t* number) {
  if (text.empty() || text.size() > 12) return false;
  *number = 0;
  for (char digit : text) {
    if (digit < '0' || digit > '9') return false;
    *number = *number * 10 + static_cast<uint64_t>(digit - '0');
  }
  return *number >= low && *number <= high;
}

// The text before `mark`, which is taken away with it. All of it when there is no mark.
std::string_view take(std::string_view* rest, char mark) {
  const size_t at = rest->find(mark);
  const std::string_view head = rest->substr(0, at);
  *rest = at == std::string_view::npos ? std::string_view() : rest->substr(at + 1);
  return head;
}

bool fits(Kind kind, Place place) {
  if (kind == Kind::oom) return place == Place::allocation;
  if (kind == Kind::slow) return place == Place::collective;
  return place != Place::allocation;
}

bool parse_fault(std::string_view text, PlannedFault* fault) {
  fault->text = text;
  const std::string_view kind = take(&text, '@'), place = take(&text, '='), number = take(&text, ':');
  if (!parse_word(kind, kKinds, &fault->kind) || !parse_word(place, kPlaces, &fault->place) ||
      !parse_number(number, 1, UINT64_MAX, &fault->number) || !fits(fault->kind, fault->place))
    return false;
  while (!text.empty()) {
    std::string_view value = take(&text, ':');
    const std::string_view name = take(&value, '=');
    uint64_t n = 0;
    if (name == "card" && parse_number(value, 0, kMaxCards - 1, &n))
      fault->card = static_cast<int>(n);
    else if (name == "ms" && fault->kind == Kind::slow && parse_number(value, 1, 3'600'000, &n))
      fault->milliseconds = static_cast<int>(n);
    else
      return false;
  }
  return fault->text.back() != ':';
}

void wait_unless_abandoned(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!abandoned() && std::chrono::steady_clock::now() < end) {
    const timespec nap{0, 1'000'000};
    nanosleep(&nap, nullptr);
  }
}

// A task to which a fault happens.
class Faulty final : public Task {
 public:
  Faulty(int card, const PlannedFault& fault, Task* task) : card_(card), fault_(fault), task_(task) {}
  void run() override {
    const std::string where = "card " + std::to_string(card_);
    const std::string plan = " (SOFTNPU_FAULT=" + fault_.text + ")";
    switch (fault_.kind) {
      case Kind::slow:
        wait_unless_abandoned(fault_.milliseconds);
        return task_->run();
      case Kind::timeout:
        fail(ACL_ERROR_RT_AICORE_TIMEOUT, "%s did not end in time on %s%s", task_->name(), where.c_str(), plan.c_str());
      case Kind::ecc: {
        const TouchedBytes memory = written();
        void* const address = memory.begin ? const_cast<void*>(device_address(memory.begin)) : nullptr;
        return break_down(card_, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, address, memory.bytes,
                          where + " has a multi-bit error in its memory at " + task_->name() + plan);
      }
      case Kind::lost:
        return break_down(card_, ACL_ERROR_RT_LOST_HEARTBEAT, nullptr, 0,
                          where + " was lost at " + task_->name() + plan);
      default:
        return break_down(card_, ACL_ERROR_RT_LINK_ERROR, nullptr, 0,
                          where + " lost its link to other cards at " + task_->name() + plan);
    }
  }
  std::string describe() const override { return task_->describe(); }
  void release() noexcept override {
    task_->release();
    delete this;
  }
  Waits waits() const noexcept override { return task_->waits(); }
  const char* name() const noexcept override { return task_->name(); }
  std::vector<TouchedBytes> memory() const override { return task_->memory(); }

 private:
  TouchedBytes written() const {
    for (const TouchedBytes& bytes : task_->memory())
      if (bytes.written && bytes.bytes && is_device_address(device_address(bytes.begin))) return bytes;
    return {};
  }

  const int card_;
  const PlannedFault& fault_;  // of the configuration
  Task* const task_;
};

struct Counters {
  std::atomic<uint64_t> launches{0}, collectives{0}, allocations{0};
  std::atomic<size_t> refused{SIZE_MAX};  // bytes of an allocation that failed
};
Counters g_counters[kMaxCards];

bool strikes(const PlannedFault& fault, int card) { return fault.card < 0 || fault.card == card; }

}  // namespace

bool parse_faults(const std::string& text, std::vector<PlannedFault>* faults) {
  std::string_view rest = text;
  do {
    PlannedFault fault{};
    if (!parse_fault(take(&rest, ','), &fault)) return false;
    faults->push_back(fault);
  } while (!rest.empty());
  return text.back() != ',';
}

Task* planned::submitted(int card, Task* task) {
  Counters& counters = g_counters[card];
  const bool collective = task->waits() == Task::Waits::for_peers;
  const uint64_t launch = ++counters.launches, number = collective ? ++counters.collectives : 0;
  for (const PlannedFault& fault : config().faults) {
    if (!strikes(fault, card) || fault.place == Place::allocation) continue;
    if (fault.place == Place::collective && !collective) continue;
    const uint64_t count = fault.place == Place::launch ? launch : number;
    if (fault.kind == Kind::slow ? count >= fault.number : count == fault.number) task = new Faulty(card, fault, task);
  }
  return task;
}

void planned::allocates(int card, size_t bytes) {
  Counters& counters = g_counters[card];
  const uint64_t number = ++counters.allocations;
  for (const PlannedFault& fault : config().faults) {
    if (!strikes(fault, card) || fault.place != Place::allocation) continue;
    if (number == fault.number) counters.refused = std::min(counters.refused.load(), bytes);
    if (number >= fault.number && bytes >= counters.refused)
      fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
           "card %d is out of memory: %.2f MiB wanted, which its allocation %llu was the first not to get "
           "(SOFTNPU_FAULT=%s)",
           card, static_cast<double>(bytes) / (1 << 20), static_cast<unsigned long long>(fault.number),
           fault.text.c_str());
  }
}

}  // namespace softnpu
