"""Numbers of types (torch_npu.float8_e8m0fnu and the like), tensors of 4 and 8 bits on the card, and the rounding to them."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_npu

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "custom_ops"))
import cases_mx as oracle  # noqa: E402

# What the official wheel 2.13.0 has, read from it.
OFFICIAL = {
    "bfloat16": 283, "bool": 268, "complex128": 273, "complex32": 289, "complex64": 272, "float16": 257, "float32": 256,
    "float4_e1m2fn_x2": 297, "float4_e2m1fn_x2": 296, "float64": 267,
    "float6_e2m3": 295, "float6_e3m2": 294, "float8_e4m3fn": 292, "float8_e5m2": 291,
    "float8_e8m0fnu": 293, "hifloat8": 290, "int16": 262, "int32": 259, "int4": 285, "int64": 265, "int8": 258, "string": 269, "uint1": 286,
    "uint16": 263, "uint32": 264, "uint64": 266, "uint8": 260,
}  # fmt: skip
TYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2]
by_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


@pytest.mark.parametrize("name, number", OFFICIAL.items())
def test_types_are_the_official_numbers(name, number):
    assert type(getattr(torch_npu, name)) is int
    assert getattr(torch_npu, name) == number
    assert name in dir(torch_npu)


def test_there_are_no_others():
    assert {name for name in dir(torch_npu) if type(getattr(torch_npu, name, None)) is int} == OFFICIAL.keys()


def test_compiled_code_sees_the_numbers():
    @torch.compile(backend="eager", fullgraph=True)
    def function(x):
        return torch_npu.npu_dynamic_mx_quant(x, dst_type=torch_npu.float8_e4m3fn)

    x = torch.randn(2, 64).npu()
    for actual, expected in zip(function(x), torch_npu.npu_dynamic_mx_quant(x, dst_type=torch.float8_e4m3fn)):
        assert torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))


def bytes_of(dtype, *shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.uint8).view(shape).view(dtype)


@by_type
def test_tensors_come_and_go(dtype):
    x = bytes_of(dtype, 4, 8)
    for there in (x.npu(), x.to("npu", non_blocking=True), x.npu().clone(), torch.empty(4, 8, dtype=dtype, device="npu").copy_(x)):
        assert (there.dtype, there.shape, there.device.type) == (dtype, x.shape, "npu")
        assert torch.equal(there.cpu().view(torch.uint8), x.view(torch.uint8))


@by_type
def test_views_and_strides_are_those_of_bytes(dtype):
    x = bytes_of(dtype, 4, 8)
    assert torch.equal(x.npu().view(torch.uint8).cpu(), x.view(torch.uint8))
    for view in (lambda t: t[1:3, 2:6], lambda t: t.t(), lambda t: t[:, ::2]):
        assert torch.equal(view(x.npu()).contiguous().cpu().view(torch.uint8), view(x).contiguous().view(torch.uint8))
        assert torch.equal(view(x.npu()).cpu().contiguous().view(torch.uint8), view(x).contiguous().view(torch.uint8))


@pytest.mark.parametrize("dtype", TYPES[:3], ids=str)
def test_printing(dtype):
    x = torch.tensor([1.0, 2.0, 0.5]).to(dtype)
    assert repr(x.npu()) == repr(x).replace(", dtype", ", device='npu:0', dtype")


@pytest.mark.parametrize("dtype", TYPES[:2], ids=str)
def test_conversion_is_torch_s(dtype):
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 20
    assert torch.equal(x.npu().to(dtype).cpu().view(torch.uint8), x.to(dtype).view(torch.uint8))
    assert torch.equal(x.to(dtype).npu().float().cpu(), x.to(dtype).float())


@pytest.mark.parametrize("kind", [oracle.E4M3, oracle.E5M2], ids=str)
def test_the_oracle_rounds_as_torch_does(kind):
    most = oracle.LARGEST[kind]
    x = torch.randn(10000, generator=torch.Generator().manual_seed(1)) * torch.logspace(-9, 4, 10000)
    numbers = torch.tensor(oracle.NUMBERS[kind])
    x = torch.cat([x.clamp(-most, most), (numbers[1:] + numbers[:-1]) / 2, -(numbers[1:] + numbers[:-1]) / 2])  # ties too
    assert torch.equal(oracle.to_codes(x, kind), x.to(kind).view(torch.uint8))


def test_official_example_of_float8():
    """Of the operator's page: input (0, 8, 64, 512), both axes."""
    x = torch.tensor([[0, 8, 64, 512]], dtype=torch.bfloat16).npu()
    y1, scale1, _, scale2 = torch_npu.npu_dynamic_mx_quant_with_dual_axis(x, dst_type=torch.float8_e4m3fn)
    assert y1.float().tolist() == [[0, 4, 32, 256]]
    assert scale1.tolist() == [[[128, 0]]]
    assert scale2.tolist() == [[[0, 0], [122, 0], [125, 0], [128, 0]]]


