// Seeded fuzzing of the C ABI. A run is many short lives of a child process, so that a crash costs one of them; the
// parent reads what the child was doing from shared memory, says how to see it again, and goes on.
//   fuzz [--seed N] --calls N [--per-seed N]  a mix of all functions and operators, a child and a seed for every 20,000
//   fuzz [--seed N] --each N                  every function and operator by itself, each in a child of its own
//        [--threads N] [--only NAME] [--without NAME]...
// With one thread a seed always makes the same calls. Calls are counted when they are made, both phases of an operator
// as two. The end is 0 when no child crashed or hung.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>

#include "child.h"

namespace fuzz {

namespace {

constexpr int kPatience = 60;  // seconds without a call

uint64_t sum(const Shared& shared, std::atomic<uint64_t> Journal::* count) {
  uint64_t total = 0;
  for (const Journal& journal : shared.journals) total += journal.*count;
  return total;
}

// Waits for the child. What it died of, "" for nothing.
std::string watch(pid_t pid, const Shared& shared) {
  uint64_t last = 0;
  for (auto since = std::chrono::steady_clock::now();;) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
      return WEXITSTATUS(status) ? "exit " + std::to_string(WEXITSTATUS(status)) : "";  // by a sanitizer, for one
    }
    const uint64_t now = sum(shared, &Journal::calls);
    if (now != last) last = now, since = std::chrono::steady_clock::now();
    if (std::chrono::steady_clock::now() - since > std::chrono::seconds(kPatience)) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return "no call for " + std::to_string(kPatience) + " seconds";
    }
    usleep(2000);
  }
}

// The operator or function that a thread was calling; "" for none.
std::string called_by(const Journal& journal) {
  const std::string text = journal.text;
  const size_t end = text.find('(');
  std::string name = end == std::string::npos ? "" : text.substr(0, end);
  if (const size_t phase = name.find("GetWorkspaceSize"); phase != std::string::npos) name.resize(phase);
  return name;
}

// Children one after another, and what became of them.
class Run {
 public:
  // False: it crashed or hung.
  bool child(const Options& options) {
    memset(static_cast<void*>(shared_), 0, sizeof(Shared));
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) fuzz::child(options, *shared_);
    const std::string fault = watch(pid, *shared_);
    calls_ += sum(*shared_, &Journal::calls);
    accepted_ += sum(*shared_, &Journal::accepted);
    if (fault.empty()) return true;
    report(options, fault);
    return false;
  }

  // Of a life whose streams run by themselves (even seeds) not always the call that crashed.
  std::string last_called(int thread) const { return called_by(shared_->journals[thread]); }
  void blame(const std::string& name) { faults_[name]++; }

  // The last line. The program's end.
  int end(int threads) const {
    if (calls_ == 0 && faults_.empty()) {
      fprintf(stderr, "fuzz: the library exports nothing of that name\n");
      return 2;
    }
    int count = 0;
    for (const auto& [name, times] : faults_) printf("%5d %s\n", times, name.c_str()), count += times;
    printf("fuzz: %llu calls, %llu of them accepted, %d thread(s): %d crashes or hangs\n",
           static_cast<unsigned long long>(calls_), static_cast<unsigned long long>(accepted_), threads, count);
    return count != 0;
  }

 private:
  void report(const Options& options, const std::string& fault) const {
    printf("FAULT in seed %llu after %llu calls: %s\n", static_cast<unsigned long long>(options.seed),
           static_cast<unsigned long long>(sum(*shared_, &Journal::calls)), fault.c_str());
    for (int t = 0; t < options.threads; t++)
      printf("  thread %d, call %llu: %s\n", t, static_cast<unsigned long long>(shared_->journals[t].calls),
             shared_->journals[t].text);
    std::string rest = options.selection.only.empty() ? "" : " --only " + options.selection.only;
    for (const std::string& name : options.selection.without) rest += " --without " + name;
    printf("  again: fuzz --seed %llu --calls %llu --threads %d%s\n", static_cast<unsigned long long>(options.seed),
           static_cast<unsigned long long>(options.calls), options.threads, rest.c_str());
    fflush(stdout);
  }

  Shared* const shared_ =
      static_cast<Shared*>(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  uint64_t calls_ = 0, accepted_ = 0;
  std::map<std::string, int> faults_;
};

int run_mixed(Options options) {
  Run run;
  for (uint64_t left = options.calls; left > 0; options.seed++) {
    options.calls = std::min(left, options.per_seed);
    if (!run.child(options)) {
      // Which of several threads it was cannot be told.
      const std::string name = options.threads > 1 ? "" : run.last_called(0);
      run.blame(name.empty() ? "unknown" : name);
      if (!name.empty()) options.selection.without.insert(name);  // later seeds find other things then
    }
    left -= options.calls;
  }
  return run.end(options.threads);
}

int run_each(Options options) {
  Run run;
  options.calls = options.each;
  for (const std::string& name : names(options.selection)) {
    options.selection.only = name;
    if (!run.child(options)) run.blame(name);
  }
  return run.end(options.threads);
}

int usage() {
  fprintf(
      stderr,
      "usage: fuzz [--seed N] (--calls N [--per-seed N] | --each N) [--threads N] [--only NAME] [--without NAME]\n");
  return 2;
}

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    const std::string name = argv[i], value = argv[i + 1];
    const uint64_t number = strtoull(value.c_str(), nullptr, 10);
    if (name == "--seed")
      options.seed = number;
    else if (name == "--calls")
      options.calls = number;
    else if (name == "--per-seed")
      options.per_seed = number;
    else if (name == "--each")
      options.each = number;
    else if (name == "--threads")
      options.threads = static_cast<int>(std::min<uint64_t>(number, kMostThreads));
    else if (name == "--only")
      options.selection.only = value;
    else if (name == "--without")
      options.selection.without.insert(value);
    else
      return usage();
  }
  if (options.threads == 0 || options.per_seed == 0 || (options.calls == 0) == (options.each == 0)) return usage();
  if (names(options.selection).empty()) {
    fprintf(stderr, "fuzz: no function or operator is called %s\n", options.selection.only.c_str());
    return 2;
  }
  return options.each ? run_each(options) : run_mixed(options);
}

}  // namespace

}  // namespace fuzz

int main(int argc, char** argv) { return fuzz::main(argc, argv); }
