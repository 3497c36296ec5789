// Shared by the C entry points: each is a few lines over guard() of runtime/error.h. Nothing here but argument checks.
#pragma once

#include <utility>

// The library hides what it does not declare here: the prototypes of the ABI are its visible C symbols.
#pragma GCC visibility push(default)
#include "acl.h"
#include "aclnn.h"
#include "hccl.h"
#pragma GCC visibility pop

#include "runtime/error.h"

namespace softnpu {

template <class T>
T* required(T* pointer, const char* name) {
  if (!pointer) fail(ACL_ERROR_INVALID_PARAM, "%s is NULL", name);
  return pointer;
}

// As guard(), for entry points that release something: destructors run in a forked child too. See Note [Fork].
template <class Body>
int guard_release(const char* entry, Body&& body) noexcept {
  return forked() ? 0 : guard(entry, std::forward<Body>(body));
}

// As guard(), for entry points that return a pointer: NULL on failure.
template <class Body>
auto guard_pointer(const char* entry, Body&& body) noexcept -> decltype(body()) {
  decltype(body()) result = nullptr;
  guard(entry, [&] { result = body(); });
  return result;
}

}  // namespace softnpu
