"""Rows of softnpu that no operator here calls, because other clients do: through the C ABI, against what torch says on the CPU."""

import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import grads, rand  # noqa: E402

from abi import run  # noqa: E402

aten = torch.ops.aten
X, Y, Z = rand(4, 5), rand(4, 5, seed=1), rand(4, 5, seed=2).abs() + 0.5
SQUARE = rand(3, 3) + 3 * torch.eye(3)
IMAGE = rand(2, 3, 6, 7)
LISTS = {"self": [X, rand(3)], "other": [Y, rand(3, seed=1)], "tensor1": [Y, rand(3, seed=1)], "tensor2": [Z, rand(3, seed=2).abs() + 0.5]}
SIGNAL, WINDOW = rand(20), rand(5).abs()
POOL = {"kernel_size": [3, 2], "stride": [2, 3], "padding": [1, 0], "dilation": [1, 1], "ceil_mode": True}


def pooled(x):
    return F.max_pool2d(x, (3, 2), (2, 3), (1, 0), (1, 1), True)


def quantised(x, scale, zero_point, least, most):
    return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, least, most)


def each(name, numbers, function):
    """A row over lists: those of LISTS that it has, and a tensor of numbers."""
    given = {key: LISTS[key] for key in ("self", "other", "tensor1", "tensor2") if key == "self" or key in function.__code__.co_varnames}
    key = next(iter(numbers))
    each_number = numbers[key].tolist() if numbers[key].numel() > 1 else [numbers[key].item()] * 2
    expected = [function(*tensors, number) for *tensors, number in zip(*given.values(), each_number)]
    return name, {**given, **numbers}, {"out": expected}


def rfft(x, length, dim, norm):
    return torch.view_as_real(torch.fft.rfft(x, length, dim, norm))


