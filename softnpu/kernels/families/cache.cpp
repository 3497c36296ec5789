#include "kernels/families/cache.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/accumulate.h>
#include <c10/util/irange.h>

#include "kernels/engine/bounds.h"
#include "kernels/engine/require.h"

namespace softnpu::kernels::cache {

namespace {

using require::that;

void integers(const Tensor& t, const char* text) {
  that(t.scalar_type() == at::kInt || t.scalar_type() == at::kLong, text);
}

// The sizes of `t`, but for one dimension, which may be shorter.
void fits(IntArrayRef part, IntArrayRef whole, int64_t axis, const char* text) {
  that(part.size() == whole.size(), text);
  for (const auto d : c10::irange(static_cast<int64_t>(whole.size())))
    that(d == axis ? part[d] <= whole[d] : part[d] == whole[d], text);
}

// (blocks, tokens of a block, rest of a token ...).
Tensor tokens_of(const Tensor& cache, std::string_view mode) { return mode == "PA_NZ" ? cache.transpose(1, 2) : cache; }

int64_t token_size(const Tensor& pages) { return c10::multiply_integers(pages.sizes().slice(2)); }

void check_mode(std::string_view mode) {
  that(mode.empty() || mode == "Norm" || mode == "PA_NZ", "argument 'cache_mode' is not one of Norm, PA_NZ");
}

}  // namespace

void scatter_update(Tensor& out, const Tensor& indices, const Tensor& updates, int64_t axis) {
  const int64_t dim = at::maybe_wrap_dim(axis, out.dim());
  const auto places = indices.to(at::kLong).flatten();
  bounds::within(places, "indices", 0, out.size(dim) - updates.size(dim));
  for (const auto i : c10::irange(updates.size(0)))
    out.select(0, i).narrow(dim - 1, places[i].item<int64_t>(), updates.size(dim)).copy_(updates.select(0, i));
}

void check_scatter_update(const Tensor& out, const Tensor& indices, const Tensor& updates, int64_t axis) {
  require::rank(out, "data", 2, 8);
  require::dimension(out, axis);
  const int64_t dim = at::maybe_wrap_dim(axis, out.dim());
  that(dim != 0, "argument 'axis' is the first dimension, which counts the sequences");
  fits(updates.sizes(), out.sizes(), dim, "updates has another shape than data, beside the axis");
  require::numbers(indices, "indices", updates.size(0));
  integers(indices, "indices is neither int32 nor int64");
}

void scatter_list(std::vector<Tensor>& out, const Tensor& indices, const Tensor& updates, const Optional& mask,
                  int64_t axis) {
  const auto places = indices.to(at::kLong).flatten();
  const int64_t length = updates.size(axis);
  for (const auto i : c10::irange(static_cast<int64_t>(out.size()))) {
    if (mask && !mask->flatten()[i].item<bool>()) continue;
    bounds::within(places[i], "indice", 0, out[i].size(axis) - length);
    out[i].narrow(axis, places[i].item<int64_t>(), length).copy_(updates.select(0, i));
  }
}

void check_scatter_list(const std::vector<Tensor>& out, const Tensor& indices, const Tensor& updates,
                        const Optional& mask, const std::string& reduce, int64_t axis) {
  const auto count = static_cast<int64_t>(out.size());
  that(reduce == "update", "argument 'reduce' is not update");
  that(axis == -1 || axis == -2, "argument 'axis' is neither -1 nor -2");
  that(updates.dim() > 2 && updates.size(0) == count, "updates has not one tensor for each of the list");
  for (const auto& t : out) {
    that(t.defined() && t.dim() + 1 == updates.dim(), "a tensor of the list has not one dimension less than updates");
    fits(updates.sizes().slice(1), t.sizes(), t.dim() + axis,
         "updates has another shape than the tensors of the list, beside the axis");
  }
  require::numbers(indices, "indice", count);
  require::numbers(mask, "mask", count);
  integers(indices, "indice is neither int32 nor int64");
}

void scatter_nd_update(Tensor& out, const Tensor& indices, const Tensor& updates) {
  c10::List<Optional> places;
  for (const auto d : c10::irange(indices.size(-1))) {
    const auto place = indices.select(-1, d).to(at::kLong);
    bounds::within(place, "indices", 0, out.size(d) - 1);
    places.push_back(place);
  }
  at::_index_put_impl_(out, places, updates.to(out.scalar_type()), false, false);
}

void check_scatter_nd_update(const Tensor& out, const Tensor& indices, const Tensor& updates) {
  require::rank(indices, "indices", 1, 8);
  const int64_t depth = indices.size(-1);
  that(depth > 0 && depth <= out.dim(), "the last size of indices is not one of 1 to the number of dimensions");
  auto sizes = indices.sizes().slice(0, indices.dim() - 1).vec();
  sizes.insert(sizes.end(), out.sizes().begin() + depth, out.sizes().end());
  require::shape(updates, "updates", sizes);
  integers(indices, "indices is neither int32 nor int64");
}

void scatter(Tensor& cache, const Tensor& tokens, const Tensor& slots, std::string_view mode) {
  auto pages = tokens_of(cache, mode);
  auto sizes = pages.sizes().vec();
  const int64_t block = sizes[1];
  bounds::within(slots, "slot_mapping", INT64_MIN, pages.size(0) * block - 1);
  auto places = slots.to(at::kLong).flatten();
  sizes.erase(sizes.begin());
  sizes[0] = places.numel();
  auto rows = tokens.reshape(sizes).to(cache.scalar_type());
  const auto there = places >= 0;
  if (!there.all().item<bool>()) {
    const auto kept = there.nonzero().squeeze(1);
    places = places.index_select(0, kept);
    rows = rows.index_select(0, kept);
  }
  c10::List<Optional> at_slots;
  at_slots.push_back(places.div(block, "floor"));
  at_slots.push_back(places.remainder(block));
  at::_index_put_impl_(pages, at_slots, rows, false, false);
}

void check_scatter(const Tensor& cache, const Tensor& tokens, const Tensor& slots, std::string_view mode) {
  check_mode(mode);
  require::rank(cache, "key_cache or value_cache", 3, 4);
  require::rank(tokens, "key or value", 2, 3);
  that(mode != "PA_NZ" || cache.dim() == 4, "a cache in mode PA_NZ has four dimensions");
  integers(slots, "slot_mapping is neither int32 nor int64");
  require::numbers(slots, "slot_mapping", tokens.size(0));
  const auto pages = tokens_of(cache, mode);
  that(pages.size(1) > 0 && tokens.numel() == tokens.size(0) * token_size(pages),
       "key_cache or value_cache has tokens of another size than key or value");
}

void gather(Tensor& out, const Tensor& cache, const Tensor& block_tables, const Tensor& seq_lens,
            const Optional& seq_offset, std::string_view mode, bool cumulative) {
  const auto pages = tokens_of(cache, mode);
  const int64_t block = pages.size(1), width = block_tables.size(1);
  const auto given = seq_lens.to(at::kLong).contiguous();
  const auto* const lengths = given.const_data_ptr<int64_t>();
  int64_t done = 0;
  for (const auto b : c10::irange(block_tables.size(0))) {
    const int64_t length = std::min(cumulative ? lengths[b + 1] - lengths[b] : lengths[b], out.size(0) - done);
    TORCH_CHECK(length >= 0, "argument 'seq_lens' has a negative length");
    if (length == 0) continue;
    const int64_t first = seq_offset ? seq_offset->flatten()[b].item<int64_t>() / block : 0;
    TORCH_CHECK(first >= 0, "argument 'seq_offset' has a negative number");
    const auto token = at::arange(length), entry = token.div(block, "floor") + first;
    const auto id = block_tables.select(0, b).to(at::kLong).index_select(0, entry.clamp_max(width - 1));
    const auto there = at::logical_and(at::logical_and(entry < width, id >= 0), id < pages.size(0));
    c10::List<Optional> places;
    places.push_back(id.clamp(0, pages.size(0) - 1));
    places.push_back(token.remainder(block));
    auto rows = at::index(pages, places).reshape({length, -1});
    rows.masked_fill_(at::logical_not(there).unsqueeze(1), 0);
    auto part = out.narrow(0, done, length);
    part.copy_(rows.reshape(part.sizes()));
    done += length;
  }
}

void check_gather(const Tensor& out, const Tensor& cache, const Tensor& block_tables, const Tensor& seq_lens,
                  const Optional& seq_offset, std::string_view mode, bool cumulative) {
  check_mode(mode);
  require::rank(cache, "key_cache or value_cache", 4, 4);
  require::rank(out, "key or value", 2, 3);
  require::rank(block_tables, "block_tables", 2, 2);
  const auto pages = tokens_of(cache, mode);
  that(pages.size(0) > 0 && pages.size(1) > 0 && block_tables.size(1) > 0, "a cache or block_tables is empty");
  that(out.numel() == out.size(0) * token_size(pages), "key or value has tokens of another size than its cache");
  require::numbers(seq_lens, "seq_lens", block_tables.size(0) + (cumulative ? 1 : 0));
  require::numbers(seq_offset, "seq_offset", block_tables.size(0));
}

}  // namespace softnpu::kernels::cache
