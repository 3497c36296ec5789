#include "kernels/families/legacy_boxes.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "kernels/families/dual.h"

namespace softnpu::kernels {

namespace {

constexpr double kTiny = 1e-9;
using Number = Dual<8>;  // by the four numbers of a box and of its ground truth

struct Box {
  Number x1, y1, x2, y2;
  Number width() const { return x2 - x1; }
  Number height() const { return y2 - y1; }
  Number area() const { return width() * height(); }
};

Number square(const Number& a) { return a * a; }

// The loss of a pair, and the difference of the angles.
std::pair<Number, Number> loss_of(const BoxLoss& loss, const Box& a, const Box& b) {
  const Number common =
      at_least(smaller(a.x2, b.x2) - larger(a.x1, b.x1), 0) * at_least(smaller(a.y2, b.y2) - larger(a.y1, b.y1), 0);
  const Number united = a.area() + b.area() - common;
  const Number ratio = common / at_least(loss.over_first ? a.area() : united, kTiny);
  const Box hull{smaller(a.x1, b.x1), smaller(a.y1, b.y1), larger(a.x2, b.x2), larger(a.y2, b.y2)};
  if (loss.kind == BoxLoss::giou) {
    const Number whole = at_least(hull.area(), kTiny);
    return {ratio - (whole - united) / whole, 0};
  }
  const Number dx = (a.x1 + a.x2 - b.x1 - b.x2) / 2, dy = (a.y1 + a.y2 - b.y1 - b.y2) / 2;
  const Number near = ratio - (square(dx) + square(dy)) / at_least(square(hull.width()) + square(hull.height()), kTiny);
  const Number difference =
      arctangent(b.width() / at_least(b.height(), kTiny)) - arctangent(a.width() / at_least(a.height(), kTiny));
  if (loss.kind == BoxLoss::diou) return {near, difference};
  const Number aspect = Number(4 / (M_PI * M_PI)) * square(difference);
  const double weight = aspect.value / std::fmax(1 - ratio.value + aspect.value, kTiny);  // is not differentiated
  return {near - Number(weight) * aspect, difference};
}

void check_boxes(const BoxLoss& loss, const Tensor& boxes, const Tensor& truths) {
  for (const auto* t : {&boxes, &truths})
    TORCH_CHECK(t->dim() == 2 && t->size(0) == 4 && t->is_floating_point(), "boxes are [4, n], not ", t->sizes());
  TORCH_CHECK(loss.is_cross || boxes.size(1) == truths.size(1), "as many boxes as ground truths, not ", boxes.sizes(),
              " and ", truths.sizes());
}

// use(row of the result, box, what the pair gives).
template <class Use>
void for_pairs(const BoxLoss& loss, const Tensor& boxes, const Tensor& truths, Use&& use) {
  check_boxes(loss, boxes, truths);
  const auto first = boxes.to(at::kDouble).contiguous(), second = truths.to(at::kDouble).contiguous();
  const int64_t n = first.size(1), m = second.size(1);
  const auto box = [&](const Tensor& t, int64_t i, int from) -> Box {
    const double* numbers = t.const_data_ptr<double>() + i;
    std::array<Number, 4> v;
    for (int k = 0; k < 4; k++) v[k] = Number::variable(numbers[k * t.size(1)], from + k);
    if (!loss.trans) return {v[0], v[1], v[2], v[3]};
    const Number w = v[2] / 2, h = v[3] / 2;
    return {v[0] - w, v[1] - h, v[0] + w, v[1] + h};
  };
  for (int64_t row = 0; row < (loss.is_cross ? m : 1); row++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t truth = loss.is_cross ? row : i;
      use(row, i, truth, loss_of(loss, box(first, i, 0), box(second, truth, 4)));
    }
}

Tensor result_like(const BoxLoss& loss, const Tensor& boxes, const Tensor& truths) {
  check_boxes(loss, boxes, truths);
  return at::empty({loss.is_cross ? truths.size(1) : 1, boxes.size(1)}, at::kDouble);
}

// Centres and sides [n, 2] of boxes in whole pixels.
std::pair<Tensor, Tensor> centre_form(const Tensor& boxes) {
  const auto low = boxes.narrow(-1, 0, 2), high = boxes.narrow(-1, 2, 2);
  return {(low + high) / 2, high - low + 1};
}

Tensor four(const Numbers& numbers) {
  TORCH_CHECK(numbers.size() == 4, "means and stds have 4 numbers, not ", numbers.size());
  auto t = at::empty({4}, at::kFloat);
  for (int64_t i = 0; i < 4; i++) t.mutable_data_ptr<float>()[i] = numbers[i].to<float>();
  return t;
}

Tensor rows(const Tensor& t, const char* what) {
  TORCH_CHECK(t.dim() == 2 && t.size(1) == 4, what, " are [n, 4], not ", t.sizes());
  return t.to(at::kFloat);
}

}  // namespace

Tensor overlaps(const Tensor& boxes, const Tensor& truths, const std::string& mode, double extra) {
  TORCH_CHECK(mode == "iou" || mode == "iof", "mode is '", mode, "', neither iou nor iof");
  const auto a = rows(truths, "ground truths").unsqueeze(1), b = rows(boxes, "boxes");
  const auto sides = [&](const Tensor& t) { return (t.narrow(-1, 2, 2) - t.narrow(-1, 0, 2) + extra).prod(-1); };
  const auto low = at::maximum(a.narrow(-1, 0, 2), b.narrow(-1, 0, 2)),
             high = at::minimum(a.narrow(-1, 2, 2), b.narrow(-1, 2, 2));
  const auto common = (high - low + extra).clamp_min(0).prod(-1);
  return common / (mode == "iof" ? sides(a) : sides(a) + sides(b) - common).clamp_min(kTiny);
}

BoxLoss::BoxLoss(Kind kind_, bool trans_, bool is_cross_, const std::string& mode)
    : kind(kind_), trans(trans_), is_cross(is_cross_), over_first(mode == "iof") {
  TORCH_CHECK(mode == "iou" || mode == "iof", "mode is '", mode, "', neither iou nor iof");
}

void box_loss(const BoxLoss& loss, const Tensor& boxes, const Tensor& truths, Tensor& out, Tensor* angles) {
  auto result = result_like(loss, boxes, truths), differences = at::empty_like(result);
  for_pairs(loss, boxes, truths, [&](int64_t row, int64_t i, int64_t, const std::pair<Number, Number>& pair) {
    const int64_t at = row * boxes.size(1) + i;
    result.mutable_data_ptr<double>()[at] = pair.first.value;
    differences.mutable_data_ptr<double>()[at] = pair.second.value;
  });
  put(out, result);
  if (angles) put(*angles, differences);
}

void box_loss_backward(const BoxLoss& loss, const Tensor& grad, const Tensor& boxes, const Tensor& truths,
                       Tensor& d_boxes, Tensor& d_truths) {
  const auto seeds = result_like(loss, boxes, truths);
  TORCH_CHECK(grad.numel() == seeds.numel(), "grad has ", grad.numel(), " numbers for ", seeds.numel(), " pairs");
  seeds.copy_(grad.reshape(seeds.sizes()));
  auto first = at::zeros(boxes.sizes(), at::kDouble), second = at::zeros(truths.sizes(), at::kDouble);
  for_pairs(loss, boxes, truths, [&](int64_t row, int64_t i, int64_t truth, const std::pair<Number, Number>& pair) {
    const double seed = seeds.const_data_ptr<double>()[row * boxes.size(1) + i];
    for (int64_t k = 0; k < 4; k++) {
      first.mutable_data_ptr<double>()[k * boxes.size(1) + i] += seed * pair.first.by[k];
      second.mutable_data_ptr<double>()[k * truths.size(1) + truth] += seed * pair.first.by[4 + k];
    }
  });
  put(d_boxes, first);
  put(d_truths, second);
}

Tensor encoded_boxes(const Tensor& anchors, const Tensor& truths, const Numbers& means, const Numbers& deviations) {
  const auto [anchor, anchor_side] = centre_form(rows(anchors, "anchors"));
  const auto [truth, truth_side] = centre_form(rows(truths, "ground truths"));
  const auto deltas = at::cat({(truth - anchor) / anchor_side, (truth_side / anchor_side).abs().log()}, 1);
  return (deltas - four(means)) / four(deviations);
}

Tensor decoded_boxes(const Tensor& rois, const Tensor& deltas, const Numbers& means, const Numbers& deviations,
                     at::IntArrayRef max_shape, double wh_ratio_clip) {
  const auto shifts = rows(deltas, "deltas") * four(deviations) + four(means);
  const double limit = std::abs(std::log(wh_ratio_clip));
  auto [centre, side] = centre_form(rows(rois, "rois"));
  centre = centre + side * shifts.narrow(1, 0, 2);
  const auto half = side * shifts.narrow(1, 2, 2).clamp(-limit, limit).exp() / 2 - 0.5;
  const auto boxes = at::cat({centre - half, centre + half}, 1);
  if (max_shape.empty()) return boxes;
  TORCH_CHECK(max_shape.size() >= 2, "max_shape is a height and a width");
  auto most = at::empty({4}, at::kFloat);
  for (int64_t i = 0; i < 4; i++) most.mutable_data_ptr<float>()[i] = static_cast<float>(max_shape[1 - i % 2] - 1);
  return at::minimum(boxes.clamp_min(0), most);
}

Tensor anchor_flags(const Tensor& boxes, at::IntArrayRef map, at::IntArrayRef strides, int64_t anchors) {
  const auto all = rows(boxes, "boxes");
  TORCH_CHECK(map.size() == 2 && strides.size() == 2 && anchors > 0 && anchors < 1 << 16, "sizes of the map");
  TORCH_CHECK(map[0] > 0 && map[1] > 0 && map[0] < 1 << 16 && map[1] < 1 << 16, "the map has sizes ", map);
  const auto cell = [&](int64_t axis) {
    return ((all.select(1, axis) + all.select(1, axis + 2)) / 2 / strides[axis]).floor().to(at::kLong);
  };
  auto flags = at::zeros({map[0] * map[1]}, at::kByte);
  flags.index_fill_(0, cell(1) * map[1] + cell(0), 1);
  return flags.unsqueeze(1).expand({-1, anchors}).reshape({-1});
}

Tensor yolo_encoded(const Tensor& anchors, const Tensor& truths, const Tensor& stride) {
  constexpr double tiny = 1e-6;
  const auto form = [](const Tensor& t) {
    return std::pair((t.narrow(1, 0, 2) + t.narrow(1, 2, 2)) / 2, t.narrow(1, 2, 2) - t.narrow(1, 0, 2));
  };
  const auto [centre, side] = form(rows(anchors, "anchors"));
  const auto [truth, truth_side] = form(rows(truths, "ground truths"));
  const auto shift = ((truth - centre) / stride.reshape({-1, 1}) + 0.5).clamp(tiny, 1 - tiny);
  return at::cat({shift, (truth_side / side).clamp_min(tiny).log()}, 1);
}

namespace {

void check_rotated(const Tensor& boxes, const Tensor& others, const Tensor& weight) {
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(1) == 5 && others.sizes() == boxes.sizes() && weight.numel() == 5,
              "rotated boxes are [batch, 5, n], and there are 5 weights");
}

}  // namespace

