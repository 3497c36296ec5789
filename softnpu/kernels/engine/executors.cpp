#include "kernels/engine/executors.h"

#include "kernels/engine/call.h"
#include "runtime/arena.h"

namespace softnpu::kernels {

namespace {

constexpr int kIndexBits = 20;
constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;
constexpr uint64_t kMark = uint64_t{0xe} << 60;  // an address that no memory has, should a client look behind it

constinit Arena<Ticket> g_tickets{"executors", size_t{1} << kIndexBits};

}  // namespace

aclOpExecutor* Ticket::issue(Call& call) {
  if (!call.ticket) {
    call.ticket = g_tickets.acquire();
    call.ticket->call = &call;
  }
  call.ticket->begin();
  return reinterpret_cast<aclOpExecutor*>(kMark | call.ticket->number() << kIndexBits |
                                          g_tickets.index_of(call.ticket));
}

Ticket* Ticket::hold(const aclOpExecutor* executor) noexcept {
  const uint64_t value = reinterpret_cast<uint64_t>(executor) ^ kMark;
  Ticket* ticket = g_tickets.at(value & kIndexMask);
  return ticket && ticket->Life::hold(value >> kIndexBits) ? ticket : nullptr;
}

void Ticket::give_back() noexcept { g_tickets.release(this); }

}  // namespace softnpu::kernels
