// Copies in every direction. On one card a copy is a launch (any strides, any types); between host and card it is a
// memcpy of contiguous bytes, with packing and casting on the side that owns the data; between cards both meet.
#include <ATen/ATen.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

#include <cstddef>

#include "acl/check.h"
#include "acl/library.h"
#include "aclnn/format.h"
#include "aclnn/op.h"
#include "memory/caching_allocator.h"
#include "memory/host_allocator.h"
#include "memory/lost_data.h"
#include "ops/provider.h"
#include "ops/register.h"
#include "ops/tensor.h"
#include "profiler/kernel_trace.h"
#include "runtime/event.h"
#include "runtime/recovery.h"
#include "runtime/stream.h"
#include "runtime/sync_debug.h"
#include "runtime/task_queue.h"

namespace npu::ops {

namespace {

struct Memcpy {
  void* to;
  const void* from;
  size_t bytes;
  aclrtMemcpyKind kind;
  aclrtStream stream;
};

void run_memcpy(void* payload) {
  const auto& m = *static_cast<Memcpy*>(payload);
  if (recovery::watched()) recovery::check_not_stopped(t_current.device);  // since the copy was queued
  NPU_CHECK(acl::api().aclrtMemcpyAsync(m.to, m.bytes, m.from, m.bytes, m.kind, m.stream));
}

kernel_trace::Traffic traffic(size_t bytes, aclrtMemcpyKind kind) {
  const bool from_host = kind == ACL_MEMCPY_HOST_TO_DEVICE, to_host = kind == ACL_MEMCPY_DEVICE_TO_HOST;
  return {bytes, from_host ? "HtoD" : to_host ? "DtoH" : "DtoD", ""};
}

void memcpy_async(void* to, const void* from, size_t bytes, aclrtMemcpyKind kind) {
  const kernel_trace::Span span("aclrtMemcpyAsync", kernel_trace::Kind::copy, current_stream(),
                                [&] { return traffic(bytes, kind); });
  if (recovery::watched()) recovery::before_launch();
  const Memcpy m{to, from, bytes, kind, current_stream_handle()};
  task_queue::push(&run_memcpy, &m, sizeof(m));
}

// The host side may go away when this returns, so the stream is idle before and the bytes are moved after.
void memcpy_blocking(void* to, const void* from, size_t bytes, aclrtMemcpyKind kind) {
  sync_debug::before_wait();
  const Stream stream = current_stream();
  stream.synchronize();
  const kernel_trace::Span span("aclrtMemcpy", kernel_trace::Kind::copy, stream, [&] { return traffic(bytes, kind); });
  NPU_CHECK(acl::api().aclrtMemcpy(to, bytes, from, bytes, kind));
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

// Any strides: a chain of views is one launch.
void launch_copy(const Tensor& dst, const Tensor& src) {
  const bool pairs = dst.scalar_type() == at::ScalarType::Float4_e2m1fn_x2;  // nothing computes with them
  if ((has_acl_type(dst.scalar_type()) && !pairs) || dst.scalar_type() != src.scalar_type()) {
    NPU_EXEC(aclnnInplaceCopy, dst, src);
  } else {  // such types, and those that the ABI cannot name, travel as bytes
    TORCH_CHECK_TYPE(dst.element_size() == 1, "npu cannot copy strided tensors of type ", dst.scalar_type());
    NPU_EXEC(aclnnInplaceCopy, dst.view(at::kByte), src.view(at::kByte));
  }
}

void copy_from_host(const Tensor& dst, const Tensor& src, bool non_blocking);

void copy_on_card(const Tensor& dst, const Tensor& src) {
  at::assert_no_partial_overlap(dst, src);
  const auto unnamed = [](const Tensor& t) { return !has_acl_type(t.scalar_type()); };
  if (dst.scalar_type() != src.scalar_type() && (unnamed(dst) || unnamed(src)))  // the host converts
    return copy_from_host(dst, src.to(at::kCPU).to(dst.scalar_type()), false);
  if (on_softnpu() && same_layout(dst, src) && dst.data_ptr() != src.data_ptr())
    memcpy_async(dst.data_ptr(), src.const_data_ptr(), dst.nbytes(), ACL_MEMCPY_DEVICE_TO_DEVICE);
  else
    launch_copy(dst, src);
}

void move_bytes(const Tensor& host, void* to, const void* from, size_t bytes, aclrtMemcpyKind kind, bool non_blocking) {
  if (!non_blocking || !host.is_pinned()) return memcpy_blocking(to, from, bytes, kind);
  memcpy_async(to, from, bytes, kind);
  const auto& storage = host.storage().data_ptr();
  host_allocator::get()->record_event(host.mutable_data_ptr(), storage.get_context(), current_stream().unwrap());
}

void copy_from_host(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (same_layout(dst, src))
    return move_bytes(src, dst.data_ptr(), src.const_data_ptr(), dst.nbytes(), ACL_MEMCPY_HOST_TO_DEVICE, non_blocking);
  const auto packed = src.expand(dst.sizes()).contiguous();
  const auto staged =
      dst.is_contiguous() && dst.scalar_type() == src.scalar_type() ? dst : empty(dst.sizes(), src.scalar_type());
  move_bytes(packed, staged.data_ptr(), packed.const_data_ptr(), packed.nbytes(), ACL_MEMCPY_HOST_TO_DEVICE,
             non_blocking && packed.is_same(src));
  if (!staged.is_same(dst)) copy_on_card(dst, staged);
}

void copy_to_host(const Tensor& dst, const Tensor& src, bool non_blocking) {
  if (same_layout(dst, src))
    return move_bytes(dst, dst.data_ptr(), src.const_data_ptr(), dst.nbytes(), ACL_MEMCPY_DEVICE_TO_HOST, non_blocking);
  auto packed = src;
  if (!src.is_contiguous() || src.scalar_type() != dst.scalar_type() || src.sizes() != dst.sizes()) {
    packed = empty(dst.sizes(), dst.scalar_type());
    launch_copy(packed, src.expand(dst.sizes()));
  }
  if (dst.is_contiguous())
    return move_bytes(dst, dst.data_ptr(), packed.const_data_ptr(), dst.nbytes(), ACL_MEMCPY_DEVICE_TO_HOST,
                      non_blocking);
  auto staged = at::empty(dst.sizes(), dst.options());
  memcpy_blocking(staged.data_ptr(), packed.const_data_ptr(), staged.nbytes(), ACL_MEMCPY_DEVICE_TO_HOST);
  dst.copy_(staged);
}

// Runs on the source card: its stream waits for the destination's earlier work, and the destination for the copy.
void copy_between_cards(const Tensor& dst, const Tensor& src) {
  auto packed = src;
  CardGuard guard(src);
  const auto from = current_stream(), to = current_stream(dst.device().index());
  if (!same_layout(dst, src)) {
    packed = empty(dst.sizes(), dst.scalar_type());
    launch_copy(packed, src.expand(dst.sizes()));
  }
  Tensor landing = dst;
  if (!same_layout(dst, packed)) {
    CardGuard there(dst);
    landing = empty(dst.sizes(), dst.scalar_type());
  }
  Event ready, done;
  ready.record(to);
  ready.block(from);
  memcpy_async(landing.data_ptr(), packed.const_data_ptr(), landing.nbytes(), ACL_MEMCPY_DEVICE_TO_DEVICE);
  done.record(from);
  done.block(to);
  if (!landing.is_same(dst)) {
    CardGuard there(dst);
    launch_copy(dst, landing);
  }
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking);

Tensor& copy_through(Tensor& self, Tensor plain_view, const Tensor& src, bool non_blocking) {
  copy_(plain_view, src, non_blocking);
  return self;
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined() && src.defined(), "copy_: an undefined tensor was given");
  if (self.is_same(src)) return self;
  if (src._is_zerotensor()) return self.zero_();  // has no memory; before the checks, as upstream
  if (src.is_sparse() || self.is_sparse())
    TORCH_CHECK_NOT_IMPLEMENTED(false, "copy_ between npu and sparse tensors needs to_dense() first");
  at::assert_no_internal_overlap(self);
  // Lazy conjugation and negation: below here both sides are plain memory.
  if (self.is_conj()) return copy_through(self, self.conj(), src.conj(), non_blocking);
  if (self.is_neg()) return copy_through(self, self._neg_view(), src.neg(), non_blocking);
  if (src.is_conj() && is_npu(self)) return copy_(self, src.conj(), non_blocking).conj_physical_();
  if (src.is_conj()) return copy_(self, at::conj_physical(src.conj()), non_blocking);  // the host does not wait for it
  if (src.is_neg()) return copy_(self, at::neg(src._neg_view()), non_blocking);
  if (self.sizes() != src.sizes()) {
    // Upstream's words come from expand().
    return copy_(self, src.expand(self.sizes()), non_blocking);
  }
  if (self.numel() == 0) return self;
  if (C10_UNLIKELY(formats::layout_of(src) != nullptr)) return copy_(self, formats::in_order(src), non_blocking);
  if (C10_UNLIKELY(formats::layout_of(self) != nullptr)) {
    auto ordered = formats::in_order(self);
    copy_(ordered, src, non_blocking);
    formats::write_back(self, ordered);
    return self;
  }
  if (recovery::watched()) lost_data::check_copy(self, src);
  if (is_npu(self) && is_npu(src)) {
    if (self.device() == src.device()) {
      CardGuard guard(self);
      copy_on_card(self, src);
    } else {
      copy_between_cards(self, src);
    }
    return self;
  }
  if (is_npu(self)) {
    TORCH_CHECK(src.is_cpu(), "cannot copy from ", src.device(), " to ", self.device(), "; copy to the CPU first");
    CardGuard guard(self);
    copy_from_host(self, src, non_blocking);
  } else {
    TORCH_CHECK(self.is_cpu(), "cannot copy from ", src.device(), " to ", self.device(), "; copy to the CPU first");
    CardGuard guard(src);
    copy_to_host(self, src, non_blocking);
  }
  return self;
}

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  auto target = dst;
  copy_(target, self, non_blocking);
  return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

c10::Scalar local_scalar_dense(const Tensor& self) {
  if (C10_UNLIKELY(formats::layout_of(self) != nullptr)) return local_scalar_dense(formats::in_order(self));
  CardGuard guard(self);
  if (recovery::watched()) lost_data::check_copy(at::Tensor(), self);
  alignas(std::max_align_t) char number[sizeof(c10::complex<double>)];  // the widest type
  memcpy_blocking(number, self.const_data_ptr(), self.element_size(), ACL_MEMCPY_DEVICE_TO_HOST);
  return AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense",
                        AT_WRAP([&] { return c10::Scalar(*reinterpret_cast<const scalar_t*>(number)); }),
                        AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_FLOAT8_TYPES),
                        AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
}

}  // namespace

NPU_REGISTER(copy) {
  manual("aten::copy_", "", &copy_);
  manual("aten::_copy_from", "", &copy_from);
  manual("aten::_copy_from_and_resize", "", &copy_from_and_resize);
  manual("aten::_local_scalar_dense", "", &local_scalar_dense);
}

}  // namespace npu::ops
