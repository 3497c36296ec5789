"""Arguments that the host can judge are refused by the call itself, with the CPU's exception type, not by a task on the device."""

import pytest
import torch
import torch.nn.functional as F

import torch_npu  # noqa: F401

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")
NAN = float("nan")


class Make:
    """Small tensors of one device."""

    def __init__(self, device):
        self.device = device

    def ones(self, *size, dtype=None):
        return torch.ones(*size, dtype=dtype, device=self.device)

    def half(self, *size):
        return self.ones(*size, dtype=torch.float16)

    def double(self, *size):
        return self.ones(*size, dtype=torch.float64)

    def long(self, *size):
        return self.ones(*size, dtype=torch.int64)

    def of(self, values):
        return torch.tensor(values, device=self.device)


def ctc(m, targets=None, inputs=(5, 5), lengths=(3, 3), **options):
    targets = m.long(2, 3) if targets is None else targets
    return F.ctc_loss(m.ones(5, 2, 4), targets, torch.tensor(inputs), torch.tensor(lengths), **options)


def sparse(m, dtype=torch.float32):
    return m.of([0.0, 1.5]).to(dtype).to_sparse()


REFUSED = {
    # numbers that the tensor's type does not hold
    "masked_fill": lambda m: m.half(3).masked_fill(m.of([True, False, True]), -1e9),
    "masked_fill, tensor": lambda m: m.half(3).masked_fill(m.of([True, False, True]), torch.tensor(-1e9)),
    "fill_": lambda m: m.half(3).fill_(1e9),
    "fill_, uint8": lambda m: m.ones(3, dtype=torch.uint8).fill_(300),
    "full": lambda m: torch.full((3,), 1e9, dtype=torch.float16, device=m.device),
    "scatter": lambda m: m.half(3).scatter(0, m.of([0]), 1e9),
    "scatter_, reduce": lambda m: m.half(3).scatter_(0, m.of([0]), 1e9, reduce="add"),
    "index_fill": lambda m: m.half(3).index_fill(0, m.of([0]), 1e9),
    "pad": lambda m: F.pad(m.half(3), (1, 1), value=1e9),
    "clamp": lambda m: m.half(3).clamp(max=1e9),
    "clamp, uint8": lambda m: m.ones(3, dtype=torch.uint8).clamp(max=300),
    "clamp_min": lambda m: m.half(3).clamp_min(-1e9),
    "hardtanh": lambda m: F.hardtanh(m.half(3), -1e9, 1e9),
    "threshold": lambda m: torch.threshold(m.half(3), 0, 1e9),
    # shapes, dimensions, numbers of elements
    "max": lambda m: m.ones(0).max(), "min": lambda m: m.ones(0).min(),
    "histc, range": lambda m: m.ones(3).histc(4, 3, 1), "histc, bins": lambda m: m.ones(3).histc(0),
    "flip": lambda m: m.ones(2, 2).flip(0, 0),
    "matrix_exp": lambda m: torch.linalg.matrix_exp(m.ones(2, 3)),
    "ctc_loss, blank": lambda m: ctc(m, blank=7), "ctc_loss, long input": lambda m: ctc(m, inputs=(6, 5)),
    "ctc_loss, inputs": lambda m: ctc(m, inputs=(5,)), "ctc_loss, targets": lambda m: ctc(m, lengths=(3,)),
    "ctc_loss, long target": lambda m: ctc(m, lengths=(3, 4)), "ctc_loss, negative": lambda m: ctc(m, lengths=(3, -1)),
    "ctc_loss, concatenated": lambda m: ctc(m, m.long(4)),
    "put_, elements": lambda m: m.ones(4).put_(m.of([0, 1]), m.ones(3)), "put_, empty": lambda m: m.ones(0).put_(m.of([0]), m.ones(1)),
    "take": lambda m: m.ones(0).take(m.of([0])),
    "index_put_, shape": lambda m: m.ones(4).index_put_((m.of([0, 1]),), m.ones(3)),
    "index_put_, rows": lambda m: m.ones(4, 5).index_put_((m.of([0, 1]),), m.ones(2, 4)),
    "index_put_, apart": lambda m: torch.ops.aten.index_put_(m.ones(4, 5, 6), [m.of([0, 1]), None, m.of([0, 1])], m.ones(5, 2)),
    "index_put_, indices": lambda m: m.ones(4).index_put_((m.of([0]), m.of([0])), m.ones(1)),
    "index_put_, broadcast": lambda m: m.ones(4, 4).index_put_((m.of([0, 1]), m.of([0, 1, 2])), m.ones(1)),
    "index_put_, mask": lambda m: m.ones(4).index_put_((m.of([True, True, False]),), m.ones(1)),
    "masked_scatter_": lambda m: m.ones(4).masked_scatter_(m.of([True, False]), m.ones(3)),
    "bernoulli_": lambda m: m.ones(4).bernoulli_(m.ones(3)),
    # random numbers
    "normal": lambda m: torch.normal(m.ones(2), -m.ones(2)), "normal, mean": lambda m: torch.normal(0.0, -m.ones(2)),
    "normal, deviation": lambda m: torch.normal(m.ones(2), -1.0),
    "randperm, int16": lambda m: torch.randperm(40000, dtype=torch.int16, device=m.device),
    "randperm, half": lambda m: torch.randperm(4000, dtype=torch.float16, device=m.device),
    "random_": lambda m: m.ones(3, dtype=torch.uint8).random_(300, None),
    "uniform_, half": lambda m: m.half(3).uniform_(0, 1e6), "uniform_": lambda m: m.ones(3).uniform_(-3e38, 3e38),
    # types
    "matrix_exp, type": lambda m: torch.linalg.matrix_exp(m.long(2, 2)),
    "bernoulli": lambda m: torch.bernoulli(m.long(2)), "poisson": lambda m: torch.poisson(m.long(3)),
    "dropout": lambda m: F.dropout(m.long(3)), "rrelu": lambda m: torch.rrelu(m.long(3), training=True),
    "index_put_, type": lambda m: m.ones(4).index_put_((m.of([0]),), m.long(1)),
    "index_put_, index": lambda m: m.ones(4).index_put_((m.ones(1),), m.ones(1)),
    "mm": lambda m: m.ones(2, 2) @ m.double(2, 2), "bmm": lambda m: torch.bmm(m.ones(2, 2, 2), m.double(2, 2, 2)),
    "baddbmm": lambda m: torch.baddbmm(m.ones(2, 2, 2), m.ones(2, 2, 2), m.double(2, 2, 2)),
    "linear": lambda m: F.linear(m.ones(2, 2), m.double(2, 2)),
    "conv2d": lambda m: F.conv2d(m.ones(1, 1, 2, 2), m.double(1, 1, 1, 1)),
    "batch_norm": lambda m: F.batch_norm(m.ones(2, 2), m.double(2), m.double(2), training=True),
    "group_norm": lambda m: F.group_norm(m.ones(2, 2), 1, m.double(2), m.double(2)),
    "nll_loss": lambda m: F.nll_loss(m.ones(2, 2), m.of([0, 1]), m.double(2)),
    "binary_cross_entropy": lambda m: F.binary_cross_entropy(m.ones(2), m.double(2)),
    "grid_sample": lambda m: F.grid_sample(m.ones(1, 1, 2, 2), m.double(1, 1, 1, 2)),
    "cross": lambda m: torch.linalg.cross(m.ones(3), m.double(3)), "cdist": lambda m: torch.cdist(m.ones(2, 2), m.double(2, 2)),
    "histogram": lambda m: torch.histogram(m.ones(3), m.double(3)),
    "embedding_bag": lambda m: F.embedding_bag(m.of([0, 1]), m.ones(2, 2), m.of([0]), mode="sum", per_sample_weights=m.double(2)),
    "complex, out": lambda m: torch.complex(m.ones(2), m.ones(2), out=m.ones(2)),
    "polar, out": lambda m: torch.polar(m.ones(2), m.ones(2), out=m.ones(2)),
    "sparse add_": lambda m: sparse(m, torch.int32).add_(sparse(m)), "sparse mul_": lambda m: sparse(m, torch.int32).mul_(sparse(m)),
    "add_ of sparse": lambda m: m.ones(2, dtype=torch.int32).add_(sparse(m)),
    # sizes, and numbers that the host reads
    "unique, two empty dimensions": lambda m: torch.unique(m.ones(5, 0, 0), dim=1),
    "unique_consecutive, empty": lambda m: torch.unique_consecutive(m.ones(5, 0, 0), dim=2),
    "segment_reduce, lengths": lambda m: torch._segment_reduce(m.ones(6), "sum", lengths=m.of([0, 2, 3]), axis=0, unsafe=False),
    "segment_reduce, negative": lambda m: torch._segment_reduce(m.ones(6), "sum", lengths=m.of([-1, 7]), axis=0, unsafe=False),
    # matrices that a factorisation does not converge for
    "eigh": lambda m: torch.linalg.eigh(m.ones(3, 3) * NAN), "eigvalsh": lambda m: torch.linalg.eigvalsh(m.ones(2, 3, 3) * NAN),
    "svd": lambda m: torch.linalg.svd(m.ones(3, 3) * NAN), "svdvals": lambda m: torch.linalg.svdvals(m.ones(2, 3, 3) * NAN),
    "pinv": lambda m: torch.linalg.pinv(m.ones(3, 3) * NAN), "cond": lambda m: torch.linalg.cond(m.ones(3, 3) * NAN),
    "eig": lambda m: torch.linalg.eig(m.ones(3, 3) * NAN),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_call_raises_what_the_cpu_raises(name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        REFUSED[name](Make("cpu"))
    with pytest.raises(Exception) as raised:  # noqa: PT011
        REFUSED[name](Make("npu"))
    assert raised.type is expected.type, raised.value
    torch.npu.synchronize()  # nothing failed later


def test_eigenvalues_of_what_is_not_finite():  # the CPU build ends in a segmentation fault
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        torch.linalg.eigvals(torch.full((3, 3), NAN, device="npu"))


@pytest.mark.parametrize("compute", [
    lambda m: m.ones(4).put_(m.of([0]), m.ones(1)), lambda m: F.max_unpool2d(m.ones(1, 1, 1, 1), m.of([[[[0]]]]), 2),
    lambda m: F.max_unpool3d(m.ones(1, 1, 1, 1, 1), m.of([[[[[0]]]]]), 2),
])
def test_operators_without_a_deterministic_kernel(compute):
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
            compute(Make("npu"))
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_probability_outside_the_unit_interval_fails_on_the_device():
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        torch.bernoulli(torch.full((2,), 2.0, device="npu")).cpu()


@pytest.mark.parametrize("index", [
    lambda t: (t([0, 1]),), lambda t: (None, t([0, 1])), lambda t: (t([0, 1]), None, t([1, 2])), lambda t: (None, t([0, 1]), t([1, 2])),
    lambda t: (t([[0], [1]]), t([0, 1])), lambda t: (t([True, False, True, False]),), lambda t: (t([0, 3]), t([True, False, True])),
])
def test_values_of_every_shape_that_fits_are_put(index):
    x = torch.zeros(4, 3, 5)
    shape = x[tuple(slice(None) if i is None else i for i in index(torch.tensor))].shape
    for size in (shape, shape[1:], (1,), ()):
        values = torch.arange(1.0, 1 + torch.Size(size).numel()).reshape(size)
        expected = torch.ops.aten.index_put_(x.clone(), index(torch.tensor), values)
        put = torch.ops.aten.index_put_(x.npu(), index(lambda v: torch.tensor(v, device="npu")), values.npu())
        assert torch.equal(put.cpu(), expected)


@pytest.mark.parametrize("layer", [torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.ConvTranspose2d])
def test_an_input_left_on_the_cpu_is_an_error(layer, check):
    dims = 3 if "3" in layer.__name__ else 1 if "1" in layer.__name__ else 2
    check(f"""
try:
    torch.nn.{layer.__name__}(1, 1, 1).npu()(torch.ones(1, 1, {', '.join('2' * dims)}))
except RuntimeError as error:
    assert "same device" in str(error), error
else:
    raise AssertionError("computed on the CPU")
""", TORCH_NPU_FALLBACK_CPU_DISABLE=None)


def test_trying_types_is_not_seen(check):
    printed = check("""
import warnings
warnings.simplefilter("error")
a = torch.randn(4, device="npu")
a.cpu()
with torch.profiler.profile() as p:
    a[a > 0]
names = {e.name for e in p.events()}
assert not names & {"aten::full", "aten::fill_"}, names
""")
    assert printed == ""
