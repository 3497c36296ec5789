#include "kernels/engine/view.h"

#include <algorithm>
#include <cstring>

#include "kernels/engine/descriptors.h"
#include "kernels/engine/dtypes.h"
#include "runtime/address.h"
#include "runtime/config.h"
#include "runtime/error.h"

namespace softnpu::kernels {

const char* argument_name(const Operator& op, size_t i, char (&buffer)[64]) {
  const char* name = op.arguments;
  while (i--) name = strchrnul(name, ',') + 1;
  size_t n = std::min<size_t>(strchrnul(name, ',') - name, sizeof(buffer) - 1);
  memcpy(buffer, name, n);
  buffer[n] = 0;
  return buffer;
}

namespace {

// What a descriptor says of its elements. Two numbers of four bits share a byte: the descriptor counts numbers, the
// kernels' tensor counts bytes.
struct Layout {
  explicit Layout(const aclTensor& t)
      : sizes(t.sizes.begin(), t.sizes.end()),
        strides(t.strides.begin(), t.strides.end()),
        offset(t.offset),
        stored(t.storage_elements) {}

  // In bytes: neighbours lie in the last dimension of stride 1. False where a pair is not in one byte.
  bool count_pairs() {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
      sizes.back() /= 2;
      return true;
    }
    size_t along = sizes.size();
    for (size_t d = 0; d < sizes.size(); d++)
      if (strides[d] == 1 && (along == sizes.size() || sizes[d] > 1)) along = d;
    if (along == sizes.size() || sizes[along] % 2 || offset % 2) return false;
    for (size_t d = 0; d < sizes.size(); d++) {
      if (d == along) continue;
      if (strides[d] % 2 && sizes[d] > 1) return false;
      strides[d] /= 2;
    }
    sizes[along] /= 2;
    offset /= 2;
    stored /= 2;
    return true;
  }

  // The number of elements from the start of the storage that are reached, 0 for a tensor without elements. False when
  // that is more than any number.
  bool reach(int64_t* end) const {
    int64_t last = offset;
    for (int64_t size : sizes)
      if (size == 0) return true;
    for (size_t d = 0; d < sizes.size(); d++) {
      int64_t span;
      if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span)) return false;
      if (__builtin_add_overflow(last, span, &last)) return false;
    }
    return !__builtin_add_overflow(last, 1, end);
  }

  c10::SmallVector<int64_t, 8> sizes, strides;
  int64_t offset, stored;
};

// A CPU tensor for an argument in a private format, with memory while the kernel runs; see format.h.
Tensor formatted_view(const Operator& op, size_t i, const aclTensor& t, ScalarType dtype, Call& call) {
  char name[64];
  if (!(op.formatted >> i & 1))
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' is in the private format %d, which this operator does not take",
         op.name, argument_name(op, i, name), t.format);
  if (t.dtype == ACL_FLOAT4_E2M1 || t.dtype == ACL_FLOAT4_E1M2)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has numbers of four bits in a private format", op.name,
         argument_name(op, i, name));
  const auto base = base_sizes(t);
  int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
  for (const int64_t size : t.storage_sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes)) fail(ACLNN_ERR_PARAM_INVALID, "%s: beyond any memory", op.name);
  if (bytes > 0) check_allocated(t.data, bytes, -1, argument_name(op, i, name));
  const auto make = [&](at::IntArrayRef sizes, size_t storage_bytes, void* data) {
    c10::Storage storage(c10::Storage::use_byte_size_t(), storage_bytes, c10::DataPtr(data, c10::kCPU), nullptr, false);
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
  };
  Formatted argument{t.format,
                     (op.outputs >> i & 1) != 0,
                     make(t.storage_sizes, bytes, t.data ? kernel_address(t.data) : nullptr),
                     {}};
  call.storages.push_back(argument.stored.storage().unsafeGetStorageImpl());
  call.extents.push_back(bytes);
  argument.plain = make(base, c10::multiply_integers(base) * c10::elementSize(dtype), nullptr);
  call.formatted.push_back(argument);
  auto tensor = argument.plain.alias();
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes, t.strides, 0);
  return tensor;
}

}  // namespace

Tensor view(const Operator& op, size_t i, const aclTensor& t, Call& call) {
  char name[64];
  auto dtype = scalar_type(t.dtype);
  if (!dtype)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has data type %d, which this device does not compute with",
         op.name, argument_name(op, i, name), t.dtype);
  for (int64_t stride : t.strides)
    if (stride < 0)
      fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has stride %lld, which is negative", op.name,
           argument_name(op, i, name), static_cast<long long>(stride));
  if (config().strict) check_descriptor(call.argument(i), t, op.outputs >> i & 1);
  if (is_private(t.format)) return formatted_view(op, i, t, *dtype, call);
  Layout layout(t);
  if ((t.dtype == ACL_FLOAT4_E2M1 || t.dtype == ACL_FLOAT4_E1M2) && !layout.count_pairs())
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has numbers of four bits that do not lie in whole bytes", op.name,
         argument_name(op, i, name));
  int64_t end = 0, bytes;
  if (!layout.reach(&end) || __builtin_mul_overflow(end, static_cast<int64_t>(c10::elementSize(*dtype)), &bytes))
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' has sizes, strides and an offset beyond any memory", op.name,
         argument_name(op, i, name));
  if (end > layout.stored && layout.stored > 0)
    fail(ACLNN_ERR_PARAM_INVALID, "%s: argument '%s' reaches element %lld of a storage of %lld", op.name,
         argument_name(op, i, name), static_cast<long long>(end - 1), static_cast<long long>(layout.stored));
  if (bytes > 0) check_allocated(t.data, bytes, -1, argument_name(op, i, name));
  // No larger than what was checked: ATen may give an output another shape, up to the end of its storage.
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(t.data ? kernel_address(t.data) : nullptr, c10::kCPU), nullptr, false);
  call.storages.push_back(storage.unsafeGetStorageImpl());
  call.extents.push_back(bytes);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(*dtype));
  // The stride of a single element says nothing, but libraries multiply with it.
  for (size_t d = 0; d < layout.strides.size(); d++)
    if (layout.sizes[d] == 1) layout.strides[d] = std::min(layout.strides[d], end);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides, layout.offset);
  return tensor;
}

}  // namespace softnpu::kernels
