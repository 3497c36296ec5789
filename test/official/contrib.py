"""Modules and functions of torch_npu.contrib, against their formulas in plain torch."""

import torch
from rows import each
from torch.nn import functional as F

import torch_npu
from torch_npu import contrib

IN_MODES = ("queue 1",)
torch.manual_seed(0)
IMAGE = torch.randn(2, 4, 6, 6)


def shuffled(x):
    n, c, h, w = x.shape
    return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


# What the client computes on the card, and the formula.
FORMULAS = {
    "matmul_transpose": (lambda: contrib.matmul_transpose(IMAGE.npu(), IMAGE.npu()), lambda: IMAGE @ IMAGE.transpose(-1, -2)),
    "condition put": (
        lambda: contrib.npu_fast_condition_index_put(IMAGE.npu(), IMAGE.npu() > 0, 2.0),
        lambda: IMAGE.masked_fill(IMAGE > 0, 2.0),
    ),
    "focus": (lambda: contrib.Focus(4, 3, 1).npu()(IMAGE.npu()).shape, lambda: torch.Size([2, 3, 3, 3])),
    "drop path in evaluation": (lambda: contrib.NpuDropPath(0.5).eval()(IMAGE.npu()), lambda: IMAGE),
    "cached dropout in evaluation": (lambda: contrib.NpuCachedDropout(0.5).eval()(IMAGE.npu()), lambda: IMAGE),
    "channel shuffle": (
        lambda: contrib.ChannelShuffle(4, split_shuffle=False).npu()(IMAGE[:, :2].npu(), IMAGE[:, 2:].npu()),
        lambda: shuffled(IMAGE),
    ),
    "swiglu": (lambda: torch_npu.npu_swiglu(IMAGE.npu(), dim=-1), lambda: F.silu(IMAGE[..., :3]) * IMAGE[..., 3:]),
    "rms norm": (lambda: torch_npu.npu_rms_norm(IMAGE.npu(), torch.ones(6).npu(), 1e-6)[0], lambda: F.rms_norm(IMAGE, (6,), eps=1e-6)),
    "fast_gelu": (
        lambda: torch_npu.fast_gelu(IMAGE.npu()),
        lambda: IMAGE * torch.exp(0.851 * (IMAGE - IMAGE.abs())) / (1 + torch.exp(-1.702 * IMAGE.abs())),
    ),
    "rotary": (
        lambda: torch_npu.npu_rotary_mul(IMAGE.npu(), torch.ones(1, 1, 6, 6).npu(), torch.ones(1, 1, 6, 6).npu()),
        lambda: IMAGE + torch.cat([-IMAGE[..., 3:], IMAGE[..., :3]], -1),
    ),
    "dtype cast": (lambda: torch_npu.npu_dtype_cast(IMAGE.npu(), torch.float16), lambda: IMAGE.half()),
    "one_": (lambda: torch_npu.one_(torch.zeros(3).npu()), lambda: torch.ones(3)),
}


@each(FORMULAS)
def check_formulas(row):
    found, expected = row[0](), row[1]()
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-4)
    else:
        assert found == expected


@each([1, 2, 3])
def check_batch_norms_of_the_client(dims):
    ours, plain = getattr(contrib.module, f"FastBatchNorm{dims}d")(3).npu(), getattr(torch.nn, f"BatchNorm{dims}d")(3)
    x = torch.randn(4, 3, *[5] * dims)
    torch.testing.assert_close(ours(x.npu()).cpu(), plain(x), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(ours.running_mean.cpu(), plain.running_mean, rtol=1e-3, atol=1e-4)
