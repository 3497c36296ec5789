"""The steps of torch.nn.SyncBatchNorm, which the CPU lacks: two cards' halves of a batch give what one batch normalisation gives."""

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
EPS, MOMENTUM = 1e-3, 0.3


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def dtype(request):
    return request.param


@pytest.fixture(params=[(5, 3), (5, 3, 4), (5, 3, 4, 2)], ids=str)
def batch(request, dtype):
    torch.manual_seed(0)
    return (torch.randn(request.param) * 2 + 1).to(dtype)


def halves(batch):
    return [half.npu() for half in batch.split([2, 3])]


def wide(t):
    return t if t.dtype == torch.float64 else t.float()


def statistics(batch):
    dims = [d for d in range(batch.dim()) if d != 1]
    x = wide(batch)
    return x.mean(dims), (x.var(dims, unbiased=False) + EPS).rsqrt()


def close(got, want, dtype):
    loose = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 1e-5)
    torch.testing.assert_close(got.cpu(), want.to(got.dtype), rtol=loose, atol=loose)


def gathered(batch, running_mean=None, running_var=None):
    parts = [torch.batch_norm_stats(half, EPS) for half in halves(batch)]
    mean, invstd = (torch.stack(rows) for rows in zip(*parts))
    counts = torch.tensor([half.numel() / half.size(1) for half in halves(batch)], dtype=mean.dtype).npu()
    return torch.batch_norm_gather_stats_with_counts(batch.npu(), mean, invstd, running_mean, running_var, MOMENTUM, EPS, counts)


def test_statistics_of_a_card_are_kept_in_a_wide_type(batch):
    mean, invstd = torch.batch_norm_stats(batch.npu(), EPS)
    assert mean.dtype == wide(batch).dtype
    for got, want in zip((mean, invstd), statistics(batch)):
        close(got, want, torch.float32)


def test_statistics_of_two_cards_are_those_of_the_batch(batch):
    running_mean, running_var = (torch.full((3,), v, dtype=wide(batch).dtype).npu() for v in (0.5, 2.0))
    for got, want in zip(gathered(batch, running_mean, running_var), statistics(batch)):
        close(got, want, torch.float32)
    mean, var = torch.full((3,), 0.5).double(), torch.full((3,), 2.0).double()
    F.batch_norm(batch.double(), mean, var, training=True, momentum=MOMENTUM, eps=EPS)
    close(running_mean, mean, torch.float32)
    close(running_var, var, torch.float32)


def test_running_statistics_may_be_absent(batch):
    assert all(torch.equal(a, b) for a, b in zip(gathered(batch), gathered(batch, torch.zeros(3).npu(), torch.ones(3).npu())))


@pytest.mark.parametrize("affine", [True, False])
def test_both_directions_equal_one_batch_normalisation(batch, dtype, affine):
    weight, bias = (torch.randn(3, dtype=wide(batch).dtype) for _ in range(2)) if affine else (None, None)
    x, w, b = (None if t is None else t.double().requires_grad_() for t in (batch, weight, bias))
    want = F.batch_norm(x, None, None, w, b, training=True, eps=EPS)
    grad = torch.randn(batch.shape).to(dtype)
    want.backward(grad.double())

    def npu(t):
        return None if t is None else t.npu()

    mean, invstd = gathered(batch)
    out = torch.batch_norm_elemt(batch.npu(), npu(weight), npu(bias), mean, invstd, EPS)
    assert out.dtype == dtype
    close(out, want.detach(), dtype)
    given = torch.empty_like(out)
    torch.batch_norm_elemt(batch.npu(), npu(weight), npu(bias), mean, invstd, EPS, out=given)
    assert torch.equal(given, out)
    parts = [
        torch.batch_norm_backward_reduce(g, h, mean, invstd, npu(weight), True, affine, affine) for g, h in zip(halves(grad), halves(batch))
    ]
    sum_dy, sum_dy_xmu = (sum(rows) for rows in list(zip(*parts))[:2])
    counts = torch.tensor([half.numel() // half.size(1) for half in halves(batch)], dtype=torch.int32).npu()
    grad_input = torch.cat([torch.batch_norm_backward_elemt(g, h, mean, invstd, npu(weight), sum_dy, sum_dy_xmu, counts)
                            for g, h in zip(halves(grad), halves(batch))])  # fmt: skip
    close(grad_input, x.grad, dtype)
    if affine:
        close(sum(part[2] for part in parts), w.grad, dtype)
        close(sum(part[3] for part in parts), b.grad, dtype)
    else:
        assert parts[0][2] is None and parts[0][3] is None