Tensor rotated_encoded(const Tensor& anchors, const Tensor& truths, const Tensor& weight) {
  check_rotated(anchors, truths, weight);
  const auto form = [](const Tensor& t) {
    return std::pair((t.narrow(1, 0, 2) + t.narrow(1, 2, 2)) / 2, t.narrow(1, 2, 2) - t.narrow(1, 0, 2));
  };
  const auto a = anchors.to(at::kFloat), b = truths.to(at::kFloat);
  const auto [centre, side] = form(a);
  const auto [truth, truth_side] = form(b);
  const auto angle = at::deg2rad(b.narrow(1, 4, 1)).tan() - at::deg2rad(a.narrow(1, 4, 1)).tan();
  return at::cat({(truth - centre) / side, (truth_side / side).log(), angle}, 1) *
         weight.to(at::kFloat).reshape({1, 5, 1});
}

Tensor rotated_decoded(const Tensor& anchors, const Tensor& deltas, const Tensor& weight) {
  check_rotated(anchors, deltas, weight);
  const auto a = anchors.to(at::kFloat), d = deltas.to(at::kFloat) / weight.to(at::kFloat).reshape({1, 5, 1});
  const auto low = a.narrow(1, 0, 2), high = a.narrow(1, 2, 2), side = high - low;
  const auto centre = (low + high) / 2 + side * d.narrow(1, 0, 2), half = side * d.narrow(1, 2, 2).exp() / 2;
  const auto angle = at::rad2deg((at::deg2rad(a.narrow(1, 4, 1)).tan() + d.narrow(1, 4, 1)).atan());
  return at::cat({centre - half, centre + half, angle}, 1);
}

