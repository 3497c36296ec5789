// Note [Fork]
// A child made by fork() has the parent's handles, but no worker threads, and its card memory would be the parent's
// own. If it could free that memory on its way out, the parent's tensors would turn to zeros. So:
//  - mappings of card memory are MADV_DONTFORK, descriptors are O_CLOEXEC and closed in the child at once (an open
//    memfd would keep the parent's memory alive, an open record would keep its lock);
//  - in the child every entry point answers an error that says what to do, and frees do nothing and succeed, because
//    destructors run in a child's exit too.
// Before the first card is opened there is nothing to protect: a child forked then is a process like any other, and
// opens a record of its own if it needs one (capacity.cpp).
#include "fork.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "error.h"

namespace softnpu {

bool g_forked = false;

namespace {

constexpr int kMaxDescriptors = 256;
std::atomic<int> g_descriptors[kMaxDescriptors];  // fd + 1, 0 when free
std::atomic<bool> g_used{false};

// Only async-signal-safe work here.
void in_child() {
  g_forked |= g_used.load();
  for (auto& slot : g_descriptors)
    if (const int fd = slot.exchange(0) - 1; fd >= 0) close(fd);
}

void watch_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;
}

}  // namespace

void cut_off_forked_children() {
  watch_forks();
  g_used.store(true);
}

void close_in_child(int fd) {
  watch_forks();
  for (auto& slot : g_descriptors) {
    int free = 0;
    if (slot.compare_exchange_strong(free, fd + 1)) return;
  }
}

void forget_in_child(int fd) {
  for (auto& slot : g_descriptors) {
    int taken = fd + 1;
    if (slot.compare_exchange_strong(taken, 0)) return;
  }
}

}  // namespace softnpu
