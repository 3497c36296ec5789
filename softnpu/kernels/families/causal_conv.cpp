#include "kernels/families/causal_conv.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "kernels/engine/require.h"

namespace softnpu::kernels {

namespace {

Tensor f32(const Tensor& t) { return t.to(at::kFloat); }

// `rows` has width - 1 tokens more than the result, in front.
Tensor windows(const Tensor& rows, const Tensor& weight) {
  const int64_t count = rows.size(0) - weight.size(0) + 1;
  auto result = at::zeros_like(rows.narrow(0, 0, count));
  for (int64_t k = 0; k < weight.size(0); k++) result.addcmul_(rows.narrow(0, k, count), weight[k]);
  return result;
}

Tensor behind_zeros(const Tensor& rows, int64_t count) {
  auto sizes = rows.sizes().vec();
  sizes[0] = count;
  return at::cat({at::zeros(sizes, rows.options()), rows});
}

// mask [batch, sequence] for [sequence, batch, channels].
Tensor masked(const Tensor& t, const Optional& mask) { return mask ? t * mask->t().unsqueeze(-1).to(at::kFloat) : t; }

int64_t number(const Optional& list, int64_t i) { return (*list)[i].item<int64_t>(); }

// One sequence: what precedes it, with `offset` tokens in front that the windows do not see.
struct Sequence {
  int64_t read, write, offset;
  bool fresh;
};

}  // namespace

void masked_conv(Tensor& out, const Tensor& input, const Tensor& weight, const Optional& mask) {
  out.copy_(masked(windows(behind_zeros(f32(input), weight.size(0) - 1), f32(weight)), mask));
}

void masked_conv_backward(Tensor& grad_input, Tensor& grad_weight, const Tensor& grad_out, const Tensor& input,
                          const Tensor& weight, const Optional& mask) {
  const int64_t width = weight.size(0), length = input.size(0);
  const auto g = masked(f32(grad_out), mask), rows = behind_zeros(f32(input), width - 1), w = f32(weight);
  auto d_rows = at::zeros_like(rows);
  std::vector<Tensor> d_weight;
  for (int64_t k = 0; k < width; k++) {
    d_rows.narrow(0, k, length).addcmul_(g, w[k]);
    d_weight.push_back((g * rows.narrow(0, k, length)).sum({0, 1}));
  }
  grad_input.copy_(d_rows.narrow(0, width - 1, length));
  grad_weight.copy_(at::stack(d_weight));
}

void fused_conv(const Tensor& y, const Tensor& x, const Tensor& weight, Tensor& states, const FusedConv& o) {
  const int64_t before = weight.size(0) - 1, capacity = states.size(1);
  const bool blocks = o.lines && o.lines->dim() == 2;
  const int64_t batch = x.dim() == 3 ? x.size(0) : o.starts->size(0) - 1;
  const auto w = f32(weight);
  for (int64_t i = 0; i < batch; i++) {
    Sequence s{i, i, 0, o.computed && number(o.computed, i) == 0};
    if (blocks) {
      s.read = (*o.lines)[i][number(o.initial_block, i)].item<int64_t>();
      s.write = (*o.lines)[i][number(o.last_block, i)].item<int64_t>();
    } else if (o.lines) {
      s.read = s.write = number(o.lines, i);
    }
    if (o.lines && s.read == o.pad) continue;
    if (!s.fresh) s.offset = o.accepted ? number(o.accepted, i) - 1 : capacity - before;
    const int64_t begin = x.dim() == 3 ? 0 : number(o.starts, i);
    const int64_t length = x.dim() == 3 ? x.size(1) : number(o.starts, i + 1) - begin;
    const auto part = [&](const Tensor& t) { return (t.dim() == 3 ? t[i] : t).narrow(0, begin, length); };
    const auto tokens = f32(part(x));
    const auto past = s.fresh ? at::zeros({before, x.size(-1)}, tokens.options())
                              : f32(states[s.read].narrow(0, 0, s.offset + before));
    const auto all = at::cat({past, tokens}), seen = all.narrow(0, s.offset, before + length);
    const int64_t kept = std::min(capacity, all.size(0));
    states[s.write].narrow(0, capacity - kept, kept).copy_(all.narrow(0, all.size(0) - kept, kept));
    if (blocks) {
      const int64_t first = number(o.first_block, i), filled = number(o.last_block, i) - first, size = o.block_size;
      const int64_t left = size - number(o.computed, i) % size;     // until the first block is full
      const int64_t rest = ((length - left) % size + size) % size;  // behind the last full one
      const int64_t last = rest == 0 ? length - size : length - rest;
      for (int64_t chunk = 0; chunk < filled; chunk++)
        states[(*o.lines)[i][first + chunk].item<int64_t>()]
            .narrow(0, capacity - before, before)
            .copy_(seen.narrow(0, last - (filled - chunk - 1) * size, before));
    }
    auto result = windows(seen, w);
    if (o.reset) {
      const int64_t zeros = std::min(std::max<int64_t>(before - number(o.computed, i), 0), length);
      result.narrow(0, 0, zeros).zero_();
    }
    part(y).copy_(o.residual ? result + tokens : result);
  }
}

namespace require {

void masked_conv(const Tensor& input, const Tensor& weight, const Optional& mask) {
  rank(input, "input", 3, 3);
  rank(weight, "weight", 2, 2);
  that(weight.size(0) >= 1 && weight.size(1) == input.size(2), "weight is [width, channels of input]");
  shape(mask, "mask", {input.size(1), input.size(0)});
}

void fused_conv(const Tensor& x, const Tensor& weight, const Tensor& states, const Optional& starts,
                const Optional& lines, const Optional& computed, const Optional& first_block,
                const Optional& last_block, const Optional& initial_block, int64_t block_size, int64_t mode) {
  rank(x, "x", 2, 3);
  rank(weight, "weight", 2, 2);
  rank(states, "conv_states", 3, 3);
  that(weight.size(0) >= 1 && weight.size(1) == x.size(-1), "weight is [width, channels of x]");
  that(states.size(2) == x.size(-1) && states.size(1) >= weight.size(0) - 1,
       "conv_states is [slots, at least width - 1, channels of x]");
  that(x.dim() == 3 || (starts && starts->dim() == 1 && starts->size(0) >= 1), "query_start_loc is given");
  const int64_t batch = x.dim() == 3 ? x.size(0) : starts->size(0) - 1;
  for (const auto& each : {computed, first_block, last_block, initial_block}) numbers(each, "a list", batch);
  that(!lines || ((lines->dim() == 1 || lines->dim() == 2) && lines->size(0) == batch),
       "cache_indices has a line for each sequence");
  that(!lines || lines->dim() == 1 || (computed && first_block && last_block && initial_block && block_size >= 2),
       "cache_indices of two dimensions come with the tensors of prefix caching");
  that(mode == 0 || computed, "conv_mode 1 comes with num_computed_tokens");
}

}  // namespace require

}  // namespace softnpu::kernels
