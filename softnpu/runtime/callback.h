// User functions in stream order: on the stream's worker (host functions), or in a thread of the user's that asks for
// them (callbacks: aclrtSubscribeReport, aclrtProcessReport).
#pragma once

#include <cstdint>

#include "acl_types.h"

namespace softnpu {

class Stream;

void launch_host_function(aclrtStream stream, aclrtHostFunc function, void* data);

// `blocking`: the stream goes on only when the callback has returned.
void launch_callback(aclrtStream stream, aclrtCallback function, void* data, bool blocking);
void subscribe_report(uint64_t thread, Stream& stream);
void unsubscribe_report(uint64_t thread, Stream& stream);
// Runs one callback in the calling thread, waiting for it at most `milliseconds` (-1: for ever); throws
// Failure(507012).
void process_report(int64_t milliseconds);

}  // namespace softnpu