Tensor assigned(const Tensor& before, const Tensor& overlaps, const Tensor& responsible, const Tensor& largest,
                const Tensor& best_truth, const Tensor& truth_largest, const Tensor& truth_best, const Tensor& truths,
                double positive, double least, bool all) {
  const int64_t n = before.numel();
  TORCH_CHECK(before.dim() == 1 && overlaps.dim() == 2 && overlaps.size(1) == n && responsible.numel() == n &&
                  largest.numel() == n && best_truth.numel() == n && truth_largest.numel() == overlaps.size(0) &&
                  truth_best.numel() == overlaps.size(0) && truths.numel() == 1,
              "sizes of anchors and ground truths differ");
  const auto may = responsible.ne(0);
  auto result = at::where(may.logical_and(largest.gt(positive)), best_truth.to(before.scalar_type()) + 1, before);
  const int64_t count = std::min(truths.item().toLong(), overlaps.size(0));
  for (int64_t i = 0; i < count; i++) {
    const auto chosen = all ? overlaps[i].eq(truth_largest[i]) : at::arange(n, at::kLong).eq(truth_best[i]);
    const auto mask = chosen.logical_and(may).logical_and(truth_largest[i].gt(least));
    result = at::where(mask, at::scalar_tensor(i + 1, result.options()), result);
  }
  return result;
}

