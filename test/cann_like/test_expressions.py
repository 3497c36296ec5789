"""What reaches a device library like CANN's for one expression, operator by operator: the names that the official client was seen to send
for the same (ci/sweep.sh calls), no copy more, and no float64 where nobody asked for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "tools/calls")]

import folder  # noqa: E402
from recording import is_tensor, load  # noqa: E402

# On x = [[1, 2], [3, 4]], b = the same three times, c = its complex form, i = it in int64.
EXPECTED = {
    "torch.baddbmm(b, b, b)": ["Baddbmm"],
    "torch.baddbmm(x[0], b, b)": ["Baddbmm"],
    "torch.baddbmm(b, b, b, beta=0)": ["Baddbmm"],
    "x.exponential_()": ["InplaceUniform", "Neg", "InplaceAdds", "GeScalar", "InplaceMaskedFillScalar", "InplaceLog", "InplaceMuls"],
    "c.conj().resolve_conj()": ["InplaceCopy", "Neg", "Complex"],
    "torch.ops.aten.mul_.Scalar(c, 2)": ["InplaceMuls"],
    "torch.ops.aten.mul_.Scalar(i, 2)": ["InplaceFillScalar", "Mul"],
    "x[x > 1]": ["GtScalar", "NonzeroV2", "Index"],
    "x.index_put_((x > 1,), x[0, 0])": ["GtScalar", "NonzeroV2", "IndexPutImpl"],
    "torch.linalg.svd(x[:, :0])": ["InplaceZero", "InplaceFillScalar"],
    "torch.linalg.svdvals(x[:0])": [],
    "i.round()": ["InplaceCopy"],
    "i.trunc()": ["InplaceCopy"],
    "i.short().exp()": ["InplaceCopy", "InplaceCopy", "Exp"],
    "i.exp()": ["Exp"],
    "i.logit()": ["InplaceCopy", "Logit"],
    "torch.linalg.vector_norm(c)": ["Abs", "LinalgVectorNorm"],
    "torch.linalg.vector_norm(x)": ["LinalgVectorNorm"],
    "torch._foreach_abs([x, x])": ["ForeachAbs"],
    "torch.fft.fft(c)": ["InplaceCopy", "Matmul", "InplaceCopy"],
    "torch.renorm(x, 2, 0, 1.0)": ["Renorm"],
    "torch.renorm(x.requires_grad_(), 2, 0, 1.0)": ["Renorm"],
}
GRADIENTS = {f"torch.renorm(x, {p}, 0, 1.0)": None for p in ("2", "1", "float('inf')", "3", "0.5")}
PROGRAM = """
import ctypes, sys, torch, torch_npu
mark = None
for name in sys.argv[1:]:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).npu()
    b, c, i = torch.stack([x] * 3), torch.complex(x, x), x.long()
    torch.npu.synchronize()
    mark = mark or ctypes.CDLL("libsoftnpu.so").softnpu_record
    gradient = name.startswith("gradient of ")
    if gradient:
        x.requires_grad_()
    mark(f"B {name}".encode())
    result = eval(name.removeprefix("gradient of "))
    if gradient:
        result.backward(torch.ones_like(result))
    torch.npu.synchronize()
    mark(b"E ok")
    mark(None)
"""


@pytest.fixture(scope="module", params=["0", "2"])
def sent(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("cann")
    file = place / "calls.jsonl"
    environment = {**os.environ, **folder.make(place), "TASK_QUEUE_ENABLE": request.param, "SOFTNPU_RECORD": str(file),
                   "SOFTNPU_RECORD_ONCE": "0", "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
    names = [*EXPECTED, *(f"gradient of {name}" for name in GRADIENTS)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return {name: [c for c in region.calls if c.name.startswith("aclnn")] for name, region in load(file).items()}


@pytest.mark.parametrize("expression", EXPECTED)
def test_the_official_clients_operators_are_sent(sent, expression):
    # At level 2 a call of new types has its phase one on the calling thread, before calls that were queued: the order says nothing there.
    assert sorted(call.name.removeprefix("aclnn") for call in sent[expression]) == sorted(EXPECTED[expression])


@pytest.mark.parametrize("expression", [*EXPECTED, *(f"gradient of {name}" for name in GRADIENTS)])
def test_nothing_is_computed_in_float64(sent, expression):
    float64 = 11
    types = {value["d"] for call in sent[expression] for _, value in call.arguments if is_tensor(value)}
    assert float64 not in types
