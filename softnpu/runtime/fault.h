// Says in one sentence why a program dies that touches device memory from the host. See Note [Separate memory].
#pragma once

namespace softnpu {

// Installs the handler before the existing ones; called when the first card is opened.
void install_fault_handler();

}  // namespace softnpu
