"""Types that an NPU has and ATen's CPU kernels lack: float16 and bfloat16 rounded once, int32 classes, counts of integers."""

import pytest
import torch
from torch.nn import functional as F

HALVES = [torch.float16, torch.bfloat16]


def random(*sizes, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


FUNCTIONS = {
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, 2, 1), (2, 3, 5, 6, 7)),
    "avg_pool3d of channels_last": (lambda x: F.avg_pool3d(x.to(memory_format=torch.channels_last_3d), 3, 1), (2, 3, 5, 6, 7)),
    "cdist": (lambda x: torch.cdist(x, x.flip(0) + 1, p=1.5), (7, 5)),
    "cdist of matrices": (lambda x: torch.cdist(x, x.flip(1) + 1), (2, 40, 5)),
    "pdist": (lambda x: F.pdist(x, p=2.0), (9, 5)),
    "bilinear antialias": (lambda x: F.interpolate(x, (5, 4), mode="bilinear", antialias=True), (2, 3, 11, 9)),
    "bicubic antialias": (lambda x: F.interpolate(x, (5, 4), mode="bicubic", antialias=True), (2, 3, 11, 9)),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, torch.arange(6, device=x.device) % 5), (6, 5)),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, torch.tensor([[3, 0, -1, 1]] * 6, device=x.device)), (6, 4)),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_is_computed_in_float32_and_rounded_once(name, dtype):
    function, sizes = FUNCTIONS[name]
    x = random(*sizes).to(dtype)
    wide, ours = x.float().requires_grad_(), x.npu().requires_grad_()
    expected, result = function(wide), function(ours)
    assert result.dtype == dtype
    step = torch.finfo(dtype).eps
    if "cdist" not in name:  # whose second operand, x + 1, is rounded before
        torch.testing.assert_close(result.cpu(), expected.to(dtype), rtol=0, atol=0)
    torch.testing.assert_close(result.float().cpu(), expected, rtol=4 * step, atol=4 * step)
    weight = random(*expected.shape, seed=1).to(dtype)
    expected.backward(weight.float())
    result.backward(weight.npu())
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(ours.grad.float().cpu(), wide.grad, rtol=8 * step, atol=8 * step)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_calls_that_are_too_large_to_be_tried_work_too(dtype):
    x = random(1, 1, 64, 64, 64).to(dtype)
    torch.testing.assert_close(F.avg_pool3d(x.npu(), 2).cpu(), F.avg_pool3d(x.float(), 2).to(dtype), rtol=0, atol=0)


def test_a_repeated_call_reads_its_new_operands():
    for seed in range(4):  # the same shapes: the call is cached from the second on
        x = random(3, 4, seed=seed).half()
        torch.testing.assert_close(torch.cdist(x.npu(), x.npu(), 1.0).cpu(), torch.cdist(x.float(), x.float(), 1.0).half(), rtol=0, atol=0)


def test_a_type_that_no_chip_has_is_refused_still():
    with pytest.raises(NotImplementedError, match="aclnnBitwiseNot.*'Half'"):
        torch.bitwise_not(torch.ones(2, dtype=torch.float16, device="npu"))


@pytest.mark.parametrize("sizes", [(6, 5), (2, 5, 3, 4), (2, 5, 7)], ids=["vectors", "images", "sequences"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"ignore_index": 2}, {"reduction": "none"}], ids=str)
def test_classes_may_be_int32(sizes, options):
    x = random(*sizes)
    classes = torch.randint(5, (sizes[0], *sizes[2:]), generator=torch.Generator().manual_seed(1))
    weight = torch.rand(5, generator=torch.Generator().manual_seed(2))
    host, ours = x.clone().requires_grad_(), x.npu().requires_grad_()
    expected = F.cross_entropy(host, classes, weight, **options)
    result = F.cross_entropy(ours, classes.int().npu(), weight.npu(), **options)
    torch.testing.assert_close(result.cpu(), expected)
    expected.sum().backward()
    result.sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), host.grad)


def test_a_class_out_of_range_is_an_error_in_int32_as_well(check):
    code = """
try:
    torch.nn.functional.nll_loss(torch.zeros(2, 3).npu(), torch.tensor([0, 3], dtype=torch.int32).npu()).item()
except Exception as error:
    assert "out of bounds" in str(error), error
    print("refused")
"""
    assert check(code) == "refused"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("limits", [(), (0, 9), (2, 5)], ids=str)
def test_histc_counts_integers(dtype, limits):
    x = torch.randint(0, 10, (1000,), generator=torch.Generator().manual_seed(0))
    for bins in (1, 3, 7, 10):
        counts = torch.histc(x.to(dtype).npu(), bins, *limits)
        low, high = limits or (int(x.min()), int(x.max()))
        inside = x[(x >= low) & (x <= high)]
        expected = torch.bincount(((inside - low) * bins // (high - low)).clamp(max=bins - 1), minlength=bins)
        assert counts.dtype == dtype
        assert counts.cpu().long().tolist() == (expected if dtype.itemsize > 1 else expected.to(dtype).long()).tolist()


def test_histc_of_large_integers_is_exact():
    x = torch.tensor([2**40, 2**40 + 1, 2**40 + 2, 2**40 + 2])
    assert torch.histc(x.npu(), 3).tolist() == [1, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_masked_scale_broadcasts_as_on_the_cpu(dtype):
    grad, mask = torch.tensor(1.5, dtype=dtype), torch.empty(0, dtype=torch.uint8)
    for function in (torch.ops.aten.native_dropout_backward, torch._masked_scale):
        assert function(grad.npu(), mask.npu(), 2.0).shape == (0,)
        x, keep = random(3, 4).to(dtype), torch.tensor([1, 0, 1, 0], dtype=torch.uint8)
        torch.testing.assert_close(function(x.npu(), keep.npu(), 2.0).cpu(), x * keep * 2, rtol=0, atol=0)


@pytest.mark.parametrize("bias", [None, random(2)], ids=["plain", "bias"])
def test_slow_conv_transpose2d_and_its_gradients(bias):
    results = []
    for device in ("cpu", "npu"):
        operands = [random(2, 3, 5, 5), random(3, 2, 3, 3), *([] if bias is None else [bias])]
        leaves = [t.detach().clone().to(device).requires_grad_() for t in operands]
        y = torch._C._nn.slow_conv_transpose2d(leaves[0], leaves[1], (3, 3), *leaves[2:], stride=2, padding=1, output_padding=1)
        y.square().sum().backward()
        results.append([y, *(t.grad for t in leaves)])
    for ours, expected in zip(*results[::-1]):
        torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-4)
    out = torch.empty(0, device="npu")
    torch._C._nn.slow_conv_transpose2d(random(2, 3, 5, 5).npu(), random(3, 2, 3, 3).npu(), (3, 3), out=out)
    assert out.shape == (2, 2, 7, 7)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", ["div", "mul", "add", "sub", "eq"])
def test_a_number_that_appears_large_is_read_again_by_each_repetition(dtype, op):
    x = random(5, 1).to(dtype)
    for number in (2.0, 4.0, 0.5, 8.0):  # the third call is the first one that repeats a prepared one
        npu = getattr(x.npu(), op)(torch.tensor([[number]], dtype=dtype, device="npu").expand(5, 1))
        assert torch.equal(npu.cpu(), getattr(x, op)(torch.tensor([[number]], dtype=dtype).expand(5, 1)))
