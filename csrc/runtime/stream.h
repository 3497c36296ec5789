// Streams of the npu device: a thin value over c10::Stream. Default stream, a pool of 32 per priority and card,
// external ones. See Note [StreamId assignment] in stream.cpp.
#pragma once

#include <c10/core/Stream.h>

#include <utility>

#include "acl.h"
#include "runtime/current.h"

namespace npu {

class Stream {
 public:
  explicit Stream(c10::Stream stream);  // checks that it is an npu stream
  c10::Stream unwrap() const { return stream_; }
  operator c10::Stream() const { return stream_; }
  c10::DeviceIndex device_index() const { return stream_.device_index(); }
  c10::StreamId id() const { return stream_.id(); }
  aclrtStream handle() const;  // creates the ACL stream on first use
  bool query() const;          // drains the task queue, true when nothing is left to run
  void synchronize() const;
  int priority() const;
  bool operator==(const Stream& o) const { return stream_ == o.stream_; }

  static std::pair<int, int> priority_range() { return {0, -1}; }  // least, greatest; as in torch.cuda, lower is sooner

 private:
  c10::Stream stream_;
};

// A negative `device` means the current card.
Stream default_stream(c10::DeviceIndex device = -1);
Stream current_stream(c10::DeviceIndex device = -1);
void set_current_stream(Stream stream);  // of the stream's card; the current card stays
Stream stream_from_pool(int priority = 0, c10::DeviceIndex device = -1);
Stream external_stream(aclrtStream handle, c10::DeviceIndex device);

aclrtStream bind_current_stream();  // slow path of the next function
// Hot path of operator launches: the current card's current ACL stream, one thread-local read. Binds the card.
inline aclrtStream current_stream_handle() {
  aclrtStream handle = t_current.handle;
  return C10_LIKELY(handle != nullptr) ? handle : bind_current_stream();
}

void destroy_streams(c10::DeviceIndex device) noexcept;  // at finalize, with the card bound and idle

}  // namespace npu
