"""What rows of quantisation and of grouped products refuse, in the same words with and without a card."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases_quant import I8A, I8B, SCALE, i4, i8, packed, rand  # noqa: E402
from test_custom_ops import operator, to  # noqa: E402

ROWS, EXPERTS, ENDS = rand(10, 4), rand(3, 4, 5), torch.tensor([3, 3, 10])
E8M0, E2M1 = 293, 296  # torch_npu.float8_e8m0fnu, torch_npu.float4_e2m1fn_x2
GROUPS = {"group_list": ENDS, "group_type": 0, "split_item": 2}
E4ROWS, E4EXPERTS = (t.to(torch.float8_e4m3fn) for t in (ROWS, EXPERTS))
E4A, E4B = (t.to(torch.float8_e4m3fn) for t in (I8A, I8B))


@pytest.mark.parametrize("name, args, kwargs, message", [
    ("npu_dynamic_quant", (rand(3, 8),), {"dst_type": E8M0}, "npu_dynamic_quant: dst_type is torch_npu.float8_e8m0fnu, expected one of"),
    ("npu_dynamic_quant", (rand(3, 7),), {"dst_type": torch.quint4x2}, "a multiple of 8 elements for int4"),
    ("npu_dynamic_quant", (rand(8),), {}, "input has 1 dimensions, expected at least 2"),
    ("npu_dynamic_quant", (rand(3, 8),), {"quant_mode": "perrow"}, 'quant_mode is "perrow"'),
    ("npu_dynamic_quant", (rand(3, 8),), {"group_index": ENDS}, "smooth_scales, which is missing"),
    ("npu_dynamic_quant", (rand(3, 8),), {"dst_type": torch.float8_e4m3fn, "dst_type_max": 9.0}, "expected 0, or for torch_npu.hifloat8"),
    ("npu_dynamic_quant", (rand(3, 8),), {"quant_mode": "perchannel", "smooth_scales": rand(8)}, "one number for each of the 3 places"),
    ("npu_dynamic_quant", (rand(3, 8),), {"dst_type": torch.float8_e4m3fnuz}, "dst_type is Float8_e4m3fnuz, expected one of"),
    ("npu_dynamic_quant_asymmetric", (rand(3, 8),), {"dst_type": torch.float8_e4m3fn}, "dst_type is Float8_e4m3fn, expected one of"),
    ("npu_quantize", (rand(3, 8), SCALE[:1], None, torch.float16), {}, "npu_quantize: dtype is Half"),
    ("npu_anti_quant", (rand(3, 8), SCALE[:1]), {}, "npu_anti_quant: x is Float, expected one of Char, Int"),
    ("npu_quant_matmul", (I8A, I8B, SCALE), {"x1_dtype": E2M1}, "x1 is float4, whose scales must be of torch_npu.float8_e8m0fnu"),
    ("npu_quant_matmul", (I8A, I8B, SCALE), {"scale_dtype": E8M0}, "x2 or its scale is Float, and not of the type that its dtype says"),
    ("npu_quant_matmul", (I8A, I8B, SCALE), {"pertoken_scale": rand(5)}, "pertoken_scale has 5 numbers, expected one for each of"),
    ("npu_quant_matmul", (E4A, E4B, SCALE), {}, "output_dtype is missing"),
    ("npu_quant_matmul", (E4A, E4B, SCALE), {"output_dtype": torch.int8}, "output_dtype is Char"),
    ("npu_quant_matmul", (E4A, E4B[:5], SCALE), {"output_dtype": torch.float16}, "x1 has 6 columns, x2 has 5 rows"),
    ("npu_quant_matmul", (E4A, E4B, SCALE[:2]), {"output_dtype": torch.float16}, "scale has 2 numbers, expected 1 or"),
    ("npu_quant_matmul", (E4A, E4B, SCALE), {"output_dtype": torch.float16, "pertoken_scale": rand(5)}, "pertoken_scale has 5 numbers"),
    ("npu_quant_matmul", (E4A, E4B, torch.ones(1, 4, 2, dtype=torch.uint8)), {"output_dtype": torch.float16, "scale_dtype": E8M0},
     "must both be of float8_e8m0fnu, or neither"),
    ("npu_quant_matmul", (E4A, E4B, torch.ones(2, 4, 2, dtype=torch.uint8)), {"output_dtype": torch.float16, "scale_dtype": E8M0,
     "pertoken_scale": torch.ones(4, 1, 2, dtype=torch.uint8), "pertoken_scale_dtype": E8M0}, "scale has the sizes"),
    ("npu_quant_matmul", (I8A, I8B[:5], SCALE), {}, "x1 has 6 columns, x2 has 5 rows"),
    ("npu_quant_matmul", (I8A, I8B, SCALE), {"output_dtype": torch.float64}, "output_dtype is Double"),
    ("npu_quant_matmul", (I8A, I8B, SCALE), {"group_sizes": [1, 128]}, "group_sizes has 2 elements, expected 3"),
    ("npu_quant_matmul", (i8(4, 16), packed(i4(16, 8)), rand(8)), {}, "does not support x1 of int8 with x2 of int4"),
    ("npu_weight_quant_batchmatmul", (rand(4, 6), rand(6, 5), SCALE), {}, "weight is Float, expected one of Char, Int"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"group_list": ENDS, "group_type": 0}, "needs split_item 2 or 3"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"group_type": 0, "split_item": 2}, "group_list is missing"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"group_list": ENDS[:2], "group_type": 0, "split_item": 2},
     "group_list has 2 groups, weight 3"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"group_list": ENDS, "group_type": 1, "split_item": 2},
     "group_type is 1, expected -1, 0 or 2"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"group_list": ENDS, "group_type": 0, "split_item": 2, "act_type": 3}, "act_type is 3"),
    ("npu_grouped_matmul", ([ROWS], [i8(3, 4, 5)]), {"group_list": ENDS, "group_type": 0, "split_item": 2}, "needs antiquant_scale"),
    ("npu_grouped_matmul", ([i8(10, 16)], [packed(i4(3, 16, 8))]), {"group_list": ENDS, "group_type": 0, "split_item": 2,
     "output_dtype": torch.float16},
     "x of int8 by int4 weights needs scale, and a bias"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {"scale_dtype": E8M0}, "does not support scale_dtype"),
    ("npu_grouped_matmul", ([ROWS], [EXPERTS]), {**GROUPS, "weight_dtype": E2M1, "scale": [rand(3, 5)]}, "x is Float, expected float8"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS]), GROUPS, "need one scale"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS]), {**GROUPS, "scale": [rand(3, 5)]}, "output_dtype is missing"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS]), {**GROUPS, "scale": [rand(3, 4)], "output_dtype": torch.float16},
     "scale has the sizes"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS]), {**GROUPS, "scale": [rand(3, 5)], "per_token_scale": [rand(9)],
     "output_dtype": torch.float16}, "per_token_scale has the sizes"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS]), {**GROUPS, "scale": [rand(3, 5)], "antiquant_scale": [rand(3, 5)],
     "output_dtype": torch.float16}, "give the scales of weights as scale"),
    ("npu_grouped_matmul", ([E4ROWS], [E4EXPERTS[0]]), {**GROUPS, "scale": [rand(3, 5)], "output_dtype": torch.float16},
     "one weight of three"),
    ("npu_ffn", (ROWS, rand(4, 6), rand(6, 4), "tanh"), {}, 'activation is "tanh"'),
    ("npu_dequant_swiglu_quant", (torch.ones(4, 8, dtype=torch.int32),), {"quant_mode": 1}, "x of int32 needs weight_scale"),
    ("npu_dequant_swiglu_quant", (rand(4, 8),), {"quant_mode": 1, "swiglu_mode": 3}, "swiglu_mode is 3, expected 0, 1 or 2"),
])  # fmt: skip
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_argument_is_refused(name, args, kwargs, message, device):
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        operator(name)(*to(device, args), **to(device, kwargs))


@pytest.mark.parametrize("ends, kind, message", [([3, 2, 10], 0, "group_list"), ([3, 3, 11], 0, "group_list"), ([3, -1, 4], 1,
"group_list"),
                                                 ([[7, 4], [0, 6], [1, 0]], 2, "group_list")])  # fmt: skip
def test_group_lists_that_lead_outside_fail_in_the_task(ends, kind, message):
    """In a process of its own: a failed task ends the use of the card."""
    import subprocess

    code = f"""
import torch, torch_npu
x, w = torch.ones(10, 4).npu(), torch.ones(3, 4, 5).npu()
try:
    torch_npu.npu_grouped_matmul([x], [w], group_list=torch.tensor({ends}).npu(), split_item=2, group_type=0, group_list_type={kind})
    torch.npu.synchronize()
except RuntimeError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and message in result.stdout, result.stdout + result.stderr
