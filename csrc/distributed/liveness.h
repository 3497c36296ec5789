// Whether a rank's process still lives, for ranks that wait for each other before a communicator exists, which would
// tell. Each rank leaves a note in the store when its group is made. Only processes of the same host and PID namespace
// can be judged; of others nothing is claimed.
#pragma once

#include <string>

namespace npu::distributed {

std::string own_process();                           // what to leave in the store
bool process_has_ended(const std::string& process);  // of a note; false when it cannot be judged

}  // namespace npu::distributed
