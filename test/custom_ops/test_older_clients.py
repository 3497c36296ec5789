"""Further rows of softnpu that only other clients call, older forms of operators among them: through the C ABI, against plain torch."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import rand  # noqa: E402

from abi import load, run  # noqa: E402

X = rand(4, 5)
EDGES = torch.stack([X.min(), X[0, 0], X[1, 1], X.max()]).sort().values
SCALES, POINTS, SMOOTH = torch.tensor([20.0, 7.0, 90.0, 3.0, 11.0]), torch.tensor([3.0, -9.0, 5.0, 60.0, 1.0]), rand(5).abs() + 0.5


@pytest.fixture(scope="module")
def library():
    torch.ones(1).npu()
    return load()


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_bucketize(library, right, dtype):
    out = torch.zeros(4, 5, dtype=dtype, device="npu")
    run(library, "aclnnBucketize", self=X.npu(), boundaries=EDGES.npu(), out_int32=dtype == torch.int32, right=right, out=out)
    assert torch.equal(out.cpu(), torch.bucketize(X, EDGES, out_int32=dtype == torch.int32, right=right))


def test_coalescing_adds_values_of_one_place(library):
    indices, values = torch.tensor([[1, 2], [3, 4], [1, 2], [0, 5]]), torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    made, sums = torch.zeros(3, 2, dtype=torch.int64, device="npu"), torch.full((3, 2), 9.0, device="npu")
    run(library, "aclnnCoalesceSparse", unique_len=torch.tensor([3, 2, 1]).npu(), unique_indices=torch.tensor([1, 2, 1, 0]).npu(),
        indices_t=indices.npu(), values_f=values.npu(), new_indices_t=made, new_values_f=sums)
    assert made.tolist() == [[0, 5], [1, 2], [3, 4]] and sums.tolist() == [[7, 8], [6, 8], [3, 4]]


@pytest.mark.parametrize("points", [None, POINTS])
def test_quantisation_by_column(library, points):
    out = torch.zeros(4, 5, dtype=torch.int8, device="npu")
    points = None if points is None else points.npu()
    run(library, "aclnnAscendQuant", self=X.npu(), scales=SCALES.npu(), zero_points=points, sqrt_mode=False, arg="round", y_acl_type=2,
        y=out)
    expected = (X * SCALES + (0 if points is None else points.cpu())).round().clamp(-128, 127)
    assert torch.equal(out.cpu().float(), expected)


@pytest.mark.parametrize("smooth", [None, SMOOTH])
def test_quantisation_by_the_largest_of_a_row(library, smooth):
    out, scale = torch.zeros(4, 5, dtype=torch.int8, device="npu"), torch.zeros(4, device="npu")
    x = X.half()
    run(library, "aclnnDynamicQuant", input=x.npu(), smooth_scales=None if smooth is None else smooth.half().npu(), y=out, scale=scale)
    wide = x.float() if smooth is None else x.float() * smooth.half().float()
    expected = wide.abs().amax(-1) / 127
    torch.testing.assert_close(scale.cpu(), expected, rtol=1e-3, atol=1e-6)
    assert (out.cpu().float() - (wide / expected[:, None]).round()).abs().max() <= 1


def test_dropout_of_a_given_seed(library):
    x = torch.rand(2048, device="npu") + 1
    found = {}
    for seed, offset, p in ((5, 0, 0.25), (5, 0, 0.25), (6, 0, 0.25), (5, 8, 0.25), (5, 0, 0.75)):
        out, mask = torch.zeros_like(x), torch.zeros(2048 // 8, dtype=torch.uint8, device="npu")
        run(library, "aclnnDropoutV3", self=x, optional_noise_shape=None, p=p, seed=seed, offset=offset, out=out, mask=mask)
        alone = torch.zeros_like(mask)
        run(library, "aclnnDropoutGenMask", shape=[2048], p=p, seed=seed, offset=offset, mask=alone)
        kept = torch.stack([mask.cpu() >> bit & 1 for bit in range(8)], -1).flatten().bool()
        torch.testing.assert_close(out.cpu(), torch.where(kept, x.cpu() / (1 - p), 0.0))
        assert torch.equal(mask, alone)
        assert abs(kept.float().mean().item() - (1 - p)) < 0.05
        key = seed, offset, p
        assert key not in found or torch.equal(found[key], kept)
        found[key] = kept
    assert len({tuple(kept.tolist()) for kept in found.values()}) == 4
