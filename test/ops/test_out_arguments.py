"""Types, devices and shapes of out= tensors: what the CPU refuses is refused, what it keeps is kept."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")

CASES = {
    "median": lambda a, o: torch.median(a, 0, out=(o, torch.empty(0, dtype=torch.long, device=a.device))),
    "nanmedian": lambda a, o: torch.nanmedian(a, 0, out=(o, torch.empty(0, dtype=torch.long, device=a.device))),
    "kthvalue": lambda a, o: torch.kthvalue(a, 1, out=(o, torch.empty(0, dtype=torch.long, device=a.device))),
    "mode": lambda a, o: torch.mode(a, out=(o, torch.empty(0, dtype=torch.long, device=a.device))),
    "index_select": lambda a, o: torch.index_select(a, 0, torch.tensor([0, 1], device=a.device), out=o),
    "take": lambda a, o: torch.take(a, torch.zeros(2, 2, dtype=torch.long, device=a.device), out=o),
    "histc": lambda a, o: torch.histc(a, 2, 0, 3, out=o),
    "im2col": lambda a, o: torch.ops.aten.im2col.out(a.view(1, 1, 2, 2), [2, 2], [1, 1], [0, 0], [1, 1], out=o),
    "addbmm": lambda a, o: torch.addbmm(a, a[None], a[None], out=o),
    "searchsorted": lambda a, o: torch.searchsorted(a, a, out=o),
    "searchsorted int32": lambda a, o: torch.searchsorted(a, a, out_int32=True, out=o),
    "bucketize": lambda a, o: torch.bucketize(a, a[1], out=o),
    "bucketize int32": lambda a, o: torch.bucketize(a, a[1], out_int32=True, out=o),
    "masked_select": lambda a, o: torch.masked_select(a, a > 0, out=o),
    "abs": lambda a, o: torch.abs(a, out=o),
    "logical_not": lambda a, o: torch.logical_not(a, out=o),
}
TYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.complex64]


def result(name, dtype, device):
    a = torch.tensor([[2.0, 1.0], [0.5, 3.0]], device=device)
    out = torch.empty(0, dtype=dtype, device=device)
    try:
        CASES[name](a, out)
        torch.npu.synchronize()
    except RuntimeError:
        return "refused"
    return out.cpu()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_types(name, dtype):
    here, there = result(name, dtype, "cpu"), result(name, dtype, "npu")
    assert type(here) is type(there)
    if not isinstance(here, str):
        torch.testing.assert_close(there, here)


@pytest.mark.parametrize("name", CASES)
def test_an_out_tensor_on_the_cpu_is_refused(name):
    with pytest.raises(RuntimeError):
        CASES[name](torch.ones(2, 2, device="npu"), torch.empty(0, dtype=torch.long if "s" == name[0] else torch.float32))


@pytest.mark.parametrize("shape", [(2, 2), (4,), (0,), (4, 1)])
@pytest.mark.parametrize("name", ["linspace", "logspace", "range"])
@pytest.mark.filterwarnings("ignore")
def test_ranges_keep_the_shape(name, shape):
    def fill(device):
        out = torch.empty(shape, device=device)
        if name == "range":
            return torch.range(0, 3, out=out)
        return getattr(torch, name)(0, 1, 4, out=out)

    torch.testing.assert_close(fill("npu").cpu(), fill("cpu"))


def test_ranges_into_strided_memory():
    there = torch.zeros(2, 4, device="npu")[:, ::2]
    torch.linspace(0, 1, 4, out=there)
    torch.testing.assert_close(there.cpu(), torch.linspace(0, 1, 4).view(2, 2))


@pytest.mark.parametrize("sizes", [(-1,), (2, -1)])
def test_a_negative_size_of_an_identity(sizes):
    messages = []
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError) as error:
            torch.eye(*sizes, device=device)
        messages.append(str(error.value).splitlines()[0])
    assert messages[0] == messages[1]
