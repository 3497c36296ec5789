"""What takes over where the device library lacks the names softnpu... has the CPU's results, with the CPU fallback forbidden: for the
samples of torch's database, and for lengths, threads and streams that these do not have."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parent / "ops")]

import expect  # noqa: E402
import folder  # noqa: E402
import pool  # noqa: E402

FOURIER = [f"fft.{kind}fft{dims}" for kind in ("", "i", "r", "ir", "h", "ih") for dims in ("", "2", "n")]
WITH_COMPLEX = ["cholesky", "conj_physical", "expm1", "istft", "linalg.cholesky", "linalg.cholesky_ex", "linalg.qr",
                "linalg.solve_triangular", "qr", "stft", "triangular_solve"]
REAL = ["isin", "linalg.cond", "linalg.matrix_rank", "linalg.pinv", "linalg.svdvals", "norm.nuc", "pinverse", "polar"]
PAIRS = [*((op, t) for op in FOURIER for t in ("float32", "float64", "int64", "complex64", "complex128")),
         *((op, t) for op in WITH_COMPLEX for t in ("float32", "float64", "complex64")),
         *((op, t) for op in REAL for t in ("float32", "float64"))]
# A product rounds by the largest of its outputs: what upstream's tests of transforms in several dimensions (TestFFT) allow.
OF_SUMS = {"atol": 2e-4, "rtol": 1.3e-6}


@pytest.fixture(scope="module")
def cann(tmp_path_factory):
    return folder.make(tmp_path_factory.mktemp("cann"))


@pytest.fixture(scope="module")
def comparer(cann):
    comparer = pool.Comparer()
    comparer.environment.update(cann)
    yield comparer
    comparer.stop()


@pytest.mark.parametrize(("op", "dtype"), PAIRS)
def test_samples_of_the_database(comparer, op, dtype):
    single = op in FOURIER and dtype in ("float32", "int64", "complex64")
    answer = comparer.compare(op, dtype, 8, tolerances=OF_SUMS if single else None)
    assert not expect.surprises(op, dtype, answer["checks"], complete=False)
    assert not answer["missing"]


def run(environment, program, **more):
    """What the program assigns to `result`."""
    environment = {**os.environ, **environment, "TORCH_NPU_FALLBACK_CPU_DISABLE": "1", **more}
    first = "import json, threading, warnings; import torch, torch_npu; warnings.simplefilter('ignore'); torch.manual_seed(0)\n"
    command = [sys.executable, "-c", first + program + "\nprint('\\n' + json.dumps(result))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


LENGTHS = """
def error(name, n, dtype):
    x = torch.randn(3, n, 2, dtype=dtype)
    f = getattr(torch.fft, name)
    size = {"n": n} if name == "irfft" else {}
    if name == "irfft": x = x[:, :n // 2 + 1]
    want = f(x.to(torch.complex128 if dtype.is_complex else torch.float64), dim=1, **size)
    got = f(x.npu(), dim=1, **size).cpu()
    assert got.shape == want.shape and got.is_contiguous()
    return float((got - want).abs().max() / want.abs().max())
names = {"fft": torch.complex64, "ifft": torch.complex64, "rfft": torch.float32, "irfft": torch.complex64}
result = {f"{name} {n}": error(name, n, names[name]) for name in names
          for n in (1, 2, 3, 64, 97, 1000, 1021, 2048, 4096, 2 * 997, 16384, 20480, 2003, 30013, 65536, 3 * 5 * 7 * 11 * 13 * 2)}
"""


def test_a_transform_of_any_length_is_exact_to_single_precision(cann):
    wrong = {case: error for case, error in run(cann, LENGTHS).items() if not error < 3e-6}
    assert not wrong


CONCURRENT = """
x = torch.randn(4, 1000)
want, results = torch.fft.fft(x), []
def work(stream):
    with torch.npu.stream(stream), torch.autocast("npu"), torch.inference_mode():
        for n in (1000, 500, 250):
            results.append(((torch.fft.fft(x.npu()[:, :n]).cpu() - torch.fft.fft(x[:, :n])).abs().max().item()))
threads = [threading.Thread(target=work, args=(torch.npu.Stream(),)) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
y = x.npu().requires_grad_()
torch.fft.rfft(y).abs().sum().backward()
z = x.clone().requires_grad_()
torch.fft.rfft(z).abs().sum().backward()
result = [len(results), max(results), (y.grad.cpu() - z.grad).abs().max().item() / z.grad.abs().max().item()]
"""


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_threads_and_streams_share_the_tables_of_transforms(cann, level):
    count, error, gradient = run(cann, CONCURRENT, TASK_QUEUE_ENABLE=level)
    assert count == 12 and error < 1e-3 and gradient < 1e-4


FEW = """
def memory():
    torch.npu.synchronize()
    return torch.npu.memory_allocated()
for n in range(400, 460):
    torch.fft.fft(torch.randn(n, n, dtype=torch.complex64).npu())
result = [memory(), torch_npu.utils.fallback_counts()]
"""


def test_the_tables_of_many_lengths_are_given_back(cann):
    kept, counts = run(cann, FEW)
    assert kept <= 80 << 20 and not counts


REST = """
def on(device):
    square = torch.tensor([[[4.0, 1], [1, 3]], [[1, 2], [2, 1]], [[-1, 0], [0, 1]]], device=device)
    factor, info = torch.linalg.cholesky_ex(square)
    z = torch.tensor([1 + 2j, 3 - 4j], device=device)
    conjugate = z.clone().conj_physical_()
    long, tests = torch.arange(3000, device=device), torch.arange(0, 5000, 7, device=device)
    results = [info, factor[0], torch.view_as_real(conjugate), torch.isin(long, tests).nonzero(),
               torch.isin(long, tests, invert=True).sum(), torch.isin(long, tests[:3], invert=True).sum(),
               torch.tril_indices(4, 3, -1, device=device), torch.triu_indices(3, 5, 1, dtype=torch.int32, device=device),
               torch.tril_indices(0, 3, device=device)]
    return [[str(t.dtype), list(t.shape), t.tolist()] for t in results]
def raised(device):
    try:
        torch.linalg.cholesky(-torch.eye(3, device=device))
    except torch.linalg.LinAlgError as error:
        return str(error)
result = [on("npu"), on("cpu"), raised("npu"), raised("cpu"), torch_npu.utils.fallback_counts()]
"""


@pytest.mark.parametrize("level", ["0", "1", "2"])
def test_small_operators_and_the_errors_of_factorisations(cann, level):
    npu, cpu, raised, expected, counts = run(cann, REST, TASK_QUEUE_ENABLE=level)
    assert npu == cpu and raised == expected and "not positive-definite" in raised and not counts


SGD = """
def steps(device, momentum, nesterov, maximize, decay, as_tensor, scale):
    torch.manual_seed(1)
    params = [torch.randn(3, 2).to(device), torch.randn(5).to(device)]
    buffers = [torch.empty_like(p) for p in params] if momentum else []
    lr = torch.tensor(0.1, device=device) if as_tensor else 0.1
    more = {"grad_scale": torch.tensor(4.0, device=device), "found_inf": torch.tensor(scale, device=device)} if scale is not None else {}
    for step in range(3):
        grads = [torch.randn(3, 2).to(device), torch.randn(5).to(device)]
        torch._fused_sgd_(params, grads, buffers, weight_decay=decay, momentum=momentum, lr=lr, dampening=0.0, nesterov=nesterov,
                          maximize=maximize, is_first_step=step == 0, **more)
    return torch.cat([p.flatten() for p in params]).tolist()
cases = [(0.0, False, False, 0.0, False, None), (0.0, False, True, 0.1, True, None), (0.9, True, False, 0.1, False, None),
         (0.9, False, True, 0.0, True, 0.0), (0.0, False, False, 0.1, False, 0.0), (0.9, False, False, 0.0, False, 1.0)]
result = [[steps("npu", *c), steps("cpu", *c)] for c in cases] + [torch_npu.utils.fallback_counts()]
"""


def test_fused_sgd_is_one_call_or_foreach(cann):
    *cases, counts = run(cann, SGD)
    assert not counts
    for npu, cpu in cases:
        assert npu == pytest.approx(cpu, rel=1e-5, abs=1e-6)
