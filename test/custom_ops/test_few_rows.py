"""Cases of every operator without rows and with one: the first axis of the first tensor, and all of its length, cut to none or to one."""

import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from derived import OF_NUMBERS, with_rows  # noqa: E402
from test_custom_ops import CASES, called, outputs, to  # noqa: E402

OF = defaultdict(list)
for _case in CASES:
    OF[_case.op].append(_case)
# Their references, or other arguments, hold sizes or numbers of the case.
FIXED = {
    "npu_add_rms_norm_quant", "npu_anchor_response_flags", "npu_attention_update", "npu_bounding_box_decode", "npu_bounding_box_encode",
    "npu_dropout_with_add_softmax_backward", "npu_hans_encode.out", "npu_lstm_data_backward", "npu_moe_compute_expert_tokens",
    "npu_moe_gating_top_k_backward", "npu_moe_token_unpermute_grad_v2", "npu_nms_with_mask", "npu_ring_attention_update",
    "npu_sign_bits_pack", "npu_sign_bits_unpack", "npu_stride_add", "npu_yolo_boxes_encode",
}


def answer(case, args, kwargs):
    """What the reference makes of the call; nothing where the sizes no longer fit."""
    try:
        return outputs(case.reference(*to("cpu", args), **to("cpu", kwargs)))
    except Exception:
        return []


def close(actual, expected):
    bits = expected.dtype.is_floating_point and expected.dtype.itemsize == 1
    torch.testing.assert_close(actual.cpu(), expected, rtol=0 if bits else 1e-4, atol=0 if bits else 1e-5, equal_nan=True)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("op", [op for op in OF if op not in FIXED])
def test_few_rows_are_computed_or_refused(op, rows):
    for case in OF[op][:2]:
        if not (given := with_rows(case, rows)):
            continue
        expected = answer(case, *given)
        try:
            actual = called(case, *to("npu", given))
        except (RuntimeError, ValueError, IndexError):
            continue  # other arguments say how many rows there are
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            assert OF_NUMBERS.search(str(error)), error
            continue
        for a, e in zip(actual, expected):
            if isinstance(e, torch.Tensor) and (a.numel() or e.numel()):
                close(a, e)
