// What an operator requires of its arguments, stated in the tables under `require:` and checked in phase one. For the
// operators behind which ATen checks nothing, because its callers never pass anything else. A client gets 161002 and a
// sentence that names the argument.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>
#include <vector>

namespace softnpu::kernels::require {

using at::IntArrayRef;
using at::Tensor;
using Optional = std::optional<Tensor>;

void that(bool condition, const char* text);  // "self and other are on ..."

void entries(IntArrayRef list, const char* name, size_t count);
void rank(const Tensor& t, const char* name, int64_t least, int64_t most);
void shape(const Optional& t, const char* name, IntArrayRef sizes);  // a missing one has every shape
void like(const Optional& t, const char* name, const Tensor& other);
void numbers(const Optional& t, const char* name, int64_t count);  // of elements, in whatever shape
void one_type(std::initializer_list<Optional> tensors);            // floating, and the same for all
void dimension(const Tensor& t, int64_t dim);
void dimensions(const Tensor& t, IntArrayRef dims);  // at least one, each once

// Families.
void fft(const Tensor& self, IntArrayRef dim);
void last_sizes(const Tensor& t, const char* name, const Tensor& self, IntArrayRef last);  // self's, but for the last
void padded(const Tensor& t, const char* name, const Tensor& self, IntArrayRef padding, int64_t dims);
// Factors of interpolation do not lead behind the image; one that is not positive follows from the sizes.
void scaled(IntArrayRef from, IntArrayRef to, std::initializer_list<double> scales);
// `t` has the windows of `size` that unfold() makes of `sizes` along `dim`.
void windows(const Tensor& t, IntArrayRef sizes, int64_t dim, int64_t size, int64_t step);
void pool_gradient(const Tensor& grad, const Tensor& self, int64_t dims);
void channels(const Tensor& input, std::initializer_list<Optional> parameters);  // one number each for every channel
void normalized(const Tensor& input, IntArrayRef shape, std::initializer_list<Optional> parameters);
void cell(const Tensor& gates, const Tensor& state);  // four gates for each number of a state
void norm_statistics(const Tensor& input, IntArrayRef shape, std::initializer_list<Optional> statistics);
void groups(const Tensor& input, int64_t n, int64_t c, int64_t hxw, int64_t group,
            std::initializer_list<Optional> parameters, std::initializer_list<Optional> statistics);
// Segments along `axis`, by their lengths, or by offsets, which have one number more; and a result of theirs.
void segments(const Tensor& data, int64_t axis, const Optional& lengths, const Optional& offsets);
void segmented(const Tensor& output, const Tensor& data, int64_t axis, const Optional& lengths,
               const Optional& offsets);
void factor_pivots(const Tensor& t, const char* name, const Tensor& lu);  // one for each step of the factorisation
void lstm(const Tensor& output, const Tensor& workspace, const Tensor& hx, const Tensor& cx);
void distances(const Tensor& x1, const Tensor& x2, const Tensor& grad);
void integral_range(const Tensor& out, const at::Scalar& start, const at::Scalar& end, const at::Scalar& step);
void ctc(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
         int64_t blank);
void ctc_gradient(const Tensor& grad, const Tensor& log_probs, IntArrayRef target_lengths, const Tensor& loss,
                  const Tensor& log_alpha);  // beside what ctc() requires
void adamw(const Tensor& self, std::initializer_list<Optional> state);
void rms(const Tensor& x, const Tensor& gamma, const Optional& statistics);  // over the last dimensions, gamma's
void channel_groups(const Tensor& input, int64_t groups, std::initializer_list<Optional> parameters,
                    std::initializer_list<Optional> statistics);
void halves(const Tensor& t, int64_t dim, std::initializer_list<Optional> each);  // tensors of the shape of a half
void whole_rows(IntArrayRef sizes, IntArrayRef rows);  // each size in rows of one length; 0 rows for none
// Lists of one length whose elements fit; those of a single number, such as steps, come last.
void optimizer(std::initializer_list<const std::vector<Tensor>*> lists, const std::vector<Tensor>* steps,
               std::initializer_list<Optional> single);

}  // namespace softnpu::kernels::require