# operator, what it is given, {output: what is in it afterwards}; tensors are the CPU's
CASES = [
    ("aclnnIsClose", {"self": X, "other": X + 0.2, "rtol": 0.3, "atol": 0.05}, {"out": torch.isclose(X, X + 0.2, 0.3, 0.05)}),
    ("aclnnIsClose", {"self": X / 0, "other": X / 0, "rtol": 0.3, "atol": 0.05, "equal_nan": True}, {"out": torch.ones(4, 5).bool()}),
    ("aclnnIsClose", {"self": X * torch.nan, "other": X * torch.nan, "rtol": 0.3, "atol": 0.05}, {"out": torch.zeros(4, 5).bool()}),
    *[("aclRfft1D", {"self": X, "length": length, "dim": dim, "normalize": number}, {"kernel_result": rfft(X, length, dim, norm)})
      for length, dim, number, norm in ((3, 0, 1, "backward"), (6, 1, 2, "forward"), (4, -1, 3, "ortho"))],
    *[("aclStft", {"self": SIGNAL, "window": WINDOW, "n_fft": 6, "hop_length": 3, "win_length": 5, "normalized": normalized,
                   "onesided": onesided, "return_complex": True},
       {"out": torch.stft(SIGNAL, 6, 3, 5, WINDOW, False, normalized=normalized, onesided=onesided, return_complex=True)})
      for normalized, onesided in ((True, True), (False, False))],
    ("aclStft", {"self": SIGNAL, "n_fft": 4, "hop_length": 2, "win_length": 4, "onesided": True},
     {"out": torch.view_as_real(torch.stft(SIGNAL, 4, 2, 4, torch.ones(4), False, onesided=True, return_complex=True))}),
    each("aclnnForeachAddList", {"alpha": torch.tensor([2.5])}, lambda self, other, number: self + number * other),
    each("aclnnForeachSubList", {"alpha": torch.tensor([2.5])}, lambda self, other, number: self - number * other),
    each("aclnnForeachAddScalar", {"scalar": torch.tensor([2.5])}, lambda self, number: self + number),
    each("aclnnForeachSubScalar", {"scalar": torch.tensor([2.5])}, lambda self, number: self - number),
    each("aclnnForeachMulScalar", {"scalar": torch.tensor([2.5])}, lambda self, number: self * number),
    each("aclnnForeachDivScalar", {"scalar": torch.tensor([2.5])}, lambda self, number: self / number),
    each("aclnnForeachMaximumScalar", {"scalar": torch.tensor([0.3])}, lambda self, number: self.clamp(min=number)),
    each("aclnnForeachMinimumScalar", {"scalar": torch.tensor([0.3])}, lambda self, number: self.clamp(max=number)),
    each("aclnnForeachAddcmulScalar", {"scalar": torch.tensor([2.5])},
         lambda self, tensor1, tensor2, number: self + number * tensor1 * tensor2),
    each("aclnnForeachAddcdivScalar", {"scalar": torch.tensor([2.5])},
         lambda self, tensor1, tensor2, number: self + number * tensor1 / tensor2),
    each("aclnnForeachAddcmulScalarList", {"scalars": torch.tensor([2.5, 0.7])},
         lambda self, tensor1, tensor2, number: self + number * tensor1 * tensor2),
    each("aclnnForeachAddcdivScalarList", {"scalars": torch.tensor([2.5, 0.7])},
         lambda self, tensor1, tensor2, number: self + number * tensor1 / tensor2),
    *[("aclnnUpsampleBilinear2dBackward", {"grad_output": rand(2, 3, 9, 5), "output_size": [9, 5], "input_size": [2, 3, 6, 7],
                                           "align_corners": aligned, "scales_h": 1.5, "scales_w": 0.75},
       {"grad_input": aten.upsample_bilinear2d_backward(rand(2, 3, 9, 5), [9, 5], [2, 3, 6, 7], aligned, 1.5, 0.75)})
      for aligned in (True, False)],
    ("aclnnIndexFillTensor", {"self": X, "dim": 1, "index": [3, 0], "value": 2.5},
     {"out": X.index_fill(1, torch.tensor([3, 0]), 2.5)}),
    ("aclnnInplaceIndexFillTensor", {"self": X, "dim": 1, "index": [3, 0], "value": 2.5},
     {"self": X.index_fill(1, torch.tensor([3, 0]), 2.5)}),
    ("aclnnIndexAddV2", {"self": X, "dim": 1, "index": torch.tensor([3, 0]), "source": rand(4, 2), "alpha": 2.5},
     {"out": X.index_add(1, torch.tensor([3, 0]), rand(4, 2), alpha=2.5)}),
    *[("aclnnInplaceFillDiagonal", {"self": rand(7, 3), "fill": 2.5, "wrap": wrap}, {"self": rand(7, 3).fill_diagonal_(2.5, wrap)})
      for wrap in (True, False)],
    *[("aclnnOneHot", {"self": torch.tensor([2, 0, 1]), "depth": 4, "on_value": torch.tensor([5]), "off_value": torch.tensor([-2]),
                       "axis": axis},
       {"out": (F.one_hot(torch.tensor([2, 0, 1]), 4) * 7 - 2).movedim(-1, axis).contiguous()}) for axis in (-1, 0)],
    ("aclnnRepeatInterleave", {"self": X[0], "repeats": torch.tensor([2, 0, 1, 3, 1]), "output_size": 7},
     {"out": X[0].repeat_interleave(torch.tensor([2, 0, 1, 3, 1]))}),
    ("aclnnRepeatInterleaveInt", {"self": X, "repeats": 3, "output_size": 60}, {"out": X.repeat_interleave(3)}),
    ("aclnnRepeatInterleaveIntWithDim", {"self": X, "repeats": 3, "dim": 1, "output_size": 15}, {"out": X.repeat_interleave(3, 1)}),
    ("aclnnRepeatInterleaveWithDim", {"self": X, "repeats": torch.tensor([2, 0, 1, 3, 1]), "dim": 1, "output_size": 7},
     {"out": X.repeat_interleave(torch.tensor([2, 0, 1, 3, 1]), 1)}),
    ("aclnnStridedSlice", {"self": IMAGE, "begin": [1, 0, 4, 2], "end": [2, 3, 0, 6], "strides": [1, 2, -2, 3]},
     {"out": IMAGE[1:2, ::2, [4, 2]][..., 2:6:3]}),
    ("aclnnStridedSlice", {"self": X, "begin": [1, 2], "end": [3, 4], "strides": [1, 1], "begin_mask": 1, "end_mask": 2},
     {"out": X[:3, 2:]}),
    ("aclnnStridedSlice", {"self": X, "begin": [1, 2], "end": [3, 4], "strides": [1, 1], "shrink_axis_mask": 1}, {"out": X[1, 2:4]}),
    ("aclnnStridedSlice", {"self": X, "begin": [0, 2], "end": [0, 4], "strides": [1, 1], "ellipsis_mask": 1}, {"out": X[..., 2:4]}),
    ("aclnnStridedSlice", {"self": X, "begin": [0, 2], "end": [0, 4], "strides": [1, 1], "new_axis_mask": 1}, {"out": X[None, 2:4]}),
    ("aclnnInverse", {"self": SQUARE}, {"out": torch.linalg.inv(SQUARE)}),
    *[("aclnnLinalgCholesky", {"self": SQUARE @ SQUARE.mT, "upper": upper}, {"out": torch.linalg.cholesky(SQUARE @ SQUARE.mT, upper=upper)})
      for upper in (True, False)],
    ("aclnnSlogdet", {"self": -SQUARE}, {"sign": torch.linalg.slogdet(-SQUARE)[0], "log": torch.linalg.slogdet(-SQUARE)[1]}),
    ("aclnnConvTbcBackward", {"self": rand(5, 2, 4), "input": rand(4, 2, 3), "weight": rand(2, 3, 4), "bias": rand(4), "pad": 1},
     dict(zip(("grad_input", "grad_weight", "grad_bias"),
              aten.conv_tbc_backward(rand(5, 2, 4), rand(4, 2, 3), rand(2, 3, 4), rand(4), 1)))),
    *[("aclnnFakeQuantPerTensorAffineCachemask", {"self": X, "scale": torch.tensor([0.3]),
                                                  "zero_point": torch.tensor([2], dtype=torch.int32), "fake_enabled": enabled,
                                                  "quant_min": -3, "quant_max": 4},
       {"out": quantised(X, 0.3, 2, -3, 4) if enabled else X}) for enabled in (1.0, 0.0)],
    ("aclnnFastLayerNorm", {"input": X, "normalized_shape": [5], "input_weight": rand(5), "input_bias": rand(5, seed=1), "eps": 0.3},
     dict(zip(("out", "mean_out", "rstd_out"), aten.native_layer_norm(X, [5], rand(5), rand(5, seed=1), 0.3)))),
    ("aclnnGeluBackward", {"grad_output": X, "self": Y}, {"grad_input": aten.gelu_backward(X, Y)}),
    ("aclnnHardswishBackwardV2", {"grad_output": X, "self": 3 * Y}, {"out": aten.hardswish_backward(X, 3 * Y)}),
    *[("aclnnKlDiv", {"self": X, "target": Z, "reduction": number, "log_target": log},
       {"out": F.kl_div(X, Z, reduction=name, log_target=log)})
      for number, name, log in ((0, "none", True), (2, "sum", False), (1, "mean", True))],
    *[("aclnnL1Loss", {"self": X, "target": Y, "reduction": number}, {"out": F.l1_loss(X, Y, reduction=name)})
      for number, name in ((0, "none"), (1, "mean"), (2, "sum"))],
    ("aclnnMaxPool2dWithMask", {"self": IMAGE, **POOL}, {"out": pooled(IMAGE), "indices": None}),
    ("aclnnMaxPool2dWithMaskBackward", {"grad_output": rand(*pooled(IMAGE).shape, seed=3), "self": IMAGE,
                                        "indices": torch.zeros(4096).to(torch.int8), **POOL},
     {"grad_input": grads(pooled, (IMAGE,), rand(*pooled(IMAGE).shape, seed=3))[0]}),
]


