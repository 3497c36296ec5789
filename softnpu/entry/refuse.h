// Entry points that exist because clients link or look them up, and say honestly that softnpu cannot do it.
//
// A refusal takes no notice of its arguments, so one function without parameters serves every signature: the C calling
// conventions leave the cleaning up to the caller. NPU_REFUSE gives it the entry point's name and declared type.
#pragma once

#include "entry.h"

#define NPU_REFUSE_AS(type, value, code, name, what)          \
  extern "C" type softnpu_refuse_##name() {                   \
    ::softnpu::remember(#name, code, "softnpu has no " what); \
    return value;                                             \
  }                                                           \
  extern "C" __attribute__((visibility("default"), alias("softnpu_refuse_" #name))) decltype(name) name;

// For functions that return a code, a pointer, a number.
#define NPU_REFUSE(name, what) \
  NPU_REFUSE_AS(int, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, name, what)
#define NPU_REFUSE_POINTER(name, what) NPU_REFUSE_AS(void*, nullptr, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, name, what)
#define NPU_REFUSE_NUMBER(name, what) NPU_REFUSE_AS(size_t, 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, name, what)

#pragma GCC diagnostic ignored "-Wattribute-alias"