namespace {

// use(region, output channel, bin, first and last row and column of the bin, image) for every bin.
template <class Use>
void for_bins(const RegionBins& bins, const Tensor& rois, int64_t images, int64_t height, int64_t width, Use&& use) {
  const auto all = rois.transpose(1, 2).reshape({-1, 5}).to(at::kDouble).contiguous();
  const int64_t g = bins.groups;
  for (int64_t r = 0; r < all.size(0); r++) {
    const double* box = all.const_data_ptr<double>() + 5 * r;
    TORCH_CHECK(box[0] >= 0 && box[0] < static_cast<double>(images), "region ", r, " is of image ", box[0]);
    const auto range = [&](int axis, int64_t bin, int64_t length) {
      const double begin = std::nearbyint(box[1 + axis]) * bins.scale,
                   step = std::fmax((std::nearbyint(box[3 + axis]) + 1) * bins.scale - begin, 0.1) / g;
      const auto limit = [&](double x) { return static_cast<int64_t>(std::fmin(std::fmax(x, 0), length)); };
      const double b = static_cast<double>(bin);
      return std::pair(limit(std::floor(begin + b * step)), limit(std::ceil(begin + (b + 1) * step)));
    };
    for (int64_t i = 0; i < g; i++)
      for (int64_t j = 0; j < g; j++)
        use(r, i, j, range(1, i, height), range(0, j, width), static_cast<int64_t>(box[0]));
  }
}

void check_bins(const RegionBins& bins, const Tensor& image, const Tensor& rois, const Tensor& pooled) {
  const int64_t g = bins.groups, c = bins.channels;
  TORCH_CHECK(g > 0 && g < 1 << 10 && c > 0 && c < 1 << 20 && rois.dim() == 3 && rois.size(1) == 5 &&
                  image.dim() == 4 && image.size(1) == c * g * g,
              "images are [n, ", c, " * ", g, " * ", g, ", height, width], regions [batch, 5, n]");
  TORCH_CHECK((pooled.sizes() == at::IntArrayRef({rois.size(0) * rois.size(2), c, g, g})),
              "the pooled regions have shape ", pooled.sizes());
}

}  // namespace

void pool_regions(const RegionBins& bins, const Tensor& x, const Tensor& rois, Tensor& y) {
  check_bins(bins, x, rois, y);
  const int64_t g = bins.groups;
  const auto image = x.to(at::kDouble);
  for_bins(bins, rois, x.size(0), x.size(2), x.size(3),
           [&](int64_t r, int64_t i, int64_t j, auto rows_, auto columns, int64_t n) {
             const int64_t h = std::max<int64_t>(rows_.second - rows_.first, 0),
                           w = std::max<int64_t>(columns.second - columns.first, 0);
             const auto planes = image[n].view({bins.channels, g, g, x.size(2), x.size(3)}).select(1, i).select(1, j);
             const auto part = planes.narrow(1, h ? rows_.first : 0, h).narrow(2, w ? columns.first : 0, w);
             y[r].select(1, i).select(1, j).copy_(part.sum(at::IntArrayRef{1, 2}) /
                                                  static_cast<double>(std::max<int64_t>(h * w, 1)));
           });
}

void pool_regions_backward(const RegionBins& bins, const Tensor& grad, const Tensor& rois, Tensor& y) {
  check_bins(bins, y, rois, grad);
  const int64_t g = bins.groups;
  auto image = at::zeros(y.sizes(), at::kDouble);
  for_bins(
      bins, rois, y.size(0), y.size(2), y.size(3),
      [&](int64_t r, int64_t i, int64_t j, auto rows_, auto columns, int64_t n) {
        const int64_t h = rows_.second - rows_.first, w = columns.second - columns.first;
        if (h <= 0 || w <= 0) return;
        const auto planes = image[n].view({bins.channels, g, g, y.size(2), y.size(3)}).select(1, i).select(1, j);
        planes.narrow(1, rows_.first, h)
            .narrow(2, columns.first, w)
            .add_((grad[r].select(1, i).select(1, j).to(at::kDouble) / static_cast<double>(h * w)).view({-1, 1, 1}));
      });
  put(y, image);
}

Tensor surviving(const Tensor& boxes, double threshold) {
  const int64_t n = boxes.size(0);
  auto keep = at::ones({n}, at::kBool);
  if (n == 0) return keep;
  const auto covers = overlaps(boxes, boxes, "iou", 0).gt(threshold).contiguous();
  const bool* covered = covers.const_data_ptr<bool>();
  bool* kept = keep.mutable_data_ptr<bool>();
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i + 1; kept[i] && j < n; j++) kept[j] = kept[j] && !covered[i * n + j];
  return keep;
}

}  // namespace softnpu::kernels
