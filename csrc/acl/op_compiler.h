// The operator compiler of the provider, libacl_op_compiler.so: opened when a program first sets one of its options.
#pragma once

namespace npu::acl {

// A symbol of libacl_op_compiler.so, nullptr when absent. Throws when the library cannot be loaded.
void* op_compiler_symbol(const char* name);

}  // namespace npu::acl
