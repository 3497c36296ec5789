#include "kernels/engine/require.h"

#include <c10/util/accumulate.h>

#include <set>
#include <sstream>

#include "acl_types.h"
#include "runtime/error.h"

namespace softnpu::kernels::require {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Failure(ACLNN_ERR_PARAM_INVALID, text.str());
}

bool given(const Optional& t) { return t && t->defined(); }

void floating(const Tensor& t, const char* name) {
  if (!t.is_floating_point()) refuse("argument '", name, "' is ", t.scalar_type(), ", expected a floating type");
}

}  // namespace

void that(bool condition, const char* text) {
  if (!condition) refuse(text);
}

void entries(IntArrayRef list, const char* name, size_t count) {
  if (list.size() != count) refuse("argument '", name, "' has ", list.size(), " entries, expected ", count);
}

void rank(const Tensor& t, const char* name, int64_t least, int64_t most) {
  if (t.dim() < least || t.dim() > most)
    refuse("argument '", name, "' has ", t.dim(), " dimensions, expected ", least, " to ", most);
}

void shape(const Optional& t, const char* name, IntArrayRef sizes) {
  if (given(t) && t->sizes() != sizes) refuse("argument '", name, "' has shape ", t->sizes(), ", expected ", sizes);
}

void like(const Optional& t, const char* name, const Tensor& other) { shape(t, name, other.sizes()); }

void numbers(const Optional& t, const char* name, int64_t count) {
  if (given(t) && t->numel() != count) refuse("argument '", name, "' has ", t->numel(), " elements, expected ", count);
}

void one_type(std::initializer_list<Optional> tensors) {
  std::optional<at::ScalarType> type;
  for (const auto& t : tensors) {
    if (!given(t)) continue;
    if (!type) type = t->scalar_type();
    if (t->scalar_type() != *type)
      refuse("the tensors have types ", *type, " and ", t->scalar_type(), ", expected one floating type");
    if (!t->is_floating_point() && !t->is_complex()) refuse("not implemented for '", *type, "'");
  }
}

void dimension(const Tensor& t, int64_t dim) {
  const int64_t rank = std::max<int64_t>(t.dim(), 1);
  if (dim < -rank || dim >= rank) refuse("dimension ", dim, " is out of range for ", t.dim(), " dimensions");
}

void dimensions(const Tensor& t, IntArrayRef dims) {
  if (dims.empty()) refuse("argument 'dim' is empty");
  std::set<int64_t> seen;
  for (int64_t dim : dims) {
    if (t.dim() == 0 || dim < -t.dim() || dim >= t.dim())
      refuse("dimension ", dim, " is out of range for ", t.dim(), " dimensions");
    if (!seen.insert(dim < 0 ? dim + t.dim() : dim).second) refuse("dimension ", dim, " is listed twice");
  }
}

void fft(const Tensor& self, IntArrayRef dim) {
  dimensions(self, dim);
  for (int64_t d : dim) that(d >= 0, "argument 'dim' has a negative entry");
  if (self.numel() == 0) refuse("argument 'self' has no elements");
}

void last_sizes(const Tensor& t, const char* name, const Tensor& self, IntArrayRef last) {
  auto sizes = self.sizes().vec();
  if (sizes.size() < last.size()) refuse("argument 'self' has ", sizes.size(), " dimensions");
  std::copy(last.begin(), last.end(), sizes.end() - static_cast<std::ptrdiff_t>(last.size()));
  shape(t, name, sizes);
}

void padded(const Tensor& t, const char* name, const Tensor& self, IntArrayRef padding, int64_t dims) {
  entries(padding, "padding", 2 * dims);
  rank(self, "self", dims + 1, dims + 2);
  std::vector<int64_t> last(dims);
  for (int64_t i = 0; i < dims; i++) {  // the list begins with the last dimension
    const int64_t d = dims - 1 - i;
    if (__builtin_add_overflow(self.size(d - dims), padding[2 * i], &last[d]) ||
        __builtin_add_overflow(last[d], padding[2 * i + 1], &last[d]))
      refuse("argument 'padding' is ", padding);
  }
  last_sizes(t, name, self, last);
}

