// No device means skipped, never passed.
#pragma once

#include <gtest/gtest.h>

#include "acl/library.h"
#include "runtime/device.h"

// For tests that need an untouched process: does not even count the cards.
#define SKIP_WITHOUT_RUNTIME() \
  if (!npu::acl::available()) GTEST_SKIP() << "no npu: " << npu::acl::why_unavailable()
#define SKIP_WITHOUT_DEVICE() \
  if (npu::device_count() == 0) GTEST_SKIP() << "no npu: " << npu::acl::why_unavailable()
#define SKIP_WITHOUT_DEVICES(n) \
  if (npu::device_count() < (n)) GTEST_SKIP() << "needs " << (n) << " npus"
