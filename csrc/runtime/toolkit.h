// What a program asks of the CANN toolkit as a whole: the versions of its packages and the options of its operator
// compiler. Safe to call from any thread.
//
// Note [Compile options]
// ~~~~~~~~~~~~~~~~~~~~~~
// The options steer how CANN compiles and selects kernels. CANN takes them after aclInit, programs set them in their
// first lines: what is set before the NPU is initialised is kept, and handed over then, in the order of the options.
#pragma once

#include <string>

#include "acl.h"

namespace npu {

std::string package_version(aclCANNPackageName package);  // empty when the provider does not know; needs no context

void set_compile_option(aclCompileOpt option, const std::string& value);  // see Note [Compile options]
std::string compile_option(
    aclCompileOpt option);  // what was set, else what the provider has; empty when it has nothing

// What operators are told where torch asks for deterministic algorithms: 1, or CANN's levels 2 and 3. See Note [Word
// 0].
int deterministic_level() noexcept;
void set_deterministic_level(int level);

}  // namespace npu
