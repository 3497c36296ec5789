// Matrix products of quantised numbers, and in groups, before and behind collectives. Sums are float32, of integers
// exact; a product is rounded once, before it is reduced or sent.
#pragma once

#include "kernels/engine/collective.h"
#include "kernels/families/fused_collectives.h"
#include "kernels/families/quant_products.h"

namespace softnpu::kernels {

// Whether a bias is added before or behind the scales. MX scales are part of the product.
enum class Bias { inside, behind };
// x1 [.., k] by x2 [k, n] with their scales: one number, one for each row or column, one for each block of 128 by 128
// numbers, or MX pairs along k. The pairs of a transposed x2 may be transposed as well.
Tensor scaled_product(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                      const Optional& bias, Bias where);

// ---- Gather: x1 and its scales of every rank, then the product with each. The workspace has what this rank sends, and
// behind it what all have sent.
uint64_t gathered_bytes(const Tensor& x1, const Optional& x1_scale);  // of a rank
Collective gather(const std::string& group, const Call& call, uint64_t each);
void send_operand(const Call& call, const Tensor& x1, const Optional& x1_scale);
void gathered_product(const Call& call, const Tensor& y, const Optional& gathered, const Tensor& x1, const Tensor& x2,
                      const Optional& x1_scale, const Optional& x2_scale, const Optional& bias);

// ---- Rows to all: equal parts of the rows for each rank, with their MX pairs where there are some.
Collective rows_to_all(const std::string& group, const Call& call, int64_t ranks, const Tensor& rows,
                       const Optional& scale, at::IntArrayRef send_counts, at::IntArrayRef recv_counts);
uint64_t row_bytes(const Tensor& rows, const Optional& scale);
void send_rows(const Call& call, const Tensor& rows, const Optional& scale);
// Rows and scales as they came, of `count` rows behind those that were sent.
std::pair<Tensor, Optional> received_rows(const Call& call, const Tensor& rows, const Optional& scale, int64_t count);
inline std::vector<int64_t> equal_parts(const Tensor& rows, int64_t ranks) {
  return std::vector<int64_t>(ranks, ranks ? rows.size(0) / ranks : 0);
}

// [rows of a rank for each rank] side by side: what ranks sent of one row becomes one long row.
Tensor side_by_side(const Tensor& rows, int64_t ranks);
// Each row to float8, with a scale for each row.
std::pair<Tensor, Tensor> row_quantised(const Tensor& x, at::ScalarType type);
void all_to_all_product(const Call& call, Tensor& out, const Optional& permuted, const Tensor& x1, const Tensor& x2,
                        const Optional& bias, const Optional& x1_scale, const Optional& x2_scale,
                        std::optional<at::ScalarType> dynamic);
// The columns of the product for each rank, rank by rank, in the workspace.
void product_by_columns(const Call& call, const Tensor& product, const Tensor& out);

// The product, rounded once, with x3 in it. An integral bias comes before the scales.
void reduced_product(Tensor& out, const Tensor& x1, const Tensor& x2, const Optional& x1_scale,
                     const Optional& x2_scale, const Optional& bias, const Optional& x3);
void reduced_weight_product(Tensor& out, const Tensor& x1, const Tensor& x2, const Tensor& scale,
                            const Optional& offset, const Optional& bias, const Optional& x3, int64_t group);
// A product beside the others, where there is one.
void beside(const Optional& y, const Optional& x, const Optional& weight, const Optional& x_scale,
            const Optional& weight_scale, bool turned);

// Of int8 the client hands over the scale of the columns first.
inline Optional of_rows_first(const Tensor& x1, const Optional& other, const Optional& own) {
  return x1.scalar_type() == at::kChar ? own : other;
}
inline Optional of_mx(const Optional& scale) { return is_mx(scale) ? scale : std::nullopt; }
// The type that rows are quantised to on their way (quant mode 7), from the ABI's number.
std::optional<at::ScalarType> dynamic_type(int64_t quant_mode, int64_t number);

// ---- Groups. `counts` of rows: by rank and expert, or by expert and rank where the kernel comes first.

void grouped_from_all(const Call& call, Tensor& y, const Optional& permuted, const Tensor& x, const Tensor& weight,
                      const Optional& x_scale, const Optional& weight_scale, at::IntArrayRef recv_counts,
                      int64_t ranks);
void grouped_to_all(const Call& call, const Tensor& y, const Tensor& x, const Tensor& weight, const Optional& x_scale,
                    const Optional& weight_scale, at::IntArrayRef send_counts, int64_t ranks);
std::vector<int64_t> by_rank(at::IntArrayRef counts, int64_t ranks);  // from those by expert and rank

namespace require {

void scaled_operands(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                     const Optional& bias);
int64_t gathering(Call& call, const Tensor& x1, const Optional& x1_scale, const Tensor& x2, const Tensor& y,
                  const Optional& gathered);
void all_to_all_rows(Call& call, const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Tensor& out,
                     const Optional& permuted);
void all_to_all_columns(Call& call, const Tensor& x1, const Tensor& x2, const Tensor& out);
void fits_beside(const Optional& y, const Optional& x, const Optional& weight, const Optional& x_scale,
                 const Optional& weight_scale, bool turned);
void all_to_all_quantised(const Tensor& x1, const Tensor& x2, const Optional& x1_scale, const Optional& x2_scale,
                          const Optional& bias, int64_t x1_mode, int64_t x2_mode, int64_t number);
void quant_modes(int64_t x, int64_t weight, const Tensor& scale);  // one scale each, or MX scales
void axes(at::IntArrayRef list, int64_t first, int64_t second);    // none, or these
void grouped_rows(const Tensor& x, const Tensor& weight, const Optional& x_scale, const Optional& weight_scale,
                  at::IntArrayRef counts, at::IntArrayRef others, int64_t ranks, const Tensor& y, int64_t rows);

}  // namespace require
}  // namespace softnpu::kernels
