#include "fault.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>

#include "address.h"

namespace softnpu {

namespace {

struct sigaction g_previous[2];  // SIGSEGV, SIGBUS

// Only async-signal-safe calls from here on.
void explain(uintptr_t address) {
  char text[] =
      "softnpu: host code touched device memory at 0x................; copy it to the host first, e.g. tensor.cpu()\n";
  char* digits = strchr(text, '.');
  for (int shift = 60; shift >= 0; shift -= 4) *digits++ = "0123456789abcdef"[address >> shift & 15];
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
}

// Returning lets the instruction fault again, this time under the previous disposition.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0 && is_device_address(info->si_addr)) explain(reinterpret_cast<uintptr_t>(info->si_addr));
  const struct sigaction& previous = g_previous[signal == SIGBUS];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by kill(): nothing would fault again
  }
}

}  // namespace

void install_fault_handler() {
  static const bool installed = [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, nullptr, &g_previous[0]);
    sigaction(SIGBUS, nullptr, &g_previous[1]);
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    return true;
  }();
  (void)installed;
}

}  // namespace softnpu
