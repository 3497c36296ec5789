// The two-phase call: executor cache, workspace, task queue. See Note [Packed calls] in pack.h.
#include <ATen/Context.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "acl/check.h"
#include "acl/library.h"
#include "aclnn/dumped_launch.h"
#include "aclnn/format.h"
#include "aclnn/op.h"
#include "aclnn/origins.h"
#include "memory/caching_allocator.h"
#include "memory/lost_data.h"
#include "profiler/kernel_trace.h"
#include "runtime/capture.h"
#include "runtime/device.h"
#include "runtime/recovery.h"
#include "runtime/stream.h"
#include "runtime/stream_limits.h"
#include "runtime/sync_debug.h"
#include "runtime/task_queue.h"
#include "runtime/task_scratch.h"
#include "runtime/toolkit.h"
#include "runtime/watchers.h"

namespace npu::ops {

namespace {

// An executor between the phases. Nothing says that it does not look at the descriptors it was made from, so they live
// until phase two has returned; one from the cache has none.
struct Prepared {
  aclOpExecutor* executor = nullptr;
  uint64_t workspace_size = 0;
  std::unique_ptr<Unpacker> descriptors;
};

C10_NOINLINE void resolve(AclOp& op) {
  std::string phase_one = std::string(op.name) + "GetWorkspaceSize";
  op.phase_one = acl::op_symbol(phase_one.c_str());
  op.phase_two = reinterpret_cast<aclnnLaunch>(acl::op_symbol(op.name));
  if (!op.phase_one || !op.phase_two) throw MissingOp(op.name);
}

[[noreturn]] C10_NOINLINE void phase_one_failed(const AclOp& op, int code) {
  const char* text = acl::api().aclGetRecentErrMsg();
  // CANN's words for a data type that an operator lacks, and ATen's.
  TORCH_CHECK_NOT_IMPLEMENTED(!text || !strstr(text, "not implemented for"), text);
  const auto code_text = c10::str(" (code ", code, ")");
  const std::string reason = text ? text : "no reason given";
  TORCH_CHECK(false, op.name, " refused its arguments: ", reason,
              reason.find(code_text) == std::string::npos ? code_text : "");
}

bool has_cache() {
  static const bool has = [] {
    const auto& api = acl::api();
    return api.InitPTACacheThreadLocal && api.UnInitPTACacheThreadLocal && api.PTAFindExecCache &&
           api.SetPTACacheHashKey && api.PTAGetExecCache && api.SetPTAHashKey && api.AddTensorAddrToCachedList &&
           api.CanUsePTACache;
  }();
  return has;
}

// The provider's executor cache during one call. Note [Cache protocol]: the official client was seen to ask for every
// call whether its operator may be cached, to list the addresses, to set the key before it searches, and to end behind
// phase two, or at level 1 when the call leaves the thread. It knows a call by a number where phase one runs on the
// calling thread, and by its bytes on the consumer. Nothing says that another order works. The key has the stream too,
// whose context an executor belongs to.
class CacheScope {
 public:
  CacheScope(const AclOp& op, void* const* addresses, size_t count)
      : open_(C10_LIKELY(!stream_limits::in_use()) && has_cache() && acl::api().CanUsePTACache(op.name)) {
    if (!open_) return;
    const auto& api = acl::api();
    api.InitPTACacheThreadLocal();
    for (size_t i = 0; i < count; i++) api.AddTensorAddrToCachedList(addresses[i]);
  }
  ~CacheScope() { end(); }
  CacheScope(const CacheScope&) = delete;
  void end() {
    if (open_) acl::api().UnInitPTACacheThreadLocal();
    open_ = false;
  }

  aclOpExecutor* find(const uint64_t* words, size_t count, aclrtStream stream, uint64_t* workspace_size) const {
    if (!open_) return nullptr;
    // The stream is a word of its own: two addresses, combined, are those of another stream and another operator.
    const uint64_t hash = hash_words(words, count, mix(reinterpret_cast<uint64_t>(stream) ^ kFirst, kSecond));
    acl::api().SetPTAHashKey(hash);
    return acl::api().PTAGetExecCache(hash, workspace_size);
  }
  aclOpExecutor* find_by_bytes(uint64_t* words, size_t count, uint64_t* workspace_size) const {
    if (!open_) return nullptr;
    auto* key = reinterpret_cast<uint8_t*>(words);
    acl::api().SetPTACacheHashKey(key, count * 8);
    return acl::api().PTAFindExecCache(key, count * 8, workspace_size);
  }

