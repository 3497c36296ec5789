#include "kernels/engine/descriptors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "kernels/engine/format.h"
#include "runtime/address.h"
#include "runtime/error.h"

namespace softnpu::kernels {

namespace {

constexpr size_t kMostDimensions = 8;
// The official client splits at 12 to 50 tensors over all lists, by operator, and at 250 gradients to be unscaled.
constexpr size_t kMostListed = 50, kMostUnscaled = 250;

struct Format {
  aclFormat format;
  const char* name;
};

Format format_of_rank(size_t rank) {
  switch (rank) {
    case 3:
      return {ACL_FORMAT_NCL, "ACL_FORMAT_NCL"};
    case 4:
      return {ACL_FORMAT_NCHW, "ACL_FORMAT_NCHW"};
    case 5:
      return {ACL_FORMAT_NCDHW, "ACL_FORMAT_NCDHW"};
    default:
      return {ACL_FORMAT_ND, "ACL_FORMAT_ND"};
  }
}

// Whether elements lie apart: in the order of their strides each dimension steps over all of the one before.
bool overlaps_itself(const aclTensor& t) {
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (size_t d = 0; d < t.sizes.size(); d++) {
    if (t.sizes[d] == 0) return false;
    if (t.sizes[d] > 1) steps.emplace_back(t.strides[d], t.sizes[d]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

}  // namespace

void check_descriptor(std::string_view argument, const aclTensor& t, bool written) {
  const int length = static_cast<int>(argument.size());
  const char* const name = argument.data();
  const size_t rank = t.sizes.size();
  if (rank > kMostDimensions)
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%.*s' has %zu dimensions, a card takes at most %zu: reshape it (SOFTNPU_STRICT)", length, name,
         rank, kMostDimensions);
  const Format expected = format_of_rank(rank);
  if (!is_private(t.format) && t.format != expected.format)
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%.*s' of %zu dimensions is described in format %d; give aclCreateTensor %s (SOFTNPU_STRICT)",
         length, name, rank, t.format, expected.name);
  // A tensor without elements may be a part of anything.
  const bool empty = std::find(t.sizes.begin(), t.sizes.end(), 0) != t.sizes.end();
  if (!empty && t.offset >= t.storage_elements)
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%.*s' begins at element %lld of a storage of %lld; give aclCreateTensor the storage's own sizes "
         "(SOFTNPU_STRICT)",
         length, name, static_cast<long long>(t.offset), static_cast<long long>(t.storage_elements));
  const size_t item = item_size(t.dtype);  // 0: numbers of four bits
  const size_t bytes = item ? t.storage_elements * item : t.storage_elements / 2;
  if (t.data && item && reinterpret_cast<uintptr_t>(t.data) % item)
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%.*s' lies at %p, which is not aligned to its type's %zu bytes: pass the start of the storage, "
         "and the rest as offset (SOFTNPU_STRICT)",
         length, name, t.data, item);
  if (bytes) check_allocated(t.data, bytes, -1, ("the storage of argument '" + std::string(argument) + "'").c_str());
  if (written && overlaps_itself(t))
    fail(ACLNN_ERR_PARAM_INVALID,
         "argument '%.*s' is written and has elements that share memory: give it strides that keep them apart "
         "(SOFTNPU_STRICT)",
         length, name);
}

void check_list_lengths(const Call& call) {
  const std::string_view op = call.op.name;
  if (!op.starts_with("aclnnForeach")) return;
  const size_t most = op == "aclnnForeachNonFiniteCheckAndUnscale" ? kMostUnscaled : kMostListed;
  std::set<const void*> listed;  // in-place lists come twice
  for (size_t i = 0; i < call.values.size(); i++) {
    const auto* list = std::get_if<std::vector<Tensor>>(&call.values[i]);
    if (!list) continue;
    for (const Tensor& t : *list)
      if (t.defined()) listed.insert(t.numel() ? t.const_data_ptr() : &t);
    if (listed.size() <= most) continue;
    const auto name = call.argument(i);
    fail(ACLNN_ERR_PARAM_INVALID,
         "with argument '%.*s' the call has more than %zu tensors in its lists: split them into several calls "
         "(SOFTNPU_STRICT)",
         static_cast<int>(name.size()), name.data(), most);
  }
}

}  // namespace softnpu::kernels
