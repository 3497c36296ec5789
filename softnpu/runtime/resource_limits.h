// How many cores a device, a stream or a thread may use. softnpu's kernels do not divide their work by cores; the
// numbers are kept and given back as the interface has it: a thread's is that of the stream it uses, else that of its
// device.
#pragma once

#include "acl_types.h"

namespace softnpu {

class Stream;

uint32_t device_limit(int card, aclrtDevResLimitType type);
void set_device_limit(int card, aclrtDevResLimitType type, uint32_t value);
void reset_device_limits(int card);

uint32_t stream_limit(const Stream& stream, aclrtDevResLimitType type);
void set_stream_limit(Stream& stream, aclrtDevResLimitType type, uint32_t value);
void reset_stream_limits(Stream& stream);

void use_stream_limits(Stream* stream);  // in this thread; NULL: no more
uint32_t thread_limit(aclrtDevResLimitType type);

}  // namespace softnpu
