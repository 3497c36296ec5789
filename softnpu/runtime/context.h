// Cards and contexts. A card has one context, made by its first aclrtSetDevice; a thread works in the context it set.
// Users count devices as ASCEND_RT_VISIBLE_DEVICES shows them ("device"); inside softnpu a card is always the physical
// one.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "acl_types.h"
#include "config.h"

namespace softnpu {

class Stream;
struct Deadline;

struct Context {
  int card = -1;
  std::atomic<bool> active{false};
  std::atomic<bool> lost{false};  // its streams' failures stay: see breakdown.h
  std::atomic<Stream*> default_stream{nullptr};
  std::mutex mutex;                    // streams, use
  std::vector<Stream*> streams;        // with the default stream
  std::atomic<int64_t> parameters[3];  // aclSysParamOpt of this context, kUnset when not set
};

constexpr int64_t kUnset = INT64_MIN;

// What the calling thread is doing. One cache line of thread-local memory, no constructor.
struct Thread {
  Context* context = nullptr;
  Stream* running = nullptr;  // the stream whose task or callback this thread is inside of
  int helping = 0;            // depth of streams drained for the sake of another one
};
extern thread_local constinit Thread t_thread __attribute__((tls_model("initial-exec")));

int device_count();
int card_of_device(int64_t device);  // throws Failure(107001)
int device_of_card(int card);        // -1 when the process does not see it

void set_device(int device);
void reset_device(int device, const Deadline& deadline);  // work that is not done by then is dropped
bool is_open(int card);

Context& current_context();                      // throws Failure(107002)
Stream& default_stream(const Context& context);  // as current_context(), for a card that another thread resets
Context& checked_context(const void* handle);    // throws Failure(107017)
std::vector<Stream*> streams_of(Context& context);
Context* open_context(int card);  // NULL when the card is not in use

}  // namespace softnpu