def test_official_example_of_groups():
    x = torch.tensor([0.0, 8, 64, 512] * 2, dtype=torch.bfloat16).view(8, 1).npu()
    ends = torch.tensor([4, 8], dtype=torch.int32).npu()
    y, scale = torch_npu.npu_grouped_dynamic_mx_quant(x, ends, dst_type=torch.float8_e4m3fn)
    assert y.float().flatten().tolist() == [0, 4, 32, 256] * 2
    assert scale.tolist() == [[[128, 0]], [[128, 0]]]


def test_official_example_of_two_levels():
    y, level0, level1 = torch_npu.npu_dynamic_dual_level_mx_quant(torch.full((1, 512), 8.0, dtype=torch.bfloat16).npu())
    assert y.unique().tolist() == [119]
    torch.testing.assert_close(level0.cpu(), torch.tensor([[8 / 6]]))
    assert level1.unique().tolist() == [127]


def test_official_example_of_a_gated_unit():
    y, scale = torch_npu.npu_swiglu_mx_quant(torch.ones(4, 8, dtype=torch.bfloat16).npu())
    assert y.tolist() == [[119, 119]] * 4
    assert scale.tolist() == [[[124, 0]]] * 4


@pytest.mark.parametrize("kind", [torch_npu.float4_e2m1fn_x2, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_there_and_back_is_near(kind):
    x = torch.randn(8, 256, generator=torch.Generator().manual_seed(2)).npu()
    y, scale = torch_npu.npu_dynamic_mx_quant(x, dst_type=kind)
    number = {torch.float8_e4m3fn: torch_npu.float8_e4m3fn, torch.float8_e5m2: torch_npu.float8_e5m2}.get(kind, kind)
    back = torch_npu.npu_anti_mx_quant(y, scale, src_type=number, dst_type=torch.float32)
    steps = {torch_npu.float4_e2m1fn_x2: 0.5, torch.float8_e4m3fn: 0.125, torch.float8_e5m2: 0.25}
    block = x.view(8, 8, 32).abs().amax(-1, keepdim=True).expand(8, 8, 32).reshape(8, 256)
    assert ((back - x).abs() <= block * steps[kind]).all()


def test_float4_in_the_middle_of_a_storage():
    pairs, scale = torch_npu.npu_dynamic_mx_quant(torch.randn(6, 64, generator=torch.Generator().manual_seed(3)).npu())
    for rows in (slice(2, 5), slice(1, 6, 2)):
        part = torch_npu.npu_anti_mx_quant(pairs[rows], scale[rows], src_type=torch_npu.float4_e2m1fn_x2)
        assert torch.equal(part.cpu(), torch_npu.npu_anti_mx_quant(pairs, scale, src_type=torch_npu.float4_e2m1fn_x2).cpu()[rows])


def test_every_hifloat8_number_is_kept():
    numbers = torch.tensor([n for n in oracle.NUMBERS[oracle.HIF8] if n < 1e9])
    y, amax = torch_npu.npu_quant_max(numbers.npu(), torch.ones(1).npu(), dst_dtype=torch_npu.hifloat8, round_mode="round")
    assert y.tolist() == [code for code, n in enumerate(oracle.NUMBERS[oracle.HIF8]) if n < 1e9]
    assert amax.tolist() == [32768.0]


def test_hifloat8_comes_back():
    codes = torch.tensor([code for code in range(256) if code not in (0x6F, 0x80, 0xEF)], dtype=torch.uint8)  # infinite, and no number
    numbers = torch_npu.npu_dtype_cast(codes.npu(), torch.float32, torch_npu.hifloat8)
    expected = [(-1 if code > 127 else 1) * oracle.NUMBERS[oracle.HIF8][code % 128] for code in codes.tolist()]
    assert numbers.tolist() == expected
    assert torch_npu.npu_dtype_cast(numbers, torch_npu.hifloat8).tolist() == codes.tolist()


def test_rstd_comes_where_a_gradient_may_ask_for_it():
    x, w = torch.randn(3, 64).npu(), torch.ones(64).npu()
    assert torch_npu.npu_rms_norm_dynamic_mx_quant(x, w)[2].shape == (0,)
    rstd = torch_npu.npu_rms_norm_dynamic_mx_quant(x.requires_grad_(), w)[2]
    torch.testing.assert_close(rstd.cpu(), (x.detach().cpu().square().mean(-1, keepdim=True) + 1e-6).rsqrt())


def test_empty_tensors():
    y, scale = torch_npu.npu_dynamic_mx_quant(torch.empty(0, 64).npu())
    assert (y.shape, scale.shape) == ((0, 32), (0, 1, 2))


@pytest.mark.parametrize("kwargs, message", [
    ({"dst_type": torch.int8}, "npu_dynamic_mx_quant: dst_type is 1, expected torch.float8_e4m3fn"),
    ({"dst_type": 4711}, "npu_dynamic_mx_quant: dst_type is 4711"),
    ({"dst_type": torch.float8_e4m3fn, "round_mode": "floor"}, 'round_mode is "floor", expected "rint" for float8'),
    ({"round_mode": "near"}, 'round_mode is "near", expected one of "rint", "round", "floor"'),
    ({"block_size": 48}, "block_size is 48, expected a multiple of 32 up to 1024"),
    ({"scale_alg": 1}, "scale_alg is 1, expected 0 or 2 for this dst_type"),
    ({"scale_alg": 2, "dst_type_max": 13.0}, "dst_type_max is 13, expected 0, or with scale_alg 2 a number from 6 to 12"),
    ({"max_low_bound": 1.0}, "max_low_bound is 1, expected 0, or with scale_alg 1 a positive number"),
    ({"axis": 2}, "Dimension out of range"),
])  # fmt: skip
@pytest.mark.parametrize("device", ["npu", "meta"])
def test_arguments_are_refused_with_and_without_a_card(kwargs, message, device):
    with pytest.raises((RuntimeError, IndexError), match=message):
        torch.ops.npu.npu_dynamic_mx_quant(torch.ones(2, 64, device=device), **kwargs)


@pytest.mark.parametrize("device", ["npu", "meta"])
def test_other_refusals(device):
    x = torch.ones(2, 64, device=device)
    with pytest.raises(RuntimeError, match="the last dimension has length 3, expected an even one for float4"):
        torch.ops.npu.npu_dynamic_mx_quant(torch.ones(2, 3, device=device))
    with pytest.raises(RuntimeError, match="npu_dynamic_dual_level_mx_quant: smooth_scale is not supported"):
        torch.ops.npu.npu_dynamic_dual_level_mx_quant(x, smooth_scale=x)
    with pytest.raises(RuntimeError, match="npu_quant_max: group_list has 2 groups, expected one"):
        torch.ops.npu.npu_quant_max(x, torch.ones(1, device=device), group_list=torch.ones(2, dtype=torch.int32, device=device))
    with pytest.raises(RuntimeError, match="npu_anti_mx_quant: x is of type .*Byte"):
        torch.ops.npu.npu_anti_mx_quant(x.to(torch.uint8), torch.ones(2, 1, 2, dtype=torch.uint8, device=device))
    with pytest.raises(RuntimeError, match="npu_dtype_cast: input is of type .*, expected .* for input_dtype 290"):
        torch.ops.npu.npu_dtype_cast(x, torch.float32, torch_npu.hifloat8)
    with pytest.raises(RuntimeError, match="294 is the number of a type that the npu does not compute in"):
        torch.ops.npu.npu_dtype_cast(x, torch_npu.float6_e3m2)
    with pytest.raises(RuntimeError, match='npu_dynamic_block_quant: round_mode is "rint", expected "round"'):
        torch.ops.npu.npu_dynamic_block_quant(x, dst_type=torch_npu.hifloat8)


def test_groups_beyond_the_rows_fail_on_the_card():
    code = """
import torch, torch_npu
x, ends = torch.ones(8, 4).npu(), torch.tensor([4, 9], dtype=torch.int32).npu()
try:
    torch_npu.npu_grouped_dynamic_mx_quant(x, ends)
    torch.npu.synchronize()
except RuntimeError as error:
    print("group_index" in str(error))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300).stdout.strip().endswith("True")
