#include "aclnn/format.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string_view>

#include "acl/check.h"
#include "acl/library.h"
#include "aclnn/survey.h"
#include "memory/caching_allocator.h"
#include "runtime/device.h"

namespace npu::formats {

namespace {

using ops::AclOp;
using ops::Packer;
using ops::PhaseOne;

at::Tensor over(c10::Storage storage, at::ScalarType type, at::IntArrayRef sizes, at::IntArrayRef strides,
                int64_t offset) {
  auto t = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

at::Tensor over(c10::Storage storage, at::ScalarType type, at::IntArrayRef sizes) {
  auto t = over(std::move(storage), type, {0}, {1}, 0);
  t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return t;
}

at::Tensor whole(const c10::Storage& storage, const Layout& layout) { return over(storage, layout.type, layout.sizes); }

c10::Storage plain_storage(size_t bytes) {
  auto* allocator = caching_allocator::get();
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes),
                                               allocator, /*resizable=*/true);
}

// The memory of a formatted storage in element order; what its blocks have beyond the elements is zero.
c10::Storage ordered_copy(const c10::Storage& storage, const Layout& layout) {
  c10::Storage copy = plain_storage(storage.nbytes());
  const auto elements = whole(copy, layout);
  const auto used = static_cast<int64_t>(elements.nbytes()), all = static_cast<int64_t>(storage.nbytes());
  if (used < all) {
    const int64_t rest = all - used, step = 1;
    NPU_EXEC(aclnnInplaceZero, over(copy, at::kByte, rest, step, used));
  }
  if (used > 0) NPU_EXEC(aclnnNpuFormatCast, whole(storage, layout), elements);
  return copy;
}

template <class... C>
constexpr PhaseOne phase_one_of(ops::abi::Abi<C...>) {
  return &ops::phase_one<C...>;
}

// An operator that reads weights in FRACTAL_NZ, by the name of the one that reads them in element order.
struct Native {
  std::string_view op;
  AclOp twin;
  PhaseOne phase_one;
  uint64_t weights;  // bit i: tensor argument i, where lists count as one
  int numbers = 0;   // 1: the twin has one more number before its tensor argument `before`; -1: one less
  size_t before = 0;
};
#define NPU_NATIVE(op, twin, ...) {op, {#twin}, phase_one_of(ops::abi::twin{}), __VA_ARGS__}

Native* find_native(std::string_view op) {
  // clang-format off
  static Native all[] = {
      NPU_NATIVE("aclnnNpuFormatCast", aclnnNpuFormatCast, 0b11),
      NPU_NATIVE("aclnnMm", aclnnMatmulWeightNz, 0b10),
      NPU_NATIVE("aclnnMatmul", aclnnMatmulWeightNz, 0b10),
      NPU_NATIVE("aclnnAddmm", aclnnAddmmWeightNz, 0b100),
      NPU_NATIVE("aclnnBatchMatMul", aclnnBatchMatMulWeightNz, 0b10),
      NPU_NATIVE("aclnnTransposeBatchMatMul", aclnnTransposeBatchMatMulWeightNz, 0b10),
      NPU_NATIVE("aclnnQuantMatmulV5", aclnnQuantMatmulWeightNz, 0b10),
      NPU_NATIVE("aclnnQuantMatmulReduceSumWeightNz", aclnnQuantMatmulReduceSumWeightNz, 0b10),
      NPU_NATIVE("aclnnWeightQuantBatchMatmulV2", aclnnWeightQuantBatchMatmulNz, 0b10),
      NPU_NATIVE("aclnnWeightQuantBatchMatmulV3", aclnnWeightQuantBatchMatmulNz, 0b10, -1, 7),
      NPU_NATIVE("aclnnGroupedMatmulV5", aclnnGroupedMatmulWeightNz, 0b10, 1, 12),
      NPU_NATIVE("aclnnGroupedMatmulSwigluQuantWeightNZ", aclnnGroupedMatmulSwigluQuantWeightNZ, 0b10),
      NPU_NATIVE("aclnnGroupedMatmulSwigluQuantV2", aclnnGroupedMatmulSwigluQuantWeightNzV2, 0b10),
      NPU_NATIVE("aclnnGroupedMatmulFinalizeRoutingV3", aclnnGroupedMatmulFinalizeRoutingWeightNzV2, 0b10),
      NPU_NATIVE("aclnnQuantGroupedMatmulDequant", aclnnQuantGroupedMatmulDequantWeightNZ, 0b10),
      NPU_NATIVE("aclnnMlaPrologV2WeightNz", aclnnMlaPrologV2WeightNz, 0b10110),
      NPU_NATIVE("aclnnMlaPrologV3WeightNz", aclnnMlaPrologV3WeightNz, 0b10110),
  };
  // clang-format on
  for (auto& each : all)
    if (each.op == op) return acl::op_symbol(each.twin.name) ? &each : nullptr;
  return nullptr;
}

// Whether a view is what a kernel for blocks can read: all of the elements, or the matrices transposed.
bool covers(const at::Tensor& t, const Layout& layout) {
  if (t.scalar_type() != layout.type || t.storage_offset() != 0) return false;
  const auto same = [&](const at::Tensor& view) { return view.is_contiguous() && view.sizes() == layout.sizes; };
  return same(t) || (t.dim() >= 2 && same(t.transpose(-2, -1)));
}

struct Argument {
  const ops::FormattedArgument* packed;
  const Layout* layout;
  size_t place;  // which tensor argument
  bool native = false;
};

class Arguments {
 public:
  Arguments(AclOp& op, PhaseOne phase_one, Packer& packer)
      : packer_(packer), written_(ops::written_by(op.name)), starts_(ops::tensor_arguments(phase_one, packer)) {
    const auto* words = packer.words.data();
    for (const auto& packed : *packer.formatted) {
      const auto next = std::upper_bound(starts_.begin(), starts_.end(), words + packed.word);
      all_.push_back({&packed, layout_of(packed.tensor), static_cast<size_t>(next - starts_.begin()) - 1});
    }
  }

