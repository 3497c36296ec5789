// What happens to softnpu in a forked child. See Note [Fork] in fork.cpp.
#pragma once

namespace softnpu {

// Called when the first card is opened: a child forked from now on is cut off.
void cut_off_forked_children();

// A descriptor that a forked child closes at once, so that it keeps neither memory nor locks of its parent alive.
void close_in_child(int fd);
void forget_in_child(int fd);

}  // namespace softnpu
