// Functions of the runtime library that a single feature uses, and that older ones lack.
#pragma once

namespace npu::acl {

// A symbol of libascendcl.so, nullptr when absent. Throws when the library cannot be loaded.
void* runtime_symbol(const char* name);

}  // namespace npu::acl
