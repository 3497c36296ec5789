// Custom operators that families call, through the dispatcher, so that autograd sees them. The functions are generated
// for rows with `cpp: true` (docs/tables.md); a declaration that does not fit its row does not link.
#pragma once

#include <ATen/core/Tensor.h>

namespace npu::ops::call {

using OptionalTensor = std::optional<at::Tensor>;

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, int64_t, int64_t, int64_t> npu_fusion_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t head_num,
    c10::string_view input_layout, const OptionalTensor& pse, const OptionalTensor& padding_mask,
    const OptionalTensor& atten_mask, double scale, double keep_prob, int64_t pre_tockens, int64_t next_tockens,
    int64_t inner_precise, at::OptionalIntArrayRef prefix, at::OptionalIntArrayRef actual_seq_qlen,
    at::OptionalIntArrayRef actual_seq_kvlen, int64_t sparse_mode, bool gen_mask_parallel, bool sync,
    c10::string_view softmax_layout, const OptionalTensor& sink, const OptionalTensor& dropout_mask, int64_t seed,
    int64_t offset);
std::tuple<at::Tensor, at::Tensor> _npu_dropout(const at::Tensor& input, double p);
at::Tensor npu_trans_quant_param(const at::Tensor& scale, const OptionalTensor& offset,
                                 std::optional<int64_t> round_mode);

}  // namespace npu::ops::call
