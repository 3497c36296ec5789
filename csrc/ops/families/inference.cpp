#include "ops/families/inference.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace npu::ops {

namespace {

using results::Dims;
using results::Result;

struct Layout {
  std::string_view name, in, out;
};
constexpr Layout kLayouts[] = {
    {"BSH", "BSH", "BSH"},         {"BSND", "BSND", "BSND"},      {"BNSD", "BNSD", "BNSD"},
    {"TND", "TND", "TND"},         {"NTD", "NTD", "NTD"},         {"NSD", "NSD", "NSD"},
    {"BNSD_BSND", "BNSD", "BSND"}, {"BSH_BNSD", "BSH", "BNSD"},   {"BSND_BNSD", "BSND", "BNSD"},
    {"NTD_TND", "NTD", "TND"},     {"TND_NTD", "TND", "NTD"},     {"BSH_NBSD", "BSH", "NBSD"},
    {"BSND_NBSD", "BSND", "NBSD"}, {"BNSD_NBSD", "BNSD", "NBSD"},
};

const Layout* find(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& l) { return l.name == name; });
  return found == std::end(kLayouts) ? nullptr : found;
}

bool ragged(const Layout& layout) { return layout.in == "TND" || layout.in == "NTD"; }

// The length of dimension `letter` of the query, where the layout has it: B, S or T.
c10::SymInt along(const Tensor& query, std::string_view layout, char letter) {
  const auto at = layout.find(letter);
  return at == std::string_view::npos ? c10::SymInt(1) : query.sym_size(static_cast<int64_t>(at));
}

}  // namespace

std::optional<c10::IntArrayRef> ints(const at::OptionalSymIntArrayRef& lengths) {
  if (!lengths.has_value()) return std::nullopt;
  return C10_AS_INTARRAYREF_SLOW(*lengths);
}

void check_attention(const char* op, const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                     int64_t kv_heads, bool paged) {
  const auto* found = find(layout);
  std::string all;
  for (const auto& each : kLayouts) all += (all.empty() ? "" : ", ") + std::string(each.name);
  TORCH_CHECK(found, op, ": input_layout is \"", layout, "\", expected one of ", all);
  TORCH_CHECK_NOT_IMPLEMENTED(!c10::isFloat8Type(query.scalar_type()), op, " does not support a query of ",
                              query.scalar_type(), ": use float16, bfloat16 or int8");
  const int64_t rank = static_cast<int64_t>(found->in.size());
  TORCH_CHECK(query.dim() == rank, op, ": query has ", query.dim(), " dimensions, expected ", rank,
              " for input_layout ", layout);
  TORCH_CHECK(heads > 0 && kv_heads >= 0 && (kv_heads == 0 || heads % kv_heads == 0), op, ": ", heads,
              " heads of the query do not divide into ", kv_heads, " of keys and values");
  const int64_t least = paged ? 3 : rank, most = paged ? 5 : rank;
  TORCH_CHECK(value.dim() >= least && value.dim() <= most, op, ": value has ", value.dim(), " dimensions, expected ",
              least, paged ? " to 5 for a paged cache" : " as query");
}

void check_lengths(const char* op, std::string_view layout, bool queries, bool keys, bool paged) {
  const auto* found = find(layout);
  TORCH_CHECK(!found || !ragged(*found) || (queries && keys), op, ": input_layout ", layout,
              " needs the ends of the sequences of query and key, one each per sequence");
  TORCH_CHECK(!paged || keys, op, ": a paged cache needs the length of each sequence of keys");
}

void check_absent(const char* op, std::initializer_list<std::pair<const char*, bool>> given) {
  for (const auto& [name, is_given] : given)
    TORCH_CHECK_NOT_IMPLEMENTED(!is_given, op, " does not support ", name, "; leave it out");
}

void check_ranks(const char* op, std::initializer_list<std::tuple<const char*, const Tensor&, int64_t>> tensors) {
  for (const auto& [name, t, rank] : tensors)
    TORCH_CHECK(t.dim() == rank, op, ": ", name, " has ", t.dim(), " dimensions, expected ", rank);
}

void check_heads(const char* op, const Tensor& qkv, c10::IntArrayRef qkv_size, c10::IntArrayRef head_nums) {
  TORCH_CHECK(qkv_size.size() == 4, op, ": qkv_size has ", qkv_size.size(),
              " numbers, expected batch, length, heads and size");
  TORCH_CHECK(head_nums.size() == 3, op, ": head_nums has ", head_nums.size(),
              " numbers, expected those of query, key and value");
  const int64_t row = (head_nums[0] + head_nums[1] + head_nums[2]) * qkv_size[3];
  TORCH_CHECK(qkv.sym_size(1) == row, op, ": qkv has rows of ", qkv.sym_size(1), " numbers, expected ", row,
              " by head_nums and qkv_size");
}