  // The form of the operator that takes these weights, if there is one.
  Native* native(const char* op) {
    auto* native = find_native(op);
    if (!native) return nullptr;
    const auto* words = packer_.words.data();
    const bool cast = native->weights & 1;  // which takes every format
    bool any = false;
    for (auto& each : all_) {
      const auto& format = each.layout->format;
      each.native = (native->weights >> each.place & 1) && (cast || format == ACL_FORMAT_FRACTAL_NZ) &&
                    covers(each.packed->tensor, *each.layout);
      any |= each.native;
    }
    for (auto& each : all_) {  // a list is in the format as a whole
      const uint64_t* start = starts_[each.place];
      if (start == words + each.packed->word) continue;
      const auto all = static_cast<uint64_t>(std::count_if(
          all_.begin(), all_.end(), [&](const auto& other) { return other.place == each.place && other.native; }));
      if (all != *start >> 8) any = each.native = false;
    }
    if (native->numbers < 0 && starts_[native->before][-1] != 0) any = false;
    if (any) return native;
    for (auto& each : all_) each.native = false;
    return nullptr;
  }

  // Copies for the arguments that the operator takes in element order.
  void copy() {
    for (const auto& each : all_) {
      if (each.native) continue;
      const auto& storage = each.packed->tensor.storage();
      auto found =
          std::find_if(copies_.begin(), copies_.end(), [&](const Copy& c) { return c.of.is_alias_of(storage); });
      if (found == copies_.end())
        found = copies_.insert(copies_.end(), {storage, ordered_copy(storage, *each.layout), each.layout, false});
      found->written |= written_ >> each.place & 1;
      packer_.addresses[each.packed->address] = const_cast<void*>(found->memory.data());
    }
  }

  // Describes the others as they are, and makes the words those of `native`. From the back: places shift.
  void describe(const Native& native) {
    const auto* words = packer_.words.data();
    size_t number = native.numbers ? starts_[native.before] - words : 0;
    const auto exchange = [&] {
      auto at = packer_.words.begin() + static_cast<int64_t>(number);
      if (native.numbers > 0) packer_.words.insert(at, 0);
      if (native.numbers < 0) packer_.words.erase(at - 1);
      number = 0;
    };
    for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
      if (!each->native) continue;
      if (number > each->packed->word) exchange();
      packer_.describe(each->packed->word, each->layout->format, each->layout->stored);
    }
    if (number) exchange();
    packer_.rename(&native.twin);
  }

