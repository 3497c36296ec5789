#include "kernels/engine/wide.h"

#include <c10/util/ScopeExit.h>

#include "kernels/engine/call.h"

namespace softnpu::kernels {

void run_wide(Call& call) {
  c10::SmallVector<std::pair<size_t, Tensor>, 6> narrow;
  const auto restore = c10::make_scope_exit([&] {  // a cached call runs again
    for (auto& [i, t] : narrow) call.tensor(i) = t;
  });
  for (size_t i = 0; i < call.values.size(); i++)
    if (auto* t = std::get_if<Tensor>(&call.values[i]);
        t && t->defined() && at::isReducedFloatingType(t->scalar_type())) {
      narrow.emplace_back(i, *t);
      *t = widened(*t);  // the outputs as well: an operator may read what it writes
    }
  call.op.run(call);
  for (auto& [i, t] : narrow)
    if (call.op.outputs >> i & 1) t.copy_(call.tensor(i));
}

}  // namespace softnpu::kernels
