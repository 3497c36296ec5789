"""What users were promised that a program will find: migration, mixed precision, and troubles that must not come.

test/promised.md lists every promise with the test that keeps it.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[2]
APEX = ROOT / "apex"
HCCL = pytest.mark.skipif("hccl" not in dist.Backend.backend_list, reason="the distributed backend hccl is not registered")


def needs_kernel(operator, key="PrivateUse1"):
    has = torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)
    return pytest.mark.skipif(not has, reason=f"{operator} has no {key} kernel")


AUTOCAST = needs_kernel("aten::linear", "AutocastPrivateUse1")
UNSCALE = needs_kernel("aten::_amp_foreach_non_finite_check_and_unscale_")
HAS_APEX = pytest.mark.skipif(not (APEX.is_dir() or importlib.util.find_spec("apex")), reason="apex is not here")

TRAINING = """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(DEVICE)
input, target = torch.randn(64, 8).to(DEVICE), torch.randint(0, 2, (64,)).to(DEVICE)
loss_fn = torch.nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
"""


def test_the_operator_test_of_the_guide_prints_ok():
    process = subprocess.run([sys.executable, "test_div.py"], cwd=ROOT / "test/test_network_ops", capture_output=True, text=True)
    assert process.returncode == 0 and process.stderr.rstrip().endswith("OK")


def test_every_function_of_torch_cuda_has_a_counterpart_or_a_reason():
    from torch_npu.migrate import cuda_names

    for name in torch.cuda.__all__:
        assert cuda_names.on_npu(f"torch.cuda.{name}") or len(cuda_names.why_not(f"torch.cuda.{name}")) > 20


@HCCL
def test_init_process_group_of_manual_migration(run, tmp_path):
    code = """
import torch, torch_npu, torch.distributed as dist, torch.multiprocessing as mp

def worker(rank, port):
    torch.npu.set_device(rank)
    dist.init_process_group(backend='hccl', init_method=f'tcp://127.0.0.1:{port}', world_size=2, rank=rank)
    x = torch.ones(2).npu() * (rank + 1)
    dist.all_reduce(x)
    assert x.tolist() == [3, 3]
    dist.destroy_process_group()

if __name__ == "__main__":
    import socket
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    mp.spawn(worker, args=(port,), nprocs=2)
"""
    (tmp_path / "ddp.py").write_text(code)  # a file: the processes that it starts import it
    process = run("import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'ddp.py']).returncode)")
    assert process.returncode == 0, process.stderr


def test_data_parallel_is_refused_in_one_sentence_that_names_ddp():
    with pytest.raises(RuntimeError, match="DistributedDataParallel") as refusal:
        torch.nn.DataParallel(torch.nn.Linear(2, 2).npu(), device_ids=[0, 1])
    assert "\n" not in str(refusal.value).strip()


@AUTOCAST
@pytest.mark.parametrize("use_amp", [pytest.param(True, marks=UNSCALE), False])
def test_mixed_precision_as_on_cuda(check, use_amp):
    code = f"""
from torch_npu.contrib import transfer_to_npu
DEVICE, use_amp = "cuda", {use_amp}
{TRAINING}
scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
losses = []
for _ in range(20):
    with torch.autocast(device_type='cuda', dtype=torch.float16, enabled=use_amp): loss = loss_fn(net(input), target)
    scaler.scale(loss).backward(); scaler.step(opt); scaler.update(); opt.zero_grad()
    losses.append(loss.item())
assert losses[-1] < 0.8 * losses[0], losses
print("ok")
"""
    assert check(code) == "ok"


@HAS_APEX
@UNSCALE
@pytest.mark.parametrize("level", [pytest.param("O1", marks=AUTOCAST), "O2"])
def test_mixed_precision_by_apex(check, level):
    code = f"""
from apex import amp
DEVICE = "npu"
{TRAINING}
model, optimizer = amp.initialize(net, opt, opt_level='{level}')
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = loss_fn(model(input), target)
    with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.8 * losses[0], losses