 private:
  // Two words a step: a step waits for the one before it, and takes as long for one.
  static uint64_t hash_words(const uint64_t* words, size_t count, uint64_t hash) {
    size_t i = 0;
    for (; i + 2 <= count; i += 2) hash = mix(words[i] ^ kFirst, words[i + 1] ^ hash);
    if (i < count) hash = mix(words[i] ^ kFirst, hash);
    hash = mix(hash ^ count, kSecond);
    return hash ? hash : 1;  // 0 stands for none
  }
  static constexpr uint64_t kFirst = 0xa0761d6478bd642full, kSecond = 0xe7037ed1a0b428dbull;
  static uint64_t mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  bool open_;
};

// Note [Word 0]: names the operator, an aligned address of 48 bits; the bits above mix the types of the tensors and
// which are empty, and the lowest two say at which level torch asked for deterministic algorithms when the operator was
// called, 0 for not at all. So executors of every kind live side by side in the cache, a call keeps its kind on its way
// through the task queue, and the provider, which has one switch, is told only when one is built.
constexpr uint64_t kDeterminism = 3;

uint64_t deterministic_bits() {
  return at::globalContext().deterministicAlgorithms() ? static_cast<uint64_t>(deterministic_level()) & kDeterminism
                                                       : 0;
}

void tell_determinism(uint64_t word) {
  static std::atomic<int> told{-1};
  const int wanted = static_cast<int>(word & kDeterminism);
  if (told.exchange(wanted) == wanted || !acl::api().aclrtSetSysParamOpt) return;
  NPU_CHECK(acl::api().aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, wanted));
}

Prepared build(const AclOp& op, PhaseOne phase_one, const uint64_t* words, void* const* addresses, aclrtStream stream) {
  Prepared p;
  if (stream_limits::in_use()) stream_limits::use(stream);
  tell_determinism(words[0]);
  p.descriptors = std::make_unique<Unpacker>(words + 1, addresses);
  if (const int code = phase_one(op.phase_one, *p.descriptors, &p.workspace_size, &p.executor))
    phase_one_failed(op, code);
  return p;
}

void run(const AclOp& op, const Prepared& p, void* workspace, aclrtStream stream) {
  if (recovery::watched()) recovery::check_not_stopped(t_current.device);  // since the call was queued
  const int code = op.phase_two(workspace, p.workspace_size, p.executor, stream);
  if (C10_UNLIKELY(code != 0)) acl::throw_acl_error(code, op.name, __FILE__, __LINE__);
}

// Level 1: only phase two is left to do.
struct Launch {
  const AclOp* op;
  aclOpExecutor* executor;
  uint64_t workspace_size;
  Unpacker* descriptors;  // owned
  void* workspace;
  aclrtStream stream;
};

void run_launch(void* payload) {
  const auto& l = *static_cast<Launch*>(payload);
  run(*l.op, {l.executor, l.workspace_size, std::unique_ptr<Unpacker>(l.descriptors)}, l.workspace, l.stream);
}

// Level 2: the packed call itself, followed by its words and addresses.
struct PackedCall {
  const AclOp* op;
  PhaseOne phase_one;
  size_t words, addresses;
  aclrtStream stream;  // the last one: the key in the cache begins here
};

void run_packed(void* payload) {
  auto& call = *static_cast<PackedCall*>(payload);
  auto* words = reinterpret_cast<uint64_t*>(&call + 1);
  auto* addresses = reinterpret_cast<void**>(words + call.words);
  CacheScope cache(*call.op, addresses, call.addresses);
  Prepared p;
  p.executor = cache.find_by_bytes(words - 1, call.words + 1, &p.workspace_size);
  if (!p.executor) p = build(*call.op, call.phase_one, words, addresses, call.stream);
  if (p.workspace_size == 0) return run(*call.op, p, nullptr, call.stream);
  const auto scratch = task_scratch::reserve(call.stream, p.workspace_size);
  run(*call.op, p, scratch.memory, call.stream);
  NPU_CHECK(scratch.waited);  // an earlier launch's, when this one has been made
}

void push_packed(const AclOp& op, PhaseOne phase_one, const Packer& a, aclrtStream stream) {
  const PackedCall call{&op, phase_one, a.words.size(), a.addresses.size(), stream};
  c10::SmallVector<uint64_t, 192> payload;
  const auto append = [&](const void* bytes, size_t words) {
    const auto* first = static_cast<const uint64_t*>(bytes);
    payload.append(first, first + words);
  };
  append(&call, sizeof(call) / 8);
  append(a.words.data(), call.words);
  append(a.addresses.data(), call.addresses);
  task_queue::push(&run_packed, payload.data(), payload.size() * 8);
}

// Note [First call at level 2]: data types that an operator refuses are the caller's mistake and are to be raised where
// it was made. Phase one says so, on the consumer; so calls go the way of level 1 until one with their types has passed
// it.
class KnownTypes {
 public:
  bool contains(uint64_t word) {  // word 0 of a call
    static thread_local std::array<uint64_t, 256> recent{};
    auto& entry = recent[(word >> 4 ^ word >> 48) % recent.size()];
    if (C10_LIKELY(entry == word)) return true;
    std::lock_guard lock(mutex_);
    if (!known_.count(word)) return false;
    entry = word;
    return true;
  }
  void add(uint64_t word) {
    std::lock_guard lock(mutex_);
    known_.insert(word);
  }

