"""torch_npu.contrib beyond values: gradients against finite differences in float64, and shapes of FakeTensors against real ones."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_npu import contrib


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


ROIS = torch.tensor([[0.0, 1, 1, 6, 5], [1, 0, 2, 4, 7]], dtype=torch.float64)
MASK = torch.zeros(2, 2, 4, 4, dtype=torch.float64)
WEIGHTS = [*(rand(6, 6, seed=i) for i in range(3)), *(rand(6, seed=i) for i in range(3))]
CORNERS = torch.tensor([[0.0, 0, 4, 3], [2, 1, 7, 6], [5, 5, 9, 8]], dtype=torch.float64)
# name: what makes a module, and the module's inputs; floating ones are differentiated
CASES = {
    "BiLSTM": (lambda: contrib.BiLSTM(4, 3), [rand(5, 2, 4)]),
    "ChannelShuffle": (lambda: contrib.ChannelShuffle(4, 2, False), [rand(2, 4, 3, 3), rand(2, 4, 3, 3, seed=1)]),
    "DCNv2": (lambda: contrib.DCNv2(2, 2, 3, padding=1, deformable_groups=1), [rand(1, 2, 4, 4)]),
    "ModulatedDeformConv": (lambda: contrib.ModulatedDeformConv(2, 2, 3, padding=1), [rand(1, 2, 4, 4)]),
    "DropoutWithByteMask": (lambda: contrib.DropoutWithByteMask(0.25), [rand(8, 4)]),
    "NpuCachedDropout": (lambda: contrib.NpuCachedDropout(0.25), [rand(8, 4)]),
    "NpuFairseqDropout": (lambda: contrib.NpuFairseqDropout(0.25), [rand(8, 4)]),
    "NpuPreGenDropout": (lambda: contrib.NpuPreGenDropout(0.25), [rand(8, 4)]),
    "NpuDropPath": (lambda: contrib.NpuDropPath(0.5), [rand(6, 3, 2)]),
    "FastBatchNorm1d": (lambda: contrib.FastBatchNorm1d(3), [rand(4, 3, 5)]),
    "FastBatchNorm2d": (lambda: contrib.FastBatchNorm2d(3), [rand(4, 3, 2, 2)]),
    "FastBatchNorm3d": (lambda: contrib.FastBatchNorm3d(3), [rand(2, 3, 2, 2, 2)]),
    "FastSyncBatchNorm": (lambda: contrib.FastSyncBatchNorm(3), [rand(4, 3, 2, 2)]),
    "Focus": (lambda: contrib.Focus(2, 3, k=3), [rand(2, 2, 4, 4)]),
    "LabelSmoothingCrossEntropy": (lambda: contrib.LabelSmoothingCrossEntropy(5, 0.2), [rand(3, 5), torch.tensor([0, 3, 2])]),
    "Mish": (contrib.Mish, [rand(3, 4)]),
    "SiLU": (contrib.SiLU, [rand(3, 4)]),
    "Swish": (contrib.Swish, [rand(3, 4)]),
    "MultiheadAttention": (lambda: Calling(contrib.MultiheadAttention(8, 2), 2, 3, 3),
                           [rand(6, 8), rand(6, 8, seed=1), rand(6, 8, seed=2)]),
    "ROIAlign": (lambda: Function(contrib.ROIAlign((2, 2), 1.0, 2), ROIS), [rand(2, 2, 8, 8)]),
    "PSROIPool": (lambda: Function(contrib.PSROIPool(2, 2, 1.0, 2, 1), ROIS), [rand(2, 4, 8, 8)]),
    "fuse_add_softmax_dropout": (lambda: Function(lambda scores: contrib.fuse_add_softmax_dropout(
        training=True, dropout=nn.Dropout(0.0), attn_mask=torch.zeros_like(scores), attn_scores=scores, attn_head_size=4)),
                                 [rand(2, 2, 4, 4)]),
    "matmul_transpose": (lambda: Function(contrib.matmul_transpose), [rand(2, 3, 4), rand(2, 5, 4)]),
    "npu_fused_attention": (lambda: Function(contrib.npu_fused_attention, MASK), [rand(8, 6), *WEIGHTS]),
    "npu_fused_attention_with_layernorm": (lambda: Function(contrib.npu_fused_attention_with_layernorm, MASK),
                                           [rand(8, 6), *WEIGHTS, rand(6, seed=4), rand(6, seed=5)]),
    "npu_iou": (lambda: Function(contrib.npu_iou), [CORNERS + 0.1, CORNERS + rand(3, 4).abs() * 0.3]),
    "npu_giou": (lambda: Function(lambda a, b: contrib.npu_giou(a.t(), b.t(), is_permuted=False)),
                 [CORNERS + 0.1, CORNERS + rand(3, 4).abs() * 0.3]),
    "roll": (lambda: Function(lambda x: contrib.roll(x, 1, 1)), [rand(3, 4)]),
}


class Function(nn.Module):
    """A function as a module; `fixed` goes between its first input and the others."""

    def __init__(self, function, *fixed):
        super().__init__()
        self.function = function
        for i, tensor in enumerate(fixed):
            self.register_buffer(str(i), tensor)

    def forward(self, first, *rest):
        return self.function(first, *self.buffers(), *rest)


class Calling(nn.Module):
    """Numbers after the tensors."""

    def __init__(self, module, *numbers):
        super().__init__()
        self.module, self.numbers = module, numbers

    def forward(self, *tensors):
        return self.module(*tensors, *self.numbers)


def floating(result):
    return [t for t in tree_leaves(result) if isinstance(t, torch.Tensor) and t.is_floating_point()]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences(name):
    make, inputs = CASES[name]
    torch.manual_seed(0)
    module = make().double().npu()
    inputs = [t.npu().requires_grad_(t.is_floating_point()) for t in inputs]

    def seeded(*tensors):
        torch.npu.manual_seed(5)  # dropout draws the same again
        if hasattr(module, "masks"):
            module.masks = None
        return tuple(t for t in floating(module(*tensors)) if t.requires_grad)

    assert torch.autograd.gradcheck(seeded, inputs)


@pytest.mark.parametrize("name", CASES)
def test_fake_tensors_have_the_shapes_of_real_ones(name):
    make, inputs = CASES[name]
    module = make().double().npu()
    inputs = [t.npu() for t in inputs]
    real = [(t.shape, t.dtype, t.device) for t in floating(module(*inputs))]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        fake = floating(module(*tree_map_only(torch.Tensor, mode.from_tensor, inputs)))
    assert [(t.shape, t.dtype, t.device) for t in fake] == real
