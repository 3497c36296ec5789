#include "ops/families/rotary.h"

#include <ATen/ATen.h>

#include "ops/checks/custom.h"

namespace npu::ops {

int64_t rotary_mode_number(const char* op, std::string_view mode) {
  check_one_of(op, "rotary_mode", mode, {"half", "interleave", "quarter", "interleave-half"});
  return mode == "half" ? 0 : mode == "interleave" ? 1 : mode == "quarter" ? 2 : 3;
}

int64_t rotary_layout_number(std::string_view layout) {
  check_one_of("npu_apply_rotary_pos_emb", "layout", layout, {"BSND", "SBND", "BNSD", "TND"});
  return layout == "BSND" ? 1 : layout == "SBND" ? 2 : layout == "BNSD" ? 3 : 4;
}

at::IntArrayRef mrope_sections(at::OptionalIntArrayRef sections) {
  static constexpr int64_t kNone[3] = {0, 0, 0};
  return sections.has_value() ? *sections : at::IntArrayRef(kNone);
}

void check_rotary(const char* op, const Tensor& x, const Tensor& cos, const Tensor& sin, std::string_view mode) {
  const int64_t number = rotary_mode_number(op, mode);
  TORCH_CHECK(x.dim() >= 1, op, ": the input has no dimensions");
  const auto length = x.sym_size(-1);
  const int64_t parts = number == 2 ? 4 : 2;
  TORCH_CHECK(length % parts == 0, op, ": the last dimension of the input has length ", length,
              ", expected a multiple of ", parts, " for rotary_mode \"", mode, "\"");
  for (const Tensor* each : {&cos, &sin}) {
    const char* name = each == &cos ? "cosines" : "sines";
    TORCH_CHECK(each->dim() >= 1 && each->dim() <= x.dim(), op, ": the ", name, " have ", each->dim(),
                " dimensions, expected 1 to ", x.dim(), ", those of the input");
    TORCH_CHECK(each->sym_size(-1) == length, op, ": the last dimension of the ", name, " has length ",
                each->sym_size(-1), ", expected ", length, ", that of the input");
    for (int64_t dim = -each->dim(); dim < -1; dim++)
      TORCH_CHECK(each->sym_size(dim) == 1 || each->sym_size(dim) == x.sym_size(dim), op, ": dimension ", dim,
                  " of the ", name, " has length ", each->sym_size(dim), ", expected 1 or ", x.sym_size(dim),
                  ", that of the input");
  }
}

void check_mrope(const Tensor& positions, const Tensor& query, const Tensor& key, const Tensor& cache,
                 int64_t head_size, at::OptionalIntArrayRef sections, std::string_view mode,
                 std::string_view cache_mode) {
  check_one_of("npu_mrope", "rotary_mode", mode, {"half", "interleave"});
  check_one_of("npu_mrope", "cache_mode", cache_mode, {"default", "interleave"});
  TORCH_CHECK(head_size > 0, "npu_mrope: head_size is ", head_size, ", expected a positive one");
  TORCH_CHECK(positions.dim() == 1 || (positions.dim() == 2 && positions.sym_size(0) == 3),
              "npu_mrope: positions has shape ", positions.sym_sizes(), ", expected [tokens] or [3, tokens]");
  for (const Tensor* each : {&query, &key})
    TORCH_CHECK(each->dim() == 2 && each->sym_size(0) == positions.sym_size(-1) && each->sym_size(1) % head_size == 0,
                "npu_mrope: ", each == &query ? "query" : "key", " has shape ", each->sym_sizes(),
                ", expected [tokens, heads * head_size] with ", positions.sym_size(-1), " tokens and head_size ",
                head_size);
  TORCH_CHECK(cache.dim() == 2 && cache.sym_size(1) % 2 == 0 && cache.sym_size(1) <= head_size,
              "npu_mrope: cos_sin_cache has shape ", cache.sym_sizes(),
              ", expected [positions, rotary size], an even size of at most head_size ", head_size);
  if (positions.dim() == 1) return;
  TORCH_CHECK(sections.has_value() && sections->size() == 3,
              "npu_mrope: positions of three axes need a mrope_section of three lengths");
  int64_t total = 0;
  for (const int64_t section : *sections) {
    TORCH_CHECK(section >= 0, "npu_mrope: mrope_section has the negative length ", section);
    total += section;
  }
  TORCH_CHECK(cache.sym_size(1) == total * 2, "npu_mrope: the lengths of mrope_section add up to ", total,
              ", expected half of the ", cache.sym_size(1), " columns of cos_sin_cache");
}

std::tuple<Tensor, Tensor, Tensor> rotate_gradients(const Tensor& grad, const Tensor& x, const Tensor& cos,
                                                    const Tensor& sin, const Tensor& rotate) {
  return {grad * cos + at::matmul(grad * sin, rotate.mT()), at::sum_to(grad * x, cos.sizes()),
          at::sum_to(grad * at::matmul(x, rotate), sin.sizes())};
}

int64_t without(const char* op, const char* what, bool wanted, int64_t number) {
  TORCH_CHECK(!wanted, op, ": this version of CANN has no ", what, "; install a newer one");
  return number;
}

}  // namespace npu::ops
