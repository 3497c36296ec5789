#include "kernels/families/legacy_nms.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/families/legacy_boxes.h"

namespace softnpu::kernels {

namespace {

// Numbers of the first `most` survivors of `boxes` [n, 4] by falling score, of those above the threshold.
Tensor chosen(const Tensor& boxes, const Tensor& scores, double threshold, double score_threshold, int64_t most) {
  const auto [best, order] = at::sort(scores, /*stable=*/true, -1, true);
  const auto among = order.masked_select(best.gt(score_threshold));
  const auto kept = among.masked_select(surviving(boxes.index_select(0, among), threshold));
  return kept.narrow(0, 0, std::min(kept.numel(), most));
}

// `values` at the beginning of `out`, zeros behind them.
void fill_up(Tensor out, const Tensor& values) {
  TORCH_CHECK(values.size(0) <= out.size(0), "the output has room for ", out.size(0), " of ", values.size(0));
  out.zero_();
  out.narrow(0, 0, values.size(0)).copy_(values);
}

void check_scored(const Tensor& boxes, const Tensor& scores) {
  TORCH_CHECK(boxes.dim() == 2 && boxes.size(1) == 4 && scores.dim() == 1 && scores.size(0) == boxes.size(0),
              "boxes are [n, 4], scores [n], not ", boxes.sizes(), " and ", scores.sizes());
}

struct Point {
  double x, y;
};
using Polygon = std::vector<Point>;

Polygon corners_of(const double* box, bool trans) {
  const double cx = trans ? (box[0] + box[2]) / 2 : box[0], cy = trans ? (box[1] + box[3]) / 2 : box[1];
  const double w = trans ? box[2] - box[0] : box[2], h = trans ? box[3] - box[1] : box[3];
  const double angle = box[4] * M_PI / 180, c = std::cos(angle), s = std::sin(angle);
  Polygon corners;
  for (const auto& [x, y] : {std::pair{-w / 2, -h / 2}, {w / 2, -h / 2}, {w / 2, h / 2}, {-w / 2, h / 2}})
    corners.push_back({cx + x * c - y * s, cy + x * s + y * c});
  return corners;
}

double area_of(const Polygon& p) {
  double twice = 0;
  for (size_t i = 0; i < p.size(); i++) {
    const Point &a = p[i], &b = p[(i + 1) % p.size()];
    twice += a.x * b.y - a.y * b.x;
  }
  return twice / 2;
}

// What lies on the left of every edge of `window`, whose corners turn left.
Polygon clipped(Polygon shape, const Polygon& window) {
  for (size_t i = 0; i < window.size() && !shape.empty(); i++) {
    const Point &a = window[i], &b = window[(i + 1) % window.size()];
    const auto side = [&](const Point& p) { return (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x); };
    Polygon inside;
    for (size_t k = 0; k < shape.size(); k++) {
      const Point &p = shape[k], &q = shape[(k + 1) % shape.size()];
      const double at_p = side(p), at_q = side(q);
      if (at_p >= 0) inside.push_back(p);
      if ((at_p > 0 && at_q < 0) || (at_p < 0 && at_q > 0)) {
        const double t = at_p / (at_p - at_q);
        inside.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
      }
    }
    shape = std::move(inside);
  }
  return shape;
}

std::vector<Polygon> polygons(const Tensor& boxes, int64_t batch, bool trans) {
  const auto rows = boxes[batch].t().to(at::kDouble).contiguous();
  std::vector<Polygon> all;
  for (int64_t i = 0; i < rows.size(0); i++) {
    all.push_back(corners_of(rows.const_data_ptr<double>() + 5 * i, trans));
    if (area_of(all.back()) < 0) std::reverse(all.back().begin(), all.back().end());
  }
  return all;
}

// f(common area, area, other area) for each pair.
template <class F>
Tensor for_rotated(const Tensor& boxes, const Tensor& others, bool trans, F&& f) {
  TORCH_CHECK(boxes.dim() == 3 && others.dim() == 3 && boxes.size(1) == 5 && others.size(1) == 5 &&
                  boxes.size(0) == others.size(0),
              "rotated boxes are [batch, 5, n], not ", boxes.sizes(), " and ", others.sizes());
  auto result = at::empty({boxes.size(0), boxes.size(2), others.size(2)}, at::kDouble);
  double* out = result.mutable_data_ptr<double>();
  for (int64_t b = 0; b < boxes.size(0); b++) {
    const auto first = polygons(boxes, b, trans), second = polygons(others, b, trans);
    for (const Polygon& p : first)
      for (const Polygon& q : second) *out++ = f(std::fmax(area_of(clipped(p, q)), 0), area_of(p), area_of(q));
  }
  return result;
}

}  // namespace

void nms_with_mask(const Tensor& rows, double threshold, Tensor& boxes, Tensor& indices, Tensor& mask) {
  TORCH_CHECK(rows.dim() == 2 && rows.size(1) >= 5, "rows are x1 y1 x2 y2 score, not ", rows.sizes());
  put(boxes, rows.narrow(1, 0, boxes.dim() == 2 ? std::min(boxes.size(1), rows.size(1)) : rows.size(1)));
  put(indices, at::arange(rows.size(0), at::kLong));
  put(mask, surviving(rows.narrow(1, 0, 4), threshold));
}

void nms_first(const Tensor& boxes, const Tensor& scores, const Tensor& most, const Tensor& threshold,
               const Tensor& score_threshold, Tensor& indices, Tensor& count) {
  check_scored(boxes, scores);
  TORCH_CHECK(most.numel() == 1 && threshold.numel() == 1 && score_threshold.numel() == 1, "thresholds are numbers");
  TORCH_CHECK(indices.dim() == 1, "the indices are a row");
  const int64_t limit = std::clamp<int64_t>(most.item().toLong(), 0, indices.numel());
  const auto kept = chosen(boxes, scores, threshold.item().toDouble(), score_threshold.item().toDouble(), limit);
  fill_up(indices, kept);
  count.fill_(kept.numel());
}

void nms_of_classes(const BatchNms& how, const Tensor& boxes, const Tensor& scores, Tensor& out_boxes,
                    Tensor& out_scores, Tensor& out_classes, Tensor& counts) {
  TORCH_CHECK(boxes.dim() == 4 && boxes.size(3) == 4 && scores.dim() == 3 && scores.size(0) == boxes.size(0) &&
                  scores.size(1) == boxes.size(1) && (boxes.size(2) == 1 || boxes.size(2) == scores.size(2)),
              "boxes are [batch, n, classes or 1, 4], scores [batch, n, classes], not ", boxes.sizes(), " and ",
              scores.sizes());
  const int64_t batch = boxes.size(0), classes = scores.size(2);
  TORCH_CHECK(how.per_class >= 0 && how.total >= 0 && counts.numel() == batch, "sizes of the results");
  for (const auto* t : {&out_boxes, &out_scores, &out_classes})
    TORCH_CHECK(t->dim() >= 2 && t->size(0) == batch && t->size(1) == how.total, "a result has shape ", t->sizes());
  for (int64_t b = 0; b < batch; b++) {
    std::vector<Tensor> found_boxes{at::empty({0, 4}, boxes.options())}, found_scores{at::empty({0}, scores.options())},
        found_classes{at::empty({0}, scores.options())};
    for (int64_t c = 0; c < classes; c++) {
      const auto own = boxes[b].select(1, boxes.size(2) > 1 ? c : 0), score = scores[b].select(1, c).contiguous();
      const auto kept = chosen(own, score, how.iou_threshold, how.score_threshold, how.per_class);
      found_boxes.push_back(own.index_select(0, kept));
      found_scores.push_back(score.index_select(0, kept));
      found_classes.push_back(at::full({kept.numel()}, static_cast<double>(c), scores.options()));
    }
    auto [best, order] = at::sort(at::cat(found_scores), /*stable=*/true, -1, true);
    const int64_t count = std::min({best.numel(), how.total, best.gt(0).sum().item<int64_t>()});
    order = order.narrow(0, 0, count);
    fill_up(out_boxes[b], at::cat(found_boxes).index_select(0, order));
    fill_up(out_scores[b], best.narrow(0, 0, count));
    fill_up(out_classes[b], at::cat(found_classes).index_select(0, order));
    counts.reshape({batch})[b].fill_(count);
  }
}

Tensor rotated_overlaps(const Tensor& boxes, const Tensor& others, bool trans) {
  return for_rotated(boxes, others, trans, [](double common, double, double) { return common; });
}

Tensor rotated_iou(const Tensor& boxes, const Tensor& others, bool trans, const std::string& mode) {
  TORCH_CHECK(mode == "iou" || mode == "iof", "mode is '", mode, "', neither iou nor iof");
  const bool over_first = mode == "iof";
  return for_rotated(boxes, others, trans, [over_first](double common, double first, double second) {
    const double whole = over_first ? first : first + second - common;
    return whole > 0 ? common / whole : 0;
  });
}

}  // namespace softnpu::kernels
