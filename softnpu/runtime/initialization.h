// aclInit and aclFinalize.
#pragma once

namespace softnpu {

void initialize(const char* config_path);  // throws Failure(100002) the second time
void finalize();                           // ends all cards; gives up on tasks that do not end

}  // namespace softnpu