void scaled(IntArrayRef from, IntArrayRef to, std::initializer_list<double> scales) {
  const size_t dims = scales.size();
  entries(to, "output_size", dims);
  if (from.size() < dims) refuse("the image has ", from.size(), " dimensions, expected at least ", dims);
  for (size_t i = 0; i < dims; i++) {
    const double scale = scales.begin()[i];
    const int64_t size = from[from.size() - dims + i];
    if (scale > 0 && (static_cast<double>(to[i]) - 0.5) / scale >= static_cast<double>(size))
      refuse("a scale of ", scale, " does not lead from the size ", size, " to ", to[i]);
  }
}

void windows(const Tensor& t, IntArrayRef sizes, int64_t dim, int64_t size, int64_t step) {
  const int64_t rank = std::max<int64_t>(static_cast<int64_t>(sizes.size()), 1);
  if (dim < -rank || dim >= rank) refuse("dimension ", dim, " is out of range for ", sizes.size(), " dimensions");
  if (dim < 0) dim += rank;
  const int64_t whole = sizes.empty() ? 1 : sizes[dim];  // a single number is a row of one
  if (size < 0 || size > whole) refuse("argument 'size' is ", size, ", expected 0 to ", whole);
  if (step <= 0) refuse("argument 'step' is ", step, ", expected a positive number");
  auto expected = sizes.vec();
  if (!sizes.empty()) expected[dim] = (whole - size) / step + 1;
  expected.push_back(size);
  shape(t, "grad_in", expected);
}

void pool_gradient(const Tensor& grad, const Tensor& self, int64_t dims) {
  rank(self, "self", dims + 1, dims + 2);
  if (grad.dim() != self.dim()) refuse("argument 'grad_output' has ", grad.dim(), " dimensions, 'self' ", self.dim());
  last_sizes(grad, "grad_output", self, grad.sizes().slice(grad.dim() - dims));
  for (int64_t d = 1; d <= dims; d++) that(grad.size(-d) > 0 && self.size(-d) > 0, "an image has a size of 0");
  one_type({grad, self});
}

void channels(const Tensor& input, std::initializer_list<Optional> parameters) {
  rank(input, "input", 2, 64);
  for (const auto& p : parameters) shape(p, "weight, bias or statistics", {input.size(1)});
}

void normalized(const Tensor& input, IntArrayRef shape, std::initializer_list<Optional> parameters) {
  const size_t rank = input.dim();
  if (shape.empty() || shape.size() > rank || input.sizes().slice(rank - shape.size()) != shape)
    refuse("argument 'normalized_shape' is ", shape, ", which are not the last sizes of ", input.sizes());
  for (const auto& p : parameters) require::shape(p, "weight or bias", shape);
}

void cell(const Tensor& gates, const Tensor& state) {
  rank(state, "state", 2, 2);
  shape(gates, "gates", {state.size(0), 4 * state.size(1)});
}

void norm_statistics(const Tensor& input, IntArrayRef shape, std::initializer_list<Optional> statistics) {
  const int64_t width = c10::multiply_integers(shape);
  for (const auto& s : statistics) numbers(s, "mean or rstd", width ? input.numel() / width : 0);
}

void groups(const Tensor& input, int64_t n, int64_t c, int64_t hxw, int64_t group,
            std::initializer_list<Optional> parameters, std::initializer_list<Optional> statistics) {
  int64_t elements;
  if (n < 0 || c <= 0 || hxw < 0 || group <= 0 || c % group != 0 || __builtin_mul_overflow(n, c, &elements) ||
      __builtin_mul_overflow(elements, hxw, &elements) || elements != input.numel())
    refuse("n ", n, ", c ", c, ", hxw ", hxw, " and group ", group, " do not fit ", input.sizes());
  for (const auto& p : parameters) numbers(p, "weight or bias", c);
  for (const auto& s : statistics) numbers(s, "mean or rstd", n * group);
}

