// Where the objects behind handles live. A slot is constructed once and never given back to the heap, so a handle can
// be checked with three reads, whatever it points at: inside the arena, at a slot, alive. No lock, no registry. A slot
// is used again only after kRest others were given back, so that a stale handle meets a dead object and not somebody
// else's.
#pragma once

#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "acl_types.h"
#include "error.h"
#include "life.h"
#include "spin_lock.h"

namespace softnpu {

// T is default-constructible and a Life; acquire() hands out a slot that is not alive, in the state its last user left
// (vectors keep their capacity). The caller brings it to life with begin(), and ends it before release().
template <class T>
class Arena {
 public:
  constexpr Arena(const char* what, size_t capacity) : what_(what), capacity_(capacity) {}

  T* acquire() {
    std::lock_guard<SpinLock> lock(lock_);
    if (resting_ <= kRest && used_.load(std::memory_order_relaxed) < capacity_) return grow();
    if (!oldest_) fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "more than %zu %s at once", capacity_, what_);
    Slot* slot = oldest_;
    oldest_ = slot->next;
    --resting_;
    return &slot->object;
  }

  void release(T* object) noexcept {
    Slot* slot = reinterpret_cast<Slot*>(object);
    std::lock_guard<SpinLock> lock(lock_);
    slot->next = nullptr;
    (oldest_ ? newest_->next : oldest_) = slot;
    newest_ = slot;
    ++resting_;
  }

  // The live object at `handle`, or NULL: for null, stale, foreign and arbitrary pointers alike.
  T* find(const void* handle) const noexcept {
    const uintptr_t base = reinterpret_cast<uintptr_t>(slots_.load(std::memory_order_acquire));
    const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - base;
    if (base == 0 || offset >= used_.load(std::memory_order_acquire) * sizeof(Slot) || offset % sizeof(Slot) != 0)
      return nullptr;
    T* object = &reinterpret_cast<Slot*>(base + offset)->object;
    return object->alive() ? object : nullptr;
  }

  // Ends the object at `handle`; NULL as for find(), and for all but one of several threads. The caller releases it.
  T* end(const void* handle) const noexcept {
    T* object = find(handle);
    return object && object->end() ? object : nullptr;
  }

  // Slots by number, for handles that are no addresses. NULL beyond those that were ever used.
  size_t index_of(const T* object) const noexcept {
    return reinterpret_cast<const Slot*>(object) - slots_.load(std::memory_order_relaxed);
  }
  T* at(size_t index) const noexcept {
    Slot* slots = slots_.load(std::memory_order_acquire);
    return index < used_.load(std::memory_order_acquire) ? &slots[index].object : nullptr;
  }

  // Calls visit(T&) for every slot that was ever used, alive or not.
  template <class Visit>
  void for_each(Visit&& visit) {
    const size_t used = used_.load(std::memory_order_acquire);
    Slot* slots = slots_.load(std::memory_order_acquire);
    for (size_t i = 0; i < used; ++i) visit(slots[i].object);
  }

 private:
  struct Slot {
    T object;
    Slot* next = nullptr;
  };

  // Lock held, capacity left.
  T* grow() {
    Slot* slots = slots_.load(std::memory_order_relaxed);
    if (!slots) {
      void* memory = mmap(nullptr, capacity_ * sizeof(Slot), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef __SANITIZE_ADDRESS__
      __lsan_register_root_region(memory, capacity_ * sizeof(Slot));  // what slots own is not leaked
#endif
      slots = static_cast<Slot*>(memory);
      slots_.store(slots, std::memory_order_release);
    }
    const size_t index = used_.load(std::memory_order_relaxed);
    new (&slots[index]) Slot();
    used_.store(index + 1, std::memory_order_release);
    return &slots[index].object;
  }

  static constexpr size_t kRest = 32;

  const char* what_;
  const size_t capacity_;
  SpinLock lock_;
  Slot* oldest_ = nullptr;  // free slots, in the order in which they were given back
  Slot* newest_ = nullptr;
  size_t resting_ = 0;
  std::atomic<Slot*> slots_{nullptr};
  std::atomic<size_t> used_{0};
};

}  // namespace softnpu
