#include "child.h"

#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "guard.h"

namespace fuzz {

namespace {

constexpr int kRenewal = 512, kReturn = 64;  // steps

void set_environment(const Options& options) {
  setenv("SOFTNPU_ASYNC", options.seed % 2 ? "0" : "1", 0);
  setenv("HCCL_CONNECT_TIMEOUT", "1", 0);
  setenv("HCCL_EXEC_TIMEOUT", "1", 0);
  setenv("SOFTNPU_MEMORY", "1G", 0);
  setenv("OMP_NUM_THREADS", "1", 0);
#ifndef __SANITIZE_ADDRESS__
  const rlimit data{rlim_t{6} << 30, rlim_t{6} << 30};  // an operator told to make 2^40 numbers is refused by the host
  setrlimit(RLIMIT_DATA, &data);
#endif
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
}

// Streams, a communicator and card memory that are alive, whatever earlier calls did to the others.
void renew(Values& values) {
  values.renew();
  for (int i = 0; i < 3; i++) {
    aclrtStream stream = nullptr;
    if (ACL(aclrtCreateStream)(&stream) == 0) values.pool().put(Kind::stream, reinterpret_cast<uint64_t>(stream));
  }
  HcclRootInfo info;
  HcclComm comm = nullptr;
  if (ACL(HcclGetRootInfo)(&info) == 0 && ACL(HcclCommInitRootInfo)(1, &info, 0, &comm) == 0)
    values.pool().put(Kind::comm, reinterpret_cast<uint64_t>(comm));
}

// To the card that the memory lies on: a call may have set another, or none.
void return_to_card(Values& values) {
  ACL(aclrtSetDevice)(0);
  aclrtContext context = nullptr;
  if (ACL(aclrtGetCurrentContext)(&context) == 0) values.pool().put(Kind::context, reinterpret_cast<uint64_t>(context));
}

void work(const Options& options, int thread, const Targets& targets, Handles& handles, Journal& journal) {
  const auto& [functions, operators, legacy] = targets;
  if (functions.empty() && operators.empty() && legacy.empty()) return;
  Values values(options.seed * kMostThreads + thread, handles);
  for (uint64_t step = 0; journal.calls < options.calls / options.threads; step++) {
    if (step % kRenewal == 0) renew(values);
    if (step % kReturn == 0) return_to_card(values);
    values.new_call();
    const uint64_t kind = values.random.below(10);
    if (!functions.empty() && (kind < 4 || (operators.empty() && legacy.empty())))
      call_function(functions[values.random.below(functions.size())], values, journal);
    else if (!legacy.empty() && (kind == 9 || operators.empty()))
      call_legacy(legacy[values.random.below(legacy.size())], values, journal);
    else if (!operators.empty())
      call_operator(operators[values.random.below(operators.size())], values, journal);
  }
}

}  // namespace

void child(const Options& options, Shared& shared) {
  set_environment(options);
  if (!guards_tensors()) fprintf(stderr, "fuzz: tensors are not guarded\n"), _exit(2);
  const Targets targets = find(options.selection);
  auto* handles = new Handles;
  std::vector<std::thread> threads;
  for (int t = 1; t < options.threads; t++)
    threads.emplace_back([&, t] { work(options, t, targets, *handles, shared.journals[t]); });
  work(options, 0, targets, *handles, shared.journals[0]);
  for (std::thread& thread : threads) thread.join();
  snprintf(shared.journals[0].text, sizeof shared.journals[0].text, "the end of the process");
  ACL(aclrtSynchronizeDeviceWithTimeout)(10000);
  _exit(0);
}

uint64_t make_call(const char* name, void* function, const Arguments& a, Journal& journal, const std::string& note) {
  size_t at = snprintf(journal.text, sizeof journal.text, "%s(", name);
  for (size_t i = 0; i < a.integer_count && at + 24 < sizeof journal.text; i++)
    at += snprintf(journal.text + at, sizeof journal.text - at, "%s%#llx", i ? ", " : "",
                   static_cast<unsigned long long>(a.integers[i]));
  for (size_t i = 0; i < a.real_count && at + 32 < sizeof journal.text; i++)
    at += snprintf(journal.text + at, sizeof journal.text - at, "; %g", a.reals[i]);
  snprintf(journal.text + at, sizeof journal.text - at, ")%s", note.c_str());
  journal.calls++;
  const uint64_t result = call(function, a);
  if (static_cast<uint32_t>(result) == 0) journal.accepted++;
  return result;
}

}  // namespace fuzz
