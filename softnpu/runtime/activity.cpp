#include "activity.h"

#include <time.h>

#include "context.h"

namespace softnpu::activity {

std::atomic<bool> g_wanted{false};

namespace {

std::atomic<Listener*> g_listener{nullptr};
std::atomic<uint64_t> g_last_number{0};

}  // namespace

void listen(Listener* listener) noexcept {
  g_listener.store(listener, std::memory_order_release);
  g_wanted.store(listener != nullptr, std::memory_order_release);
}

uint64_t now() noexcept {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

Submission::Submission(const char* name) noexcept : name_(name), number_(++g_last_number), begin_(now()) {
  if (Listener* const listener = g_listener.load(std::memory_order_acquire)) listener->submitted(number_);
}

Submission::~Submission() {
  if (Listener* const listener = g_listener.load(std::memory_order_acquire))
    listener->called(number_, name_, begin_, now());
}

void ran(uint64_t number, const Task& task, int card, int stream, uint64_t begin) noexcept {
  const uint64_t end = now();
  if (Listener* const listener = g_listener.load(std::memory_order_acquire))
    listener->ran(number, task, device_of_card(card), stream, begin, end);
}

}  // namespace softnpu::activity
