#include "kernels/engine/cache.h"

#include <c10/util/flat_hash_map.h>

#include <array>
#include <cstring>
#include <utility>

#include "aclnn.h"
#include "runtime/config.h"
#include "runtime/error.h"
#include "runtime/hostility.h"

#define SOFTNPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace softnpu::kernels::cache {

namespace {

constexpr size_t kMostCalls = 32;    // in flight under one key; further ones are not kept
constexpr size_t kNewcomers = 1024;  // keys that came once

uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_bytes(const uint8_t* p, size_t n) {
  uint64_t h = n * 0x9e3779b97f4a7c15ull;
  uint64_t word;
  for (; n >= 8; p += 8, n -= 8) {
    memcpy(&word, p, 8);
    h = mix(h ^ word, 0xa0761d6478bd642full);
  }
  if (n) {
    word = 0;
    memcpy(&word, p, n);
    h = mix(h ^ word, 0xe7037ed1a0b428dbull);
  }
  return h;
}

// What a client knows a call by: a number, or bytes.
struct Key {
  uint64_t number = 0;
  std::string bytes;
  bool operator==(const Key&) const = default;
};

// All calls with one key. Only the owning thread looks in; release() on any thread makes a call idle again.
struct Plan {
  Key key;
  std::vector<Call*> calls;

  ~Plan() {
    for (auto* call : calls) {
      uint8_t expected = Call::busy;
      if (!call->state.compare_exchange_strong(expected, Call::orphan)) delete call;
    }
  }

  Call* take() {
    for (auto* call : calls)
      if (call->state.load(std::memory_order_acquire) == Call::idle) {
        call->state.store(Call::busy, std::memory_order_relaxed);
        return call;
      }
    return nullptr;
  }
};

struct Thread {
  bool open = false;   // between InitPTACacheThreadLocal and UnInit
  bool keyed = false;  // the client set a key for the coming phase one
  uint64_t hash = 0;
  Key key;
  std::vector<void*> addresses;
  ska::flat_hash_map<uint64_t, std::unique_ptr<Plan>> plans;
  std::array<uint64_t, kNewcomers> newcomers{};

  // Calls are kept from the second with a key on: a number that changes with every step of an optimiser comes once.
  bool comes_again() {
    uint64_t& last = newcomers[hash % kNewcomers];
    return std::exchange(last, hash) == hash;
  }
};

// A pointer, because little memory can be reached without a call of the dynamic linker, which each of a launch's eight
// calls of this file would make.
thread_local constinit Thread* t_this __attribute__((tls_model("initial-exec"))) = nullptr;

__attribute__((noinline)) Thread& make_thread() {
  static thread_local struct Owner {
    ~Owner() { delete std::exchange(t_this, nullptr); }
  } owner;
  static_cast<void>(&owner);  // makes it
  return *(t_this = new Thread);
}

Thread& thread() { return __builtin_expect(t_this != nullptr, true) ? *t_this : make_thread(); }

// A call of the cache's own functions in a recording: they have no code to give, so 1 stands for yes.
template <class Body>
auto recorded(const char* entry, Body&& body) {
  if (__builtin_expect(!recording(), true)) return body();
  const RecordedCall call(entry);
  if constexpr (std::is_void_v<decltype(body())>) {
    body();
    call.end(0);
  } else {
    const auto result = body();
    call.end(result ? 1 : 0);
    return result;
  }
}

// `same` says of a plan's key whether it is the one that is looked for.
template <class Same>
aclOpExecutor* lookup(uint64_t hash, const Same& same, uint64_t* workspace_size) {
  Thread& t = thread();
  if (!t.open || !workspace_size || forked()) return nullptr;
  if (hostile() && by_chance(16) == 1) return nullptr;
  const auto plan = t.plans.find(hash);
  if (plan == t.plans.end() || !same(plan->second->key)) return nullptr;
  Call* call = plan->second->take();
  if (!call) return nullptr;
  if (call->storages.size() != t.addresses.size()) {  // the client listed something else than phase one saw
    call->release();
    return nullptr;
  }
  call->set_addresses(t.addresses.data(), t.addresses.size());
  call->cached = true;
  *workspace_size = call->workspace_bytes;
  return Ticket::issue(*call);  // which a cached call has already
}

uint64_t hash_number(uint64_t number) { return mix(number, 0xa0761d6478bd642full); }

// 0 and no bytes stand for no key.
void set_key(uint64_t number, const uint8_t* bytes, size_t size) {
  Thread& t = thread();
  t.keyed = t.open && (number || (bytes && size));
  if (!t.keyed) return;
  t.hash = number ? hash_number(number) : hash_bytes(bytes, size);
  t.key.number = number;
  if (number)
    t.key.bytes.clear();
  else
    t.key.bytes.assign(reinterpret_cast<const char*>(bytes), size);
}

}  // namespace

