// Stopping the work of a card and starting it again: torch.npu.stop_device and restart_device, on any thread.
//
// Note [Recovery]
// ~~~~~~~~~~~~~~~
// After a fault of a card or of another rank, a supervisor stops the card (aclrtDeviceTaskAbort): what runs and what is
// queued is dropped, and whoever waits or launches gets an error that begins with "FORCE STOP.", until the card is
// restarted. Its memory keeps its contents. A restart repairs the memory that the provider called faulty, and on demand
// makes the streams anew and declares all contents lost (memory/lost_data.h).
//   Launches must not pay for that: they read one word, `watched_cards`, which is 0 in a process that never stopped a
// card. A thread keeps the handle of its current stream (current.h); the slow path behind that word takes it away when
// streams were made anew.
#pragma once

#include <c10/core/Device.h>
#include <c10/macros/Macros.h>

#include <atomic>
#include <cstdint>

namespace npu {
// In stream.cpp: puts new ACL streams in the place of those in use, which stay as they are: other threads hold them.
void renew_streams(c10::DeviceIndex device);
}  // namespace npu

namespace npu::recovery {

extern std::atomic<uint64_t> watched_cards;  // a bit each: stopped now, streams made anew, or with lost data
inline bool watched() noexcept { return C10_UNLIKELY(watched_cards.load(std::memory_order_relaxed) != 0); }
void watch(c10::DeviceIndex device) noexcept;

// Throws on a stopped card. For launches, with the card current: drops a handle of a stream that was made anew.
void check_not_stopped(c10::DeviceIndex device);
void before_launch();

// False when the provider could not stop the work; the card goes on then.
bool stop_device(c10::DeviceIndex device);
void restart_device(c10::DeviceIndex device, bool renew_streams);

}  // namespace npu::recovery