void rms(const Tensor& x, const Tensor& gamma, const Optional& statistics) {
  floating(x, "x");
  floating(gamma, "gamma");
  rank(x, "x", 1, 8);
  rank(gamma, "gamma", 1, x.dim());
  normalized(x, gamma.sizes(), {});
  norm_statistics(x, gamma.sizes(), {statistics});
}

void channel_groups(const Tensor& input, int64_t group, std::initializer_list<Optional> parameters,
                    std::initializer_list<Optional> statistics) {
  rank(input, "input", 2, 64);
  const int64_t n = input.size(0), c = input.size(1);
  groups(input, n, c, input.numel() ? input.numel() / (n * c) : 0, group, parameters, statistics);
}

void halves(const Tensor& t, int64_t dim, std::initializer_list<Optional> each) {
  rank(t, "input", 1, 64);
  dimension(t, dim);
  auto sizes = t.sizes().vec();
  auto& length = sizes[dim < 0 ? dim + t.dim() : dim];
  if (length % 2 != 0) refuse("dimension ", dim, " of ", t.sizes(), " does not fall into two halves");
  length /= 2;
  for (const auto& half : each) shape(half, "of a half", sizes);
}

void segments(const Tensor& data, int64_t axis, const Optional& lengths, const Optional& offsets) {
  dimension(data, axis);
  rank(data, "data", 1, 64);
  that(given(lengths) || given(offsets), "arguments 'lengths' and 'offsets' are both NULL");
  if (axis < 0) axis += data.dim();
  const auto rows = [&](const Optional& t, const char* name, int64_t least) {
    if (!given(t)) return;
    rank(*t, name, axis + 1, axis + 1);
    auto sizes = data.sizes().slice(0, axis + 1).vec();
    sizes.back() = std::max(t->size(-1), least);
    shape(t, name, sizes);
  };
  rows(lengths, "lengths", 0);
  rows(offsets, "offsets", 1);
}

void segmented(const Tensor& output, const Tensor& data, int64_t axis, const Optional& lengths,
               const Optional& offsets) {
  auto sizes = data.sizes().vec();
  sizes[axis < 0 ? axis + data.dim() : axis] = given(lengths) ? lengths->size(-1) : offsets->size(-1) - 1;
  shape(output, "output", sizes);
}

void factor_pivots(const Tensor& t, const char* name, const Tensor& lu) {
  rank(lu, "lu", 2, 64);
  auto sizes = lu.sizes().slice(0, lu.dim() - 1).vec();
  sizes.back() = std::min(lu.size(-1), lu.size(-2));
  shape(t, name, sizes);
}

void lstm(const Tensor& output, const Tensor& workspace, const Tensor& hx, const Tensor& cx) {
  rank(output, "output", 3, 3);
  that(output.numel() > 0 && output.is_contiguous() && workspace.is_contiguous(), "output or workspace is not dense");
  shape(workspace, "workspace", {5, output.size(0), output.size(1), output.size(2)});
  numbers(hx, "hx", output.size(1) * output.size(2));
  numbers(cx, "cx", output.size(1) * output.size(2));
}

void distances(const Tensor& x1, const Tensor& x2, const Tensor& grad) {
  rank(x1, "x1", 2, 64);
  rank(x2, "x2", x1.dim(), x1.dim());
  last_sizes(x2, "x2", x1, {x2.size(-2), x1.size(-1)});
  last_sizes(grad, "grad", x1, {x1.size(-2), x2.size(-2)});
}

void integral_range(const Tensor& out, const at::Scalar& start, const at::Scalar& end, const at::Scalar& step) {
  if (!at::isIntegralType(out.scalar_type(), true)) return;
  int64_t length, by = 0;
  try {
    by = step.to<int64_t>();
    if (by != 0 && !__builtin_sub_overflow(end.to<int64_t>(), start.to<int64_t>(), &length) &&
        (by != -1 || length != INT64_MIN))
      return;
  } catch (const c10::Error&) {  // not a number of that type
  }
  refuse("start ", start, ", end ", end, " and step ", step, " make no range of ", out.scalar_type());
}

