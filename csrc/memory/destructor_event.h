// Events recorded while memory is freed, so inside destructors. See record_in_destructor.
#pragma once

#include "runtime/event.h"

namespace npu {

// event.record(stream), except that the error of an earlier task, which the task queue raises at this opportunity, is
// put back for the next caller: a destructor has nobody to raise it to. Still throws when the event itself cannot be
// recorded.
void record_in_destructor(Event& event, Stream stream);

}  // namespace npu