  void write_back() {
    for (const auto& copy : copies_)
      if (copy.written) NPU_EXEC(aclnnNpuFormatCast, whole(copy.memory, *copy.layout), whole(copy.of, *copy.layout));
  }

 private:
  struct Copy {
    c10::Storage of, memory;
    const Layout* layout;
    bool written;
  };
  Packer& packer_;
  const uint64_t written_;
  const std::vector<const uint64_t*> starts_;  // of the tensor arguments
  std::vector<Argument> all_;
  std::vector<Copy> copies_;
};

}  // namespace

void launch(AclOp& op, PhaseOne phase_one, Packer& packer) {
  Arguments arguments(op, phase_one, packer);
  Native* native = arguments.native(op.name);
  arguments.copy();
  if (native) arguments.describe(*native);
  const auto described = std::move(packer.formatted);  // where `arguments` points to; the call is a plain one now
  ops::launch(native ? native->twin : op, native ? native->phase_one : phase_one, packer);
  arguments.write_back();
}

std::vector<c10::Storage> order(Packer& packer) {
  std::vector<c10::Storage> copies;
  if (C10_LIKELY(!packer.formatted)) return copies;
  for (const auto& each : *packer.formatted) {
    copies.push_back(ordered_copy(each.tensor.storage(), *layout_of(each.tensor)));
    packer.addresses[each.address] = const_cast<void*>(copies.back().data());
  }
  return copies;
}

at::Tensor to_blocks(const at::Tensor& t, aclFormat format, aclDataType type) {
  static const auto sizes_of = reinterpret_cast<decltype(&::aclnnNpuFormatCastCalculateSizeAndFormat)>(
      acl::op_symbol("aclnnNpuFormatCastCalculateSizeAndFormat"));
  if (!sizes_of) throw ops::MissingOp("aclnnNpuFormatCastCalculateSizeAndFormat");
  const DeviceGuard guard(t.device().index());
  const int64_t elements = static_cast<int64_t>(t.storage().nbytes() / t.element_size());
  auto* source = acl::api().aclCreateTensor(t.sizes().data(), t.dim(), ops::acl_type(t.scalar_type()),
                                            t.strides().data(), t.storage_offset(), ACL_FORMAT_ND, &elements, 1,
                                            const_cast<void*>(t.storage().data()));
  int64_t* sizes = nullptr;
  uint64_t count = 0;
  int actual = format;
  const int code = sizes_of(source, format, type, &sizes, &count, &actual);
  acl::api().aclDestroyTensor(source);
  TORCH_CHECK(code == 0, "a tensor of sizes ", t.sizes(), " and type ", t.scalar_type(), " cannot be stored in format ",
              static_cast<int>(format), ": ", acl::api().aclGetRecentErrMsg());
  Layout layout{static_cast<aclFormat>(actual), t.scalar_type(), {}, {sizes, sizes + count}};
  layout.sizes.assign(t.sizes().begin(), t.sizes().end());
  delete[] sizes;  // made with new[] by the provider
  const size_t bytes = c10::multiply_integers(layout.stored) * t.element_size();
  auto* allocator = caching_allocator::get();
  const auto blocks =
      whole(c10::Storage(c10::make_intrusive<FormattedStorage>(layout, bytes, allocator->allocate(bytes), allocator)),
            layout);
  if (t.numel() > 0) NPU_EXEC(aclnnNpuFormatCast, t, blocks);
  return blocks;
}

at::Tensor in_order(const at::Tensor& t) {
  const DeviceGuard guard(t.device().index());
  return over(ordered_copy(t.storage(), *layout_of(t)), t.scalar_type(), t.sizes(), t.strides(), t.storage_offset());
}

void write_back(const at::Tensor& t, const at::Tensor& ordered) {
  const DeviceGuard guard(t.device().index());
  const auto& layout = *layout_of(t);
  NPU_EXEC(aclnnNpuFormatCast, whole(ordered.storage(), layout), whole(t.storage(), layout));
}

}  // namespace npu::formats
