#include "process_exit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "error.h"
#include "stream.h"

namespace softnpu {

std::atomic<bool> g_exiting{false};

namespace {

void on_process_exit(int status, void*) {
  if (forked()) return;  // no worker came along
  g_exiting.store(true, std::memory_order_seq_cst);
  if (stop_all_streams()) return;
  // A task does not end. Going on would pull libraries away from under it.
  fflush(nullptr);
  _exit(status);
}

}  // namespace

void watch_process_exit() {
  static const int registered = on_exit(on_process_exit, nullptr);
  (void)registered;
}

}  // namespace softnpu