def moved(value):
    return value.npu() if isinstance(value, torch.Tensor) else [moved(v) for v in value] if isinstance(value, list) else value


def room(expected):
    """Memory for an output, filled with ones."""
    return torch.ones_like(expected, device="npu") if isinstance(expected, torch.Tensor) else [room(e) for e in expected]


@pytest.mark.parametrize("name, given, expected", CASES, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(CASES)])
def test_equals_torch(library, name, given, expected):
    arguments = {key: moved(value) for key, value in given.items()}
    outputs = {key: arguments[key] if key in arguments else room(torch.zeros(4096, dtype=torch.int8) if value is None else value)
               for key, value in expected.items()}
    if name == "aclnnFakeQuantPerTensorAffineCachemask":
        arguments["mask"] = torch.zeros(4, 5, dtype=torch.bool, device="npu")
    run(library, name, **{**arguments, **outputs})
    for key, value in expected.items():
        if value is not None:
            actual = [t.cpu() for t in outputs[key]] if isinstance(value, list) else outputs[key].cpu()
            torch.testing.assert_close(actual, value, rtol=1e-4, atol=1e-5, equal_nan=True)


SEEDED = {
    "aclnnInplaceNormalTensor": ({"mean": 2.0, "rstd": 3.0}, lambda x: x.normal_(2.0, 3.0)),
    "aclnnInplaceUniformTensor": ({"from_": -2.0, "to": 3.0}, lambda x: x.uniform_(-2.0, 3.0)),
    "aclnnInplaceRandomTensor": ({"from_": -5, "to": 9}, lambda x: x.random_(-5, 9)),
    "aclnnInplaceRandomWithoutFromToTensor": ({}, lambda x: x.random_()),
}