aclOpExecutor* adopt(std::unique_ptr<Call> call) {
  aclOpExecutor* const executor = Ticket::issue(*call);
  Thread& t = thread();
  const auto most = static_cast<size_t>(config().cache_limit);  // beyond it the thread starts over
  const bool keep = most && t.keyed && call->storages.size() == t.addresses.size();
  t.keyed = false;
  if (!keep || (t.plans.find(t.hash) == t.plans.end() && !t.comes_again())) {
    call.release();
    return executor;
  }
  if (t.plans.size() >= most) t.plans.clear();
  auto& plan = t.plans[t.hash];
  if (!plan || plan->key != t.key) {
    plan = std::make_unique<Plan>();
    plan->key = t.key;
  }
  if (plan->calls.size() < kMostCalls) {
    call->state.store(Call::busy, std::memory_order_relaxed);
    plan->calls.push_back(call.get());
  }
  call.release();
  return executor;
}

}  // namespace softnpu::kernels::cache

using namespace softnpu::kernels;

SOFTNPU_EXPORT bool CanUsePTACache(const char* operator_name) {
  return cache::recorded("CanUsePTACache", [&] {
    if (softnpu::recording() && operator_name) softnpu::note_json("name", std::string("\"") + operator_name + "\"");
    return operator_name != nullptr && !(softnpu::hostile() && softnpu::out_of_favour(operator_name));
  });
}

SOFTNPU_EXPORT void InitPTACacheThreadLocal() {
  cache::recorded("InitPTACacheThreadLocal", [&] {
    auto& t = cache::thread();
    t.open = true;
    t.keyed = false;
    t.addresses.clear();
  });
}

SOFTNPU_EXPORT void UnInitPTACacheThreadLocal() {
  cache::recorded("UnInitPTACacheThreadLocal", [&] {
    auto& t = cache::thread();
    t.open = t.keyed = false;
  });
}

SOFTNPU_EXPORT void AddTensorAddrToCachedList(void* address) {
  cache::recorded("AddTensorAddrToCachedList", [&] { cache::thread().addresses.push_back(address); });
}

SOFTNPU_EXPORT void SetPTACacheHashKey(uint8_t* key, size_t size) {
  cache::recorded("SetPTACacheHashKey", [&] {
    softnpu::note("key", key), softnpu::note("size", size);
    cache::set_key(0, key, size);
  });
}
SOFTNPU_EXPORT void SetPTAHashKey(uint64_t hash) {
  cache::recorded("SetPTAHashKey", [&] {
    softnpu::note("hash", hash);
    cache::set_key(hash, nullptr, 0);
  });
}

SOFTNPU_EXPORT aclOpExecutor* PTAFindExecCache(uint8_t* key, size_t size, uint64_t* workspace_size) {
  return cache::recorded("PTAFindExecCache", [&] {
    softnpu::note("key", key), softnpu::note("size", size);
    if (!key) return static_cast<aclOpExecutor*>(nullptr);
    const auto same = [&](const cache::Key& k) {
      return !k.number && k.bytes.size() == size && memcmp(k.bytes.data(), key, size) == 0;
    };
    return cache::lookup(cache::hash_bytes(key, size), same, workspace_size);
  });
}
SOFTNPU_EXPORT aclOpExecutor* PTAGetExecCache(uint64_t hash, uint64_t* workspace_size) {
  return cache::recorded("PTAGetExecCache", [&] {
    softnpu::note("hash", hash);
    const auto same = [&](const cache::Key& k) { return hash && k.number == hash; };
    return cache::lookup(cache::hash_number(hash), same, workspace_size);
  });
}

// An executor that phase one made and phase two will not use.
SOFTNPU_EXPORT aclError aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  return softnpu::guard("aclDestroyAclOpExecutor", [&] {
    Ticket* ticket = Ticket::hold(executor);
    if (!ticket)
      softnpu::fail(ACL_ERROR_INVALID_PARAM,
                    "executor %p waits for no phase two: it was launched or destroyed before, "
                    "or phase one did not make it",
                    static_cast<void*>(executor));
    Call* call = ticket->call;
    ticket->end_held();
    call->release();
  });
}

SOFTNPU_EXPORT int InitHugeMemThreadLocal(void*, bool) { return 0; }
SOFTNPU_EXPORT void UnInitHugeMemThreadLocal(void*, bool) {}
SOFTNPU_EXPORT void ReleaseHugeMem(void*, bool) {}
