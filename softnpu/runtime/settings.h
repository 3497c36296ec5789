// Switches that clients set and query: system parameters, compile options, device attributes.
#pragma once

#include <cstdint>
#include <string>

#include "acl_types.h"

#pragma GCC visibility push(default)
namespace softnpu {

struct Context;

// What holds for a launch by this thread now: the context's value, else the process's, else `fallback`. Operators take
// it when they are launched, not when they run.
int64_t launch_parameter(aclSysParamOpt option, int64_t fallback) noexcept;

void set_process_parameter(aclSysParamOpt option, int64_t value);
int64_t checked_process_parameter(aclSysParamOpt option);  // throws Failure(107021) when it was never set
void set_context_parameter(Context& context, aclSysParamOpt option, int64_t value);

int64_t device_attribute(int card, aclrtDevAttr attribute);

std::string compile_option(aclCompileOpt option);
void set_compile_option(aclCompileOpt option, const std::string& value);

}  // namespace softnpu
#pragma GCC visibility pop