print("ok")
"""
    assert check(code, PYTHONPATH=str(APEX)).splitlines()[-1] == "ok"


def test_operators_of_a_model_by_torchs_profiler():
    """The first way of the operator analysis: names from a profile, looked up in what npu supports."""
    from torch_npu.migrate.analysis.operators import Support, operator

    model, x = torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8)
    with torch.profiler.profile() as profile:
        model(x).relu().sum().backward()
    names = {event.key for event in profile.key_averages() if event.key.startswith("aten::")}
    support = {name: operator(name).support for name in names}
    assert support["aten::relu"] is Support.NATIVE and Support.NONE not in support.values()


def test_setting_data_does_not_warn(run):
    code = "import torch, torch_npu\nx = torch.nn.Linear(2, 2)\nx.weight.data = x.weight.data.npu()\nprint(x.weight)"
    process = run(code, "-W", "error")
    assert process.returncode == 0 and process.stderr == "" and "npu:0" in process.stdout


@pytest.mark.slow
def test_the_network_of_the_quick_start_learns_to_read_digits(run):
    pytest.importorskip("sklearn", reason="the images of the example come with it")
    script = str(ROOT / "examples/train_digits.py")
    code = f"import runpy, sys\nsys.argv = ['train_digits.py', '--curve=loss.png']\nrunpy.run_path({script!r}, run_name='__main__')"
    process = run(code, timeout=500)
    assert process.returncode == 0, process.stdout + process.stderr  # 0 only above 95 % of right answers


def test_a_container_without_the_device_nodes_is_explained(run):
    process = run("import torch\nassert not torch.npu.is_available()\ntorch.ones(1).npu()", SOFTNPU_DEVICES="0", TORCH_NPU_RUNTIME="soft",
                  ASCEND_RT_VISIBLE_DEVICES=None)  # fmt: skip
    last = process.stderr.splitlines()[-1]
    assert process.returncode == 1 and "No NPU is visible" in last
    for node in ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"):
        assert f"--device=/dev/{node}" in last


@pytest.mark.parametrize("setting", ["GOMP_CPU_AFFINITY=0", "GOMP_CPU_AFFINITY=", "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu"])
def test_settings_of_the_loader_and_of_openmp_do_no_harm(run, setting):
    name, value = setting.split("=")
    process = run("import torch\nx = torch.randn(64, 64).npu()\nprint((x @ x).device)", **{name: value or None})
    assert process.returncode == 0 and process.stdout == "npu:0\n", process.stderr


@pytest.mark.slow
def test_torchvision_beside_it(run, tmp_path):
    """pip3 install torchvision --no-deps; import torchvision. Its wheel on the package index is made for a torch with CUDA, and
    misses operators of its own beside another one; torch_npu has them."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path / "site"),
               "torchvision==0.28.0", "pillow"]  # fmt: skip
    installed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if installed.returncode != 0:
        pytest.skip(f"the package index cannot be reached: {installed.stderr[-200:]}")
    assert sorted(path.name for path in (tmp_path / "site").iterdir() if path.name.startswith("torch")) in (
        ["torchvision", "torchvision-0.28.0.dist-info"], ["torchvision", "torchvision-0.28.0.dist-info", "torchvision.libs"])  # fmt: skip
    site = str(tmp_path / "site")
    code = "import torch, torch_npu, torchvision\nnet = torchvision.models.squeezenet1_1(num_classes=4).eval()\n"
    code += "x = torch.randn(1, 3, 32, 32)\nwith torch.no_grad(): torch.testing.assert_close(net.npu()(x.npu()).cpu(), net.cpu()(x))\n"
    process = run(code, PYTHONPATH=site)
    assert process.returncode == 0, process.stderr


def test_no_library_of_cann_is_needed_to_import(run, tmp_path):
    """Not even with an empty loader path and a CANN folder that holds nothing."""
    process = run("import torch, torch_npu; print(torch.ones(2).sum().item())", LD_LIBRARY_PATH=str(tmp_path),
                  ASCEND_HOME_PATH=str(tmp_path), ASCEND_OPP_PATH=str(tmp_path))  # fmt: skip
    assert (process.returncode, process.stdout, process.stderr) == (0, "2.0\n", "")