def position():
    """Seed and offset at which the next number is drawn."""
    state = torch.npu.get_rng_state()
    return [state[i : i + 8].view(torch.int64).item() for i in (0, 8)]


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_in_a_tensor_draws_what_the_generator_does(library, name):
    options, draw = SEEDED[name]
    torch.npu.manual_seed(11)
    torch.rand(7, device="npu")
    seed, offset = position()
    expected = draw(torch.empty(50, device="npu"))
    for given, more in ((offset, 0), (0, offset), (offset - 3, 3)):
        result = torch.zeros(50, device="npu")
        run(library, name, self=result, **options, seed_ptr=torch.tensor([seed]).npu(), offset_ptr=torch.tensor([given]).npu(),
            offset_intragraph=more)
        assert offset > 3 and torch.equal(result, expected)


def test_numbers_of_a_whole_type(library):
    torch.npu.manual_seed(11)
    torch.rand(7, device="npu")
    seed, offset = position()
    result, expected = torch.zeros(50, device="npu"), torch.empty(50, device="npu").random_()
    run(library, "aclnnInplaceRandomWithoutFromTo", self=result, first=seed, second=offset)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_with_a_seed_in_a_tensor(library, replacement):
    weights = torch.rand(3, 40).npu()
    torch.npu.manual_seed(11)
    torch.rand(7, device="npu")
    seed, offset = position()
    expected = weights.multinomial(20, replacement)
    result = torch.zeros(3, 20, dtype=torch.int64, device="npu")
    run(library, "aclnnMultinomialTensor", self=weights, num_samples=20, replacement=replacement, seed_ptr=torch.tensor([seed]).npu(),
        offset_ptr=torch.tensor([offset - 2]).npu(), offset_intragraph=2, out=result)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("options", [{"momentum": 0.8}, {"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}, {"maximize": True},
                                     {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}], ids=str)
def test_steps_of_sgd(library, options):
    parameters = [torch.nn.Parameter(rand(4, 5)), torch.nn.Parameter(rand(3))]
    optimizer = torch.optim.SGD(parameters, lr=0.3, **options)
    ours, buffers = [p.detach().npu() for p in parameters], [torch.zeros_like(p).npu() for p in parameters]
    for step in range(3):
        for i, p in enumerate(parameters):
            p.grad = rand(*p.shape, seed=5 + step + i)
        run(library, "aclnnFusedSgd", params=ours, grads=[p.grad.npu() * 4 for p in parameters],
            momentum_buffers=buffers if "momentum" in options else [], lr=0.3, is_first_step=step == 0,
            grad_scale=torch.tensor([4.0]).npu(), **options)
        optimizer.step()
    torch.testing.assert_close([t.cpu() for t in ours], [p.detach() for p in parameters], rtol=1e-5, atol=1e-6)