void check_results(const char* op, at::TensorList out, size_t count) {
  TORCH_CHECK(out.size() == count, op, ": out has ", out.size(), " tensors, expected ", count);
}

Result attention_result(const Tensor& query, const Tensor& value, std::string_view layout, int64_t heads,
                        int64_t kv_heads, bool paged, at::ScalarType type) {
  const auto& found = *find(layout);
  const bool joined = value.dim() == 3 && (paged || found.in == "BSH");  // heads in one dimension
  c10::SymInt size = value.dim() == 5 ? value.sym_size(2) * value.sym_size(4) : value.sym_size(-1);
  if (joined) size = size / (kv_heads ? kv_heads : heads);
  if (value.scalar_type() == at::kInt) size = size * 8;  // int4 numbers, packed
  Dims sizes;
  for (const char letter : found.out) {
    if (letter == 'H')
      sizes.push_back(size * heads);
    else if (letter == 'N')
      sizes.push_back(found.in == "BSH" ? c10::SymInt(heads) : along(query, found.in, 'N'));
    else
      sizes.push_back(letter == 'D' ? size : along(query, found.in, letter));
  }
  return {std::move(sizes), type};
}

at::ScalarType attention_type(const Tensor& query, const std::optional<Tensor>& quant_scale,
                              const std::optional<Tensor>& query_rope) {
  if (quant_scale) return at::kChar;
  if (query.scalar_type() != at::kChar) return query.scalar_type();
  return query_rope ? query_rope->scalar_type() : at::kHalf;
}

Result attention_sums(bool wanted, const Tensor& query, std::string_view layout, int64_t heads) {
  if (!wanted) return results::none(at::kFloat);
  const auto in = find(layout)->in;
  if (in.find('T') != std::string_view::npos) return {{along(query, in, 'T'), heads, 1}, at::kFloat};
  return {{along(query, in, 'B'), heads, along(query, in, 'S'), 1}, at::kFloat};
}

void check_prolog(const char* op, const Tensor& token_x, const Tensor& weight_uk, const Tensor& rope_sin) {
  TORCH_CHECK(token_x.dim() == 2 || token_x.dim() == 3, op, ": token_x has ", token_x.dim(),
              " dimensions, expected 2 or 3");
  TORCH_CHECK(weight_uk.dim() == 3, op, ": weight_uk has ", weight_uk.dim(), " dimensions, expected 3");
  TORCH_CHECK(rope_sin.dim() == token_x.dim(), op, ": rope_sin has ", rope_sin.dim(), " dimensions, expected ",
              token_x.dim(), " as token_x");
}

void check_prolog_modes(const char* op, int64_t weight_mode, int64_t cache_mode) {
  TORCH_CHECK(weight_mode >= 0 && weight_mode <= 2, op, ": weight_quant_mode is ", weight_mode, ", expected 0 to 2");
  TORCH_CHECK(cache_mode >= 0 && cache_mode <= 3, op, ": kv_cache_quant_mode is ", cache_mode, ", expected 0 to 3");
}

namespace {

Result for_heads(const Tensor& token_x, const c10::SymInt& heads, const c10::SymInt& size, at::ScalarType type) {
  Dims sizes = results::dims(token_x);
  sizes.back() = heads;
  sizes.push_back(size);
  return {std::move(sizes), type};
}

}  // namespace

Result prolog_query(const Tensor& token_x, const Tensor& weight_uk, bool quantised, at::ScalarType otherwise) {
  return for_heads(token_x, weight_uk.sym_size(0), weight_uk.sym_size(2), quantised ? at::kChar : otherwise);
}

Result prolog_rope(const Tensor& token_x, const Tensor& weight_uk, const Tensor& rope_sin) {
  return for_heads(token_x, weight_uk.sym_size(0), rope_sin.sym_size(-1), at::kBFloat16);
}

Result prolog_scale(const Tensor& token_x, const Tensor& weight_uk, bool quantised, int64_t otherwise) {
  if (!quantised) return {{otherwise}, at::kFloat};
  c10::SymInt tokens = token_x.sym_size(0);
  if (token_x.dim() == 3) tokens = tokens * token_x.sym_size(1);
  return {{tokens, weight_uk.sym_size(0), 1}, at::kFloat};
}

std::vector<Tensor> copies(at::TensorList list) {
  std::vector<Tensor> made;
  for (const auto& t : list) made.push_back(t.clone(at::MemoryFormat::Contiguous));
  return made;
}

}  // namespace npu::ops
