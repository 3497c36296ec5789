"""Rows of rotary embedding, softmax, losses, look-ups and deformable convolution refuse bad arguments, with and without a card."""

import pytest
import torch

ones, long = torch.ones, torch.long
CONV = (ones(1, 4, 5, 5), ones(3, 4, 3, 3), ones(1, 27, 5, 5), None, [3, 3], [1] * 4, [1] * 4)
REFUSED = [
    ("npu_rotary_mul", (ones(2, 6), ones(6), ones(6), "third"), 'npu_rotary_mul: rotary_mode is "third", expected one of "half"'),
    ("npu_rotary_mul", (ones(2, 6), ones(6), ones(6), "quarter"), "length 6, expected a multiple of 4"),
    ("npu_rotary_mul", (ones(2, 6), ones(3, 6), ones(3, 6)), "dimension -2 of the cosines has length 3, expected 1 or 2"),
    ("npu_rotary_mul", (ones(2, 6), ones(6), ones(4)), "last dimension of the sines has length 4, expected 6"),
    ("npu_rotary_mul", (ones(2, 6), ones(1, 1, 6), ones(6)), "the cosines have 3 dimensions, expected 1 to 2"),
    ("npu_rotary_mul_backward", (ones(2, 5), ones(2, 5), ones(5), ones(5)), "length 5, expected a multiple of 2"),
    ("npu_apply_rotary_pos_emb", (ones(2, 6), ones(2, 4), ones(6), ones(6)), "last dimension of the cosines has length 6, expected 4"),
    ("npu_apply_rotary_pos_emb", (ones(2, 6), ones(2, 6), ones(6), ones(6), "BSH"), 'layout is "BSH", expected one of "BSND"'),
    ("npu_interleave_rope", (ones(2, 3), ones(3), ones(3)), "npu_interleave_rope: the last dimension of the input has length 3"),
    ("npu_mrope", (ones(2, dtype=long), ones(2, 6), ones(2, 4), ones(9, 4), 4), "query has shape .* expected .tokens, heads . head_size."),
    ("npu_mrope", (ones(3, 2, dtype=long), ones(2, 4), ones(2, 4), ones(9, 4), 4), "need a mrope_section of three lengths"),
    ("npu_mrope", (ones(2, dtype=long), ones(2, 4), ones(2, 4), ones(9, 8), 4), "cos_sin_cache has shape"),
    ("npu_scaled_masked_softmax", (ones(2, 3), ones(4, 3)), "dimension -2 of mask has length 4, expected 1 or 2"),
    ("npu_scaled_masked_softmax", (ones(2, 3), ones(1), 1, True), "fixed_triu_mask needs rows and columns of one number"),
    ("npu_masked_softmax_with_rel_pos_bias", (ones(2, 3), None, ones(5)), "relative_pos_bias has length 5, expected 1 or 3"),
    ("npu_cross_entropy_loss", (ones(2, 3), ones(2, dtype=long), None, "max"), 'reduction is "max", expected one of'),
    ("npu_cross_entropy_loss", (ones(2, 3), ones(3, dtype=long)), "expected one class for each of 2 rows"),
    ("npu_cross_entropy_loss", (ones(2, 3), ones(2)), "target is Float, expected int64 or int32"),
    ("npu_cross_entropy_loss", (ones(2, 3), ones(2, dtype=long), ones(2)), "one number for each of 3 classes"),
    ("npu_fused_linear_online_max_sum", (ones(2, 3), ones(5, 4), ones(2, dtype=long), 0, 4), "expected .tokens, hidden. and"),
    ("npu_top_k_top_p", (ones(2, 3), ones(3), None), "p has shape .3., expected one number for each of 2 rows"),
    ("npu_dtype_cast", (ones(2), 99), "99 is no number of a type of torch or torch_npu"),
    ("npu_confusion_transpose", (ones(2, 3), [0, 0], [6], True), "perm is .0, 0., expected each of 0 to 1 once"),
    ("npu_confusion_transpose", (ones(2, 3), [0, 1], [5], True), "expected one of 6 elements"),
    ("npu_gather_sparse_index", (ones(2, 3), ones(2)), "index is Float, expected int64 or int32"),
    ("npu_deformable_conv2d", (*CONV[:4], [2, 3], *CONV[5:]), "kernel_size is .2, 3., expected that of weight"),
    ("npu_deformable_conv2d", (*CONV[:2], ones(1, 18, 5, 5), *CONV[3:]), "expected three channels for each deformable group"),
    ("npu_deformable_conv2d", (*CONV[:2], ones(1, 27, 4, 5), *CONV[3:]), "dimension 2 of offset has length 4, expected 5"),
    ("npu_deformable_conv2d", (*CONV[:5], [1, 1], *CONV[6:]), "expected 4 each"),
    ("npu_one_hot", (ones(2, dtype=long), 4, 3), "num_classes is 4, expected -1 or 1, the last axis"),
    ("npu_chunk_gated_delta_rule", (ones(2, 1, 4), ones(2, 1, 4), ones(2, 1, 3)), "needs a state and actual_seq_lengths"),
    ("npu_recurrent_gated_delta_rule", (ones(2, 1, 4), ones(2, 1, 4), ones(2, 1, 3), ones(1, 1, 4, 4)), "needs a state|has shape"),
]


@pytest.mark.parametrize("device", ["npu", "meta"])
@pytest.mark.parametrize("name, arguments, message", REFUSED)
def test_bad_arguments_are_named(name, arguments, message, device):
    with pytest.raises(RuntimeError, match=message):
        getattr(torch.ops.npu, name)(*(a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments))


def test_indices_outside_of_the_table_fail_on_the_card():
    with pytest.raises(RuntimeError):
        torch.ops.npu.npu_gather_sparse_index(ones(2, 3).npu(), torch.tensor([5]).npu()).cpu()
