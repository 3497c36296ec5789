// Stands in for CANN's libascendcl.so where a test only cares about which library is loaded: every required function is
// there and returns 0, so that it is never mistaken for a device.
#include "acl/library.h"

#define FAKE(name)                                                                    \
  extern "C" __attribute__((visibility("default"))) int fake_##name() __asm__(#name); \
  int fake_##name() { return 0; }
NPU_ACL_REQUIRED(FAKE)
