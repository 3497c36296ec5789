// Switches that clients set and query: system parameters, compile options, device attributes.
#pragma once

#include <cstdint>
#include <string>

#include "acl_types.h"

#pragma GCC visibility push(default)
namespace softnpu {

struct Context;

// The kernels are deterministic anyway; clients set the parameter and read it back.
void set_process_parameter(aclSysParamOpt option, int64_t value);
int64_t checked_process_parameter(aclSysParamOpt option);  // throws Failure(107021) when it was never set
void set_context_parameter(Context& context, aclSysParamOpt option, int64_t value);

int64_t device_attribute(int card, aclrtDevAttr attribute);

std::string compile_option(aclCompileOpt option);
void set_compile_option(aclCompileOpt option, const std::string& value);

}  // namespace softnpu
#pragma GCC visibility pop
