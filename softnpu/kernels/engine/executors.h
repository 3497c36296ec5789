// What an aclOpExecutor* is: no address but a ticket, good for one use. Phase two or aclDestroyAclOpExecutor redeems
// it; every other value, and one that was redeemed before, is refused without being read. The number in a ticket is
// never given out again, so a stale executor does not become a later call's.
#pragma once

#include "aclnn.h"
#include "runtime/life.h"

namespace softnpu::kernels {

class Call;

// A call's place in the table of tickets; it has it from its first ticket on, and issues one after the other.
class Ticket : public Life {
 public:
  Call* call = nullptr;

  static aclOpExecutor* issue(Call& call);  // throws Failure when there are too many
  // The ticket, held: the caller lets it go unused, or ends it and owns the call then. NULL for any other value.
  static Ticket* hold(const aclOpExecutor* executor) noexcept;
  void give_back() noexcept;  // with its call's end
};

}  // namespace softnpu::kernels
