// Seeded fuzzing of the C ABI. A run is many short lives of a child process, one per seed, so that a crash costs one of
// them; the parent reads what the child was doing from shared memory, says how to see it again, and goes on.
//   fuzz [--seed N] [--calls N] [--threads N] [--only TEXT] [--without NAME]... [--per-seed N]
// With one thread a seed always makes the same calls. Calls are counted when they are made, both phases of an operator
// as two. The end is 0 when no child crashed or hung.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "steps.h"

namespace fuzz {

namespace {

constexpr int kMostThreads = 16;
constexpr int kPatience = 60;  // seconds without a call

struct Options {
  uint64_t seed = 1, calls = 20000, per_seed = 20000;
  int threads = 1;
  std::string only;
  std::set<std::string> broken;  // crashed before: left out of later seeds, which find other things then
};

struct Shared {
  Journal journals[kMostThreads];
  std::atomic<uint64_t> finished;
};

struct Row {
  const char *name, *result, *parameters;
};
constexpr Row kFunctions[] = {
#define FUNCTION(name, result, parameters) {name, result, parameters},
#define OPERATOR(name, parameters)
#include "table.inc"
#undef FUNCTION
#undef OPERATOR
};
constexpr Row kOperators[] = {
#define FUNCTION(name, result, parameters)
#define OPERATOR(name, parameters) {name, "", parameters},
#include "table.inc"
#undef FUNCTION
#undef OPERATOR
};

// What this driver cannot call sensibly.
bool left_out(const std::string& name) {
  for (const char* wait : {"aclrtValueWait",            // waits for a value that nobody writes
                           "aclrtSubscribeReport",      // callbacks wait for a thread that never asks for them
                           "aclrtIpcMemSetImportPid"})  // an array without a length that can be checked
    if (name == wait) return true;
  return name == "softnpuSleep";  // sleeps as long as it is told
}

std::vector<Parameter> parse(const char* text) {
  std::vector<Parameter> parameters;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t space = part.rfind(' ');
    parameters.push_back({part.substr(0, space), part.substr(space + 1)});
  }
  return parameters;
}

template <size_t N>
std::vector<Target> find(const Row (&rows)[N], const Options& options, bool phases) {
  std::vector<Target> targets;
  for (const Row& row : rows) {
    const std::string name = row.name;
    if (left_out(name) || options.broken.count(name) || name.find(options.only) == std::string::npos) continue;
    Target target{name, row.result, parse(row.parameters)};
    target.one = symbol((phases ? name + "GetWorkspaceSize" : name).c_str());
    target.two = phases ? symbol(row.name) : nullptr;
    if (target.one) targets.push_back(std::move(target));
  }
  return targets;
}

void work(const Options& options, int thread, Handles& handles, Journal& journal, std::atomic<bool>& stop) {
  Values values(options.seed * kMostThreads + thread, handles);
  const auto functions = find(kFunctions, options, false);
  const auto operators = find(kOperators, options, true);
  for (uint64_t step = 0; journal.calls < options.calls / options.threads && !stop; step++) {
    if (step % 512 == 0) {
      values.renew();
      for (int i = 0; i < 3; i++) {
        aclrtStream stream = nullptr;
        if (ACL(aclrtCreateStream)(&stream) == 0) handles.put(Kind::stream, reinterpret_cast<uint64_t>(stream));
      }
      HcclRootInfo info;
      HcclComm comm = nullptr;
      if (ACL(HcclGetRootInfo)(&info) == 0 && ACL(HcclCommInitRootInfo)(1, &info, 0, &comm) == 0)
        handles.put(Kind::comm, reinterpret_cast<uint64_t>(comm));
    }
    if (step % 64 == 0) {
      ACL(aclrtSetDevice)(0);
      aclrtContext context = nullptr;
      if (ACL(aclrtGetCurrentContext)(&context) == 0) handles.put(Kind::context, reinterpret_cast<uint64_t>(context));
    }
    values.new_call();
    if (operators.empty() || (!functions.empty() && values.random.below(10) < 4))
      call_function(functions[values.random.below(functions.size())], values, journal);
    else
      call_operator(operators[values.random.below(operators.size())], values, journal);
  }
}

[[noreturn]] void child(const Options& options, Shared& shared) {
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
  auto* handles = new Handles;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 1; t < options.threads; t++)
    threads.emplace_back([&, t] { work(options, t, *handles, shared.journals[t], stop); });
  work(options, 0, *handles, shared.journals[0], stop);
  for (std::thread& thread : threads) thread.join();
  snprintf(shared.journals[0].text, sizeof shared.journals[0].text, "the end of the process");
  ACL(aclrtSynchronizeDeviceWithTimeout)(10000);
  shared.finished = 1;
  _exit(0);
}

