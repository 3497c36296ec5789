#include "kernels/engine/format.h"

#include <ATen/ops/constant_pad_nd.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

#include "aclnn.h"
#include "kernels/engine/dtypes.h"
#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr int64_t kRows = 16, kBlockBytes = 32;

int64_t blocks(int64_t elements, int64_t block) { return elements / block + (elements % block != 0); }

bool dense(at::IntArrayRef sizes, at::IntArrayRef strides) {
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

// The blocks of `stored` as a tensor whose last dimensions are those of `sizes`, rounded up.
at::Tensor in_order(const at::Tensor& stored, aclFormat format) {
  const int64_t d = stored.dim();
  if (format == ACL_FORMAT_NC1HWC0) return stored.permute({0, 1, 4, 2, 3});  // N, C1, C0, H, W
  std::vector<int64_t> order(d);
  for (int64_t i = 0; i < d - 4; i++) order[i] = i;
  order[d - 4] = d - 3, order[d - 3] = d - 2, order[d - 2] = d - 4, order[d - 1] = d - 1;  // m1, m0, n1, n0
  return stored.permute(order);
}

std::vector<int64_t> rounded(const at::Tensor& ordered, aclFormat format) {
  const auto s = ordered.sizes();
  if (format == ACL_FORMAT_NC1HWC0) return {s[0], s[1] * s[2], s[3], s[4]};
  std::vector<int64_t> sizes(s.begin(), s.end() - 4);
  sizes.push_back(s[s.size() - 4] * s[s.size() - 3]);
  sizes.push_back(s[s.size() - 2] * s[s.size() - 1]);
  return sizes;
}

}  // namespace

bool is_private(aclFormat format) { return format == ACL_FORMAT_FRACTAL_NZ || format == ACL_FORMAT_NC1HWC0; }

std::vector<int64_t> stored_sizes(aclFormat format, at::IntArrayRef sizes, int64_t c0) {
  const size_t d = sizes.size();
  if (c0 <= 0) fail(ACLNN_ERR_PARAM_INVALID, "blocks of %lld elements", static_cast<long long>(c0));
  if (format == ACL_FORMAT_NC1HWC0) {
    if (d != 4) fail(ACLNN_ERR_PARAM_INVALID, "a tensor of %zu dimensions cannot be stored as NC1HWC0, which has 4", d);
    return {sizes[0], blocks(sizes[1], c0), sizes[2], sizes[3], c0};
  }
  if (format != ACL_FORMAT_FRACTAL_NZ) fail(ACLNN_ERR_PARAM_INVALID, "this device does not store format %d", format);
  if (d < 2) fail(ACLNN_ERR_PARAM_INVALID, "a tensor of %zu dimensions cannot be stored as FRACTAL_NZ", d);
  std::vector<int64_t> stored(sizes.begin(), sizes.end() - 2);
  stored.insert(stored.end(), {blocks(sizes[d - 1], c0), blocks(sizes[d - 2], kRows), kRows, c0});
  return stored;
}

std::vector<int64_t> base_sizes(const aclTensor& t) {
  const int64_t c0 = t.storage_sizes.empty() ? 0 : t.storage_sizes.back();
  std::vector<int64_t> sizes = t.sizes, strides = t.strides;
  const size_t d = sizes.size();
  for (int transposed = 0; transposed < 2 && t.offset == 0; transposed++) {
    if (dense(sizes, strides) && stored_sizes(t.format, sizes, c0) == t.storage_sizes) return sizes;
    if (d < 2) break;
    std::swap(sizes[d - 1], sizes[d - 2]);
    std::swap(strides[d - 1], strides[d - 2]);
  }
  fail(ACLNN_ERR_PARAM_INVALID, "a tensor in format %d is neither the whole of its storage nor the transpose",
       t.format);
}

void Formatted::unpack() {
  auto* storage = plain.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::GetCPUAllocator()->allocate(storage->nbytes()));
  const auto ordered = in_order(stored, format);
  auto whole = ordered.reshape(rounded(ordered, format));
  for (int64_t d = 0; d < plain.dim(); d++) whole = whole.narrow(d, 0, plain.size(d));
  plain.copy_(whole);
}

void Formatted::pack() {
  if (!written) return;
  const auto ordered = in_order(stored, format);
  const auto sizes = rounded(ordered, format);
  std::vector<int64_t> padding;
  for (int64_t d = plain.dim(); d-- > 0;) padding.insert(padding.end(), {0, sizes[d] - plain.size(d)});
  ordered.copy_(at::constant_pad_nd(plain, padding).view(ordered.sizes()));
}

void Formatted::release() {
  plain.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, c10::kCPU));
}

}  // namespace softnpu::kernels

// How large the storage of a tensor is in another format. The caller frees *sizes with delete[].
extern "C" __attribute__((visibility("default"))) int aclnnNpuFormatCastCalculateSizeAndFormat(
    const aclTensor* source, int format, int type, int64_t** sizes, uint64_t* count, int* actual) {
  using namespace softnpu;
  using namespace softnpu::kernels;
  return guard("aclnnNpuFormatCastCalculateSizeAndFormat", [&] {
    if (!sizes || !count || !actual) fail(ACLNN_ERR_PARAM_NULLPTR, "an output argument is NULL");
    const Held<aclTensor> t(source);
    if (!t) fail(ACLNN_ERR_PARAM_NULLPTR, "source is no live tensor");
    const auto target = static_cast<aclFormat>(format);
    const auto base = is_private(t->format) ? base_sizes(*t) : t->sizes;
    std::vector<int64_t> stored = base;
    if (is_private(target)) {
      // A row of a block has 32 bytes of numbers of the type that the caller names.
      const auto bytes = static_cast<int64_t>(item_size(static_cast<aclDataType>(type)));
      stored = stored_sizes(target, base, bytes ? kBlockBytes / std::min(bytes, kBlockBytes) : 2 * kBlockBytes);
    } else if (target != ACL_FORMAT_ND && target != ACL_FORMAT_NCHW && target != ACL_FORMAT_NCDHW) {
      fail(ACLNN_ERR_PARAM_INVALID, "this device does not store format %d", format);
    }
    *sizes = new int64_t[stored.size()];
    std::copy(stored.begin(), stored.end(), *sizes);
    *count = stored.size();
    *actual = format;
  });
}