void ctc(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
         int64_t blank) {
  rank(log_probs, "log_probs", 3, 3);
  const int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  that(blank >= 0 && blank < classes, "blank is not one of the classes");
  entries(input_lengths, "input_lengths", batch);
  entries(target_lengths, "target_lengths", batch);
  int64_t longest = 0, all = 0;
  for (int64_t i = 0; i < batch; i++) {
    that(input_lengths[i] >= 0 && input_lengths[i] <= steps, "input_lengths has one that log_probs has not");
    that(target_lengths[i] >= 0 && target_lengths[i] <= targets.numel(), "target_lengths has one that targets has not");
    longest = std::max(longest, target_lengths[i]), all += target_lengths[i];
  }
  that(targets.dim() == 1 ? targets.numel() >= all
                          : targets.dim() == 2 && targets.size(0) == batch && targets.size(1) >= longest,
       "targets does not hold what target_lengths says");
}

void ctc_gradient(const Tensor& grad, const Tensor& log_probs, IntArrayRef target_lengths, const Tensor& loss,
                  const Tensor& log_alpha) {
  const int64_t steps = log_probs.size(0), batch = log_probs.size(1);
  shape(grad, "grad", {batch});
  shape(loss, "neg_log_likelihood", {batch});
  rank(log_alpha, "log_alpha", 3, 3);
  shape(log_alpha, "log_alpha", {batch, steps, log_alpha.size(2)});
  for (int64_t length : target_lengths) that(log_alpha.size(2) > 2 * length, "log_alpha is too short for the targets");
  one_type({grad, log_probs, loss, log_alpha});
}

void adamw(const Tensor& self, std::initializer_list<Optional> state) {
  that(self.is_non_overlapping_and_dense(), "self is not dense");
  for (const auto& t : state) {
    like(t, "a state or gradient", self);
    that(!given(t) || (t->is_non_overlapping_and_dense() && t->scalar_type() == self.scalar_type()),
         "a state or gradient is not dense, or has another type than self");
  }
}

void whole_rows(IntArrayRef sizes, IntArrayRef rows) {
  entries(rows, "rows", sizes.size());
  for (size_t i = 0; i < sizes.size(); i++)
    if (rows[i] < 0 || (rows[i] > 0 && sizes[i] % rows[i] != 0))
      refuse("argument 'rows' has ", rows[i], ", into which ", sizes[i], " elements do not fall");
}

void optimizer(std::initializer_list<const std::vector<Tensor>*> lists, const std::vector<Tensor>* steps,
               std::initializer_list<Optional> single) {
  const auto& params = **lists.begin();
  for (const auto* list : lists) {
    if (list->empty() && list != *(lists.begin() + 1)) continue;  // not kept by this optimiser
    if (list->size() != params.size()) refuse("a list has ", list->size(), " tensors, 'params' ", params.size());
    for (size_t i = 0; i < params.size(); i++) {
      const Tensor& t = (*list)[i];
      like(t, "an element of a list", params[i]);
      if (t.scalar_type() != params[i].scalar_type() || !t.is_non_overlapping_and_dense())
        refuse("element ", i, " of a list is not dense, or has another type than that of 'params'");
    }
  }
  if (steps && steps->size() != params.size())
    refuse("'steps' has ", steps->size(), " tensors, 'params' ", params.size());
  if (steps)
    for (const Tensor& step : *steps) {
      numbers(step, "an element of 'steps'", 1);
      if (step.scalar_type() != at::kFloat) refuse("an element of 'steps' is not float32");
    }
  for (const auto& t : single) numbers(t, "lr, grad_scale or found_inf", 1);
}

}  // namespace softnpu::kernels::require