uint64_t sum(const Shared& shared, std::atomic<uint64_t> Journal::* count) {
  uint64_t total = 0;
  for (const Journal& journal : shared.journals) total += journal.*count;
  return total;
}

// 0, or the number of a signal; SIGALRM for a child that made no call for kPatience.
int watch(pid_t pid, const Shared& shared) {
  uint64_t last = 0;
  for (auto since = std::chrono::steady_clock::now();;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    const uint64_t now = sum(shared, &Journal::calls);
    if (now != last) last = now, since = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - since > std::chrono::seconds(kPatience)) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return SIGALRM;
    }
    usleep(2000);
  }
}

void report(const Options& options, const Shared& shared, int signal) {
  printf("%s in seed %llu after %llu calls\n", signal == SIGALRM ? "HANG" : "CRASH",
         static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(sum(shared, &Journal::calls)));
  if (signal != SIGALRM) printf("  %s\n", signal < 128 ? strsignal(signal) : "exit by a sanitizer");
  for (int t = 0; t < options.threads; t++)
    printf("  thread %d, call %llu: %s\n", t, static_cast<unsigned long long>(shared.journals[t].calls),
           shared.journals[t].text);
  std::string rest = options.only.empty() ? "" : " --only " + options.only;
  for (const std::string& name : options.broken) rest += " --without " + name;
  printf("  again: fuzz --seed %llu --calls %llu --threads %d%s\n", static_cast<unsigned long long>(options.seed),
         static_cast<unsigned long long>(options.calls), options.threads, rest.c_str());
  fflush(stdout);
}

int run(Options options) {
  auto* shared =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  uint64_t calls = 0, accepted = 0;
  std::map<std::string, int> faults;
  for (uint64_t left = options.calls; left > 0; options.seed++) {
    options.calls = std::min(left, options.per_seed);
    memset(static_cast<void*>(shared), 0, sizeof(Shared));
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) child(options, *shared);
    const int end = watch(pid, *shared);
    calls += sum(*shared, &Journal::calls);
    accepted += sum(*shared, &Journal::accepted);
    if (end != 0) {
      report(options, *shared, end);
      const std::string text = shared->journals[0].text;
      std::string name = text.substr(0, text.find('('));
      if (options.threads > 1) name = "several threads";
      faults[name]++;
      if (const size_t phase = name.find("GetWorkspaceSize"); phase != std::string::npos) name.resize(phase);
      options.broken.insert(name);
    }
    left -= options.calls;
  }
  int count = 0;
  for (const auto& [name, times] : faults) printf("%5d %s\n", times, name.c_str()), count += times;
  printf("fuzz: %llu calls, %llu of them accepted, %d thread(s): %d crashes or hangs\n",
         static_cast<unsigned long long>(calls), static_cast<unsigned long long>(accepted), options.threads, count);
  return count != 0;
}

}  // namespace

uint64_t make_call(const char* name, void* function, const Arguments& a, Journal& journal) {
  size_t at = snprintf(journal.text, sizeof journal.text, "%s(", name);
  for (size_t i = 0; i < a.integer_count && at + 24 < sizeof journal.text; i++)
    at += snprintf(journal.text + at, sizeof journal.text - at, "%s%#llx", i ? ", " : "",
                   static_cast<unsigned long long>(a.integers[i]));
  for (size_t i = 0; i < a.real_count && at + 32 < sizeof journal.text; i++)
    at += snprintf(journal.text + at, sizeof journal.text - at, "; %g", a.reals[i]);
  snprintf(journal.text + at, sizeof journal.text - at, ")");
  journal.calls++;
  const uint64_t result = call(function, a);
  if (static_cast<uint32_t>(result) == 0) journal.accepted++;
  return result;
}

}  // namespace fuzz

int main(int argc, char** argv) {
  fuzz::Options options;
  bool total = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--seed")
      options.seed = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--calls")
      options.calls = strtoull(value.c_str(), nullptr, 10), total = true;
    else if (name == "--threads")
      options.threads = std::min(atoi(value.c_str()), fuzz::kMostThreads);
    else if (name == "--only")
      options.only = value;
    else if (name == "--without")
      options.broken.insert(value);
    else if (name == "--per-seed")
      options.per_seed = strtoull(value.c_str(), nullptr, 10);
    else
      argc = 0;
  }
  if (argc % 2 == 0 || options.threads < 1 || !total) {
    fprintf(stderr, "usage: fuzz [--seed N] --calls N [--threads N] [--only TEXT] [--per-seed N]\n");
    return 2;
  }
  return fuzz::run(options);
}
