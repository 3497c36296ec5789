// Waiting without Python's global lock, which others may need to do what is waited for. libtorch_npu.so knows no
// Python: csrc/python says how the lock is given up.
#pragma once

#include <type_traits>

namespace npu {

// Calls body(argument), without the lock if the calling thread holds it.
using CallWithoutGil = void (*)(void (*body)(void*), void* argument);
void set_without_gil(CallWithoutGil function) noexcept;  // null: the lock is kept
void call_without_gil(void (*body)(void*), void* argument);

// Not with another lock held: the thread that gets the global lock meanwhile may wait for it.
template <class Body>
void without_gil(Body&& body) {
  call_without_gil([](void* argument) { (*static_cast<std::remove_reference_t<Body>*>(argument))(); }, &body);
}

}  // namespace npu
