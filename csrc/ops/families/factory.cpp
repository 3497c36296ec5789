// Tensors out of nothing: empty, empty_strided, resize_, set_; clones of storages. Everything else upstream composes
// from these.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>

#include "aclnn/format.h"
#include "aclnn/op.h"
#include "memory/caching_allocator.h"
#include "ops/register.h"
#include "ops/tensor.h"
#include "runtime/current.h"
#include "runtime/device.h"
#include "runtime/storage_format.h"

namespace npu::ops {

namespace {

c10::Device resolve(std::optional<c10::Device> device) {
  init();
  if (!device.has_value() || !device->has_index()) return c10::Device(c10::DeviceType::PrivateUse1, current_device());
  check_device_index(device->index());
  return *device;
}

void check_factory(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(at::kStrided) == at::kStrided, "torch.empty on npu makes strided tensors, got layout ",
              *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

void fill_for_determinism(const Tensor& t) {
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(const_cast<Tensor&>(t));
}

Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                           std::optional<c10::Device> device, std::optional<bool> pin_memory,
                           std::optional<at::MemoryFormat> format) {
  check_factory(layout, pin_memory);
  CardGuard guard(resolve(device));
  auto out = empty(size, dtype.value_or(at::typeMetaToScalarType(c10::get_default_dtype())),
                   format.value_or(at::MemoryFormat::Contiguous));
  fill_for_determinism(out);
  return out;
}

Tensor ones(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
            std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  auto out = empty_memory_format(size, dtype, layout, device, pin_memory, std::nullopt);
  CardGuard guard(out);
  if (out.numel() > 0) NPU_EXEC(aclnnInplaceOne, out);
  return out;
}

Tensor empty_strided_(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout, std::optional<c10::Device> device,
                      std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  CardGuard guard(resolve(device));
  auto out = empty_strided(size, stride, dtype.value_or(at::typeMetaToScalarType(c10::get_default_dtype())));
  fill_for_determinism(out);
  return out;
}

// Grows the storage on its own card, keeping its bytes.
void grow_storage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  CardGuard guard(storage->device());
  auto* allocator = caching_allocator::get();
  c10::DataPtr grown = allocator->allocate(bytes);
  if (const size_t keep = std::min(bytes, storage->nbytes())) allocator->copy_data(grown.get(), storage->data(), keep);
  storage->set_data_ptr_noswap(std::move(grown));
  storage->set_nbytes(bytes);
}

void ensure_room(c10::TensorImpl* self, at::IntArrayRef size, at::OptionalIntArrayRef stride) {
  const size_t item = self->dtype().itemsize();
  const auto offset = self->storage_offset();
  const size_t bytes = stride ? at::detail::computeStorageNbytes(size, *stride, item, offset)
                              : at::detail::computeStorageNbytesContiguous(size, item, offset);
  if (self->numel() == 0) return;
  auto* storage = self->unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK(storage, "cannot resize a tensor without storage");
  if (bytes > storage->nbytes()) grow_storage(storage, bytes);
}

const Tensor& resize_(const Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto old_bytes = impl->unsafe_storage() ? impl->unsafe_storage().nbytes() : 0;
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    ensure_room(impl, size, std::nullopt);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  if (C10_UNLIKELY(at::globalContext().deterministicAlgorithms() &&
                   at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size, at::IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(), "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(),
              "\".  This is no longer allowed; the devices must match.");
  at::native::checkSetStorage(self, source, offset, size, stride);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  const at::OptionalIntArrayRef strides = stride.data() ? at::OptionalIntArrayRef(stride) : std::nullopt;
  if (strides)
    impl->set_sizes_and_strides(size, *strides);
  else
    impl->set_sizes_contiguous(size);
  ensure_room(impl, size, strides);
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, elements, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

Tensor& set_nothing(Tensor& self) {
  auto* allocator = caching_allocator::get();
  CardGuard guard(self.device());
  return set_whole_storage(self, c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                                       allocator->allocate(0), allocator, true));
}

// Note [Lazy clones]: torch shares the memory until somebody writes, which a storage notices when it is asked for an
// address to write to. A packed call (aclnn/pack.h) takes the addresses of all its tensors alike, so a clone has its
// own memory from the beginning. For who uses it that is the same, as torch clones at once too where it cannot wait.
Tensor lazy_clone(const Tensor& self) {
  CardGuard guard(self);
  if (formats::layout_of(self)) return formats::in_order(self);
  const auto bytes = at::empty({0}, self.options().dtype(at::kByte)).set_(self.storage()).clone();
  return at::empty({0}, self.options()).set_(bytes.storage(), self.storage_offset(), self.sizes(), self.strides());
}

void record_stream(Tensor& self, c10::Stream stream) {
  caching_allocator::record_stream(self.storage().data_ptr(), Stream(stream));
}

// A tensor of zeros without memory, as autograd uses it for tangents that are known to be zero.
struct NoMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, &c10::detail::deleteNothing, device}; }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::detail::deleteNothing; }
  void copy_data(void*, const void*, size_t) const override {}
  c10::Device device{c10::DeviceType::PrivateUse1, 0};
};

Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory) {
  check_factory(layout, pin_memory);
  static auto* allocators = [] {
    auto* each = new std::array<NoMemory, kMaxDevices>;
    for (int card = 0; card < kMaxDevices; ++card) (*each)[card].device.set_index(static_cast<c10::DeviceIndex>(card));
    return each;
  }();
  auto& allocator = (*allocators)[resolve(device).index()];
  const auto keys =
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys,
                                   dtype.value_or(at::typeMetaToScalarType(c10::get_default_dtype())), std::nullopt);
}

}  // namespace

NPU_REGISTER(factory) {
  manual("aten::_efficientzerotensor", "", &efficient_zero_tensor);
  manual("aten::_lazy_clone", "", &lazy_clone);
  manual("aten::empty", "memory_format", &empty_memory_format);
  manual("aten::ones", "", &ones);
  manual("aten::empty_strided", "", &empty_strided_);
  manual("aten::resize_", "", &resize_);
  manual("aten::set_", "source_Storage_storage_offset", &set_storage);
  manual("aten::set_", "source_Storage", &set_whole_storage);
  manual("aten::set_", "source_Tensor", &set_tensor);
  manual("aten::set_", "", &set_nothing);
  manual("aten::record_stream", "", &record_stream);
}

}  // namespace npu::ops