 private:
  std::mutex mutex_;
  std::set<uint64_t> known_;
};

KnownTypes& known_types() {
  static auto* all = new KnownTypes;  // leaked: threads may outlive static destruction
  return *all;
}

}  // namespace

MissingOp::MissingOp(const char* op)
    : NotImplementedError({__func__, __FILE__, __LINE__},
                          c10::str("The device library in ", acl::path(), " has no operator ", op,
                                   "; move the tensors to the CPU for this call.")),
      op(op) {}

bool has_op(const char* name) { return acl::available() && acl::op_symbol(name) != nullptr; }

C10_ALWAYS_INLINE static void launch_unwatched(AclOp& op, PhaseOne phase_one, Packer& a) {
  if (C10_UNLIKELY(!op.phase_two)) resolve(op);
  a.words[0] |= deterministic_bits();
  const aclrtStream stream = current_stream_handle();
  const int level = task_queue::level();
  if (C10_UNLIKELY(level == 2) && known_types().contains(a.words[0])) return push_packed(op, phase_one, a, stream);
  CacheScope cache(op, a.addresses.data(), a.addresses.size());
  Prepared p;
  p.executor = cache.find(a.words.data(), a.words.size(), stream, &p.workspace_size);
  if (C10_UNLIKELY(!p.executor)) p = build(op, phase_one, a.words.data(), a.addresses.data(), stream);
  if (C10_UNLIKELY(level == 2)) known_types().add(a.words[0]);
  c10::DataPtr workspace;
  if (p.workspace_size) workspace = caching_allocator::allocate_workspace(p.workspace_size);
  if (C10_LIKELY(level == 0)) {
    run(op, p, workspace.get(), stream);
    if (C10_UNLIKELY(task_queue::launch_blocking()) && !captures::of_current_stream()) current_stream().synchronize();
  } else {
    cache.end();
    const Launch l{&op, p.executor, p.workspace_size, p.descriptors.get(), workspace.get(), stream};
    task_queue::push(&run_launch, &l, sizeof(l));
    static_cast<void>(p.descriptors.release());  // the task's from here on
  }
}

C10_NOINLINE static void launch_watched(AclOp& op, PhaseOne phase_one, Packer& a) {
  std::optional<DumpedLaunch> dumped;
  if (watchers::has(watchers::capture)) captures::note_task();
  if (watchers::has(watchers::origin)) origins::note(op, phase_one, a);
  if (watchers::has(watchers::dump)) dumped.emplace(op, phase_one, a);
  {
    const kernel_trace::Span span(op.name);
    launch_unwatched(op, phase_one, a);
  }
  if (dumped) dumped->finish();
}

C10_NOINLINE static void check_recovered(const Packer& a) {
  recovery::before_launch();
  lost_data::check(a.addresses.data(), a.addresses.size());
}

void launch(AclOp& op, PhaseOne phase_one, Packer& a) {
  if (recovery::watched()) check_recovered(a);
  if (C10_UNLIKELY(a.formatted != nullptr)) return formats::launch(op, phase_one, a);
  if (watchers::any()) return launch_watched(op, phase_one, a);
  launch_unwatched(op, phase_one, a);
}

std::vector<std::vector<int64_t>> launch_and_read_shapes(AclOp& op, PhaseOne phase_one, Packer& a, int outputs) {
  if (C10_UNLIKELY(!op.phase_two)) resolve(op);
  if (recovery::watched()) check_recovered(a);
  sync_debug::before_wait();
  const auto ordered = formats::order(a);
  std::optional<DumpedLaunch> dumped;
  if (watchers::has(watchers::dump)) dumped.emplace(op, phase_one, a);
  task_queue::drain();
  tell_determinism(deterministic_bits());
  if (stream_limits::in_use()) stream_limits::use(current_stream_handle());
  Unpacker arguments(a.words.data() + 1, a.addresses.data());
  Prepared p;
  if (const int code = phase_one(op.phase_one, arguments, &p.workspace_size, &p.executor)) phase_one_failed(op, code);
  c10::DataPtr workspace;
  if (p.workspace_size) workspace = caching_allocator::allocate_workspace(p.workspace_size);
  {
    const kernel_trace::Span span(op.name);
    run(op, p, workspace.get(), current_stream_handle());
  }
  current_stream().synchronize();
  auto shapes = arguments.view_shapes(outputs);
  if (dumped) dumped->finish(shapes);
  return shapes;
}

}  // namespace npu::ops
