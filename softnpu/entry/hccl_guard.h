// guard() for HCCL's functions, whose codes are their own.
#pragma once

#include <utility>

#include "entry/entry.h"  // first: it makes the prototypes of the ABI visible

#include "comm/codes.h"

namespace softnpu::comm {

template <class Body>
HcclResult hccl_guard(const char* entry, Body&& body) noexcept {
  return hccl_code(guard(entry, std::forward<Body>(body)));
}

}  // namespace softnpu::comm
