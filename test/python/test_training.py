"""Training as a whole: resuming, checkpoints that move, data loading, recomputation, and torch's ways of looking into a model."""

import copy
import io
import os
import zipfile

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from torch_npu.utils import save_async


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


class Training:
    """A model with dropout, an optimiser, a scaler and a schedule."""

    def __init__(self, device="npu"):
        torch.manual_seed(0)
        self.device, self.model = device, network().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 20)
        self.scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=3)
        self.data = torch.Generator().manual_seed(1)

    def parts(self):
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}

    def steps(self, count):
        losses = []
        for _ in range(count):
            x, y = torch.randn(8, 6, generator=self.data).to(self.device), torch.randint(3, (8,), generator=self.data).to(self.device)
            self.optimizer.zero_grad()
            with torch.autocast(self.device, dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.scheduler.step()
            losses.append(loss.item())
        return losses

    def state(self):
        return {name: part.state_dict() for name, part in self.parts().items()} | {
            "npu": torch.npu.get_rng_state(), "data": self.data.get_state()}

    def load(self, state):
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
        torch.npu.set_rng_state(state["npu"])
        self.data.set_state(state["data"])


def test_resume_continues_bit_by_bit(tmp_path):
    whole = Training()
    curve = whole.steps(10)
    first = Training()
    assert first.steps(5) == curve[:5]
    torch.save(first.state(), tmp_path / "checkpoint.pt")
    second = Training()
    second.load(torch.load(tmp_path / "checkpoint.pt", map_location="cpu"))
    assert second.steps(5) == curve[5:]
    for a, b in zip(whole.model.state_dict().values(), second.model.state_dict().values()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("source, target", [("npu", "cpu"), ("cpu", "npu")])
def test_checkpoints_move_between_devices(tmp_path, source, target):
    written = Training(source)
    written.steps(3)
    torch.save(written.state(), tmp_path / "checkpoint.pt")
    read = Training(target)
    read.load(torch.load(tmp_path / "checkpoint.pt", map_location="cpu"))
    for a, b in zip(written.model.parameters(), read.model.parameters()):
        assert torch.equal(a.cpu(), b.cpu())
    assert read.scaler.get_scale() == written.scaler.get_scale()
    read.steps(2)


def test_same_seed_same_curve_at_every_queue_level(check):
    code = """
import torch
torch.manual_seed(5)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).npu()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    loss = net(torch.randn(4, 8, device="npu")).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print(loss.item().hex())
"""
    curves = {check(code, TASK_QUEUE_ENABLE=level) for level in "012"}
    assert len(curves) == 1


def test_distributed_checkpoint(tmp_path):
    import torch.distributed.checkpoint as dcp

    source, target = network().npu(), network().npu()
    with torch.no_grad():
        target[0].weight.zero_()
    dcp.save({"model": source.state_dict()}, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    state = {"model": target.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "checkpoint", no_dist=True)
    target.load_state_dict(state["model"])
    assert torch.equal(source[0].weight, target[0].weight)


def test_a_wrong_state_dict_is_named():
    with pytest.raises(RuntimeError, match="size mismatch for 0.weight"):
        network().npu().load_state_dict(nn.Sequential(nn.Linear(5, 16)).state_dict(), strict=False)
    with pytest.raises(RuntimeError, match="Missing key"):
        network().npu().load_state_dict({})


def test_a_corrupt_checkpoint_is_an_error(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save(network().npu().state_dict(), path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RuntimeError, match="failed finding central directory"):
        torch.load(path)


def test_checkpoints_of_other_torch_versions(tmp_path):
    state = network().npu().state_dict()
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    torch.save(state, old, _use_new_zipfile_serialization=False)  # the format before torch 1.6
    assert torch.equal(torch.load(old)["0.weight"], state["0.weight"])
    torch.save(state, tmp_path / "now.pt")
    with zipfile.ZipFile(tmp_path / "now.pt") as source, zipfile.ZipFile(new, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"99\n" if name.endswith("/version") else source.read(name))
    with pytest.raises(RuntimeError, match="file with version 99, but the maximum supported version"):
        torch.load(new)


def test_weight_norm_and_its_gradient():
    for dim in (0, 1):
        on_cpu = nn.utils.parametrizations.weight_norm(nn.Linear(5, 3), dim=dim)
        on_npu = copy.deepcopy(on_cpu).npu()
        x = torch.randn(2, 5)
        for module, data in ((on_cpu, x), (on_npu, x.npu())):
            module(data).square().sum().backward()
        for a, b in zip(on_cpu.parameters(), on_npu.parameters(), strict=True):
            torch.testing.assert_close(b.grad.cpu(), a.grad)
        torch.testing.assert_close(on_npu.weight.cpu(), on_cpu.weight)


def test_async_save_is_a_snapshot(tmp_path):
    tensor = torch.ones(1000, device="npu")
    thread = save_async({"x": tensor}, tmp_path / "x.pt")
    tensor.zero_()
    thread.join()
    assert torch.load(tmp_path / "x.pt")["x"].sum() == 1000
    buffer = io.BytesIO()
    save_async(tensor, buffer).join()
    buffer.seek(0)
    assert torch.load(buffer).numel() == 1000


def test_a_full_disk_leaves_the_old_file(tmp_path, check):
    path = tmp_path / "x.pt"
    torch.save({"x": torch.ones(3)}, path)
    message = check(f"""
import resource, signal, warnings
from torch_npu.utils import save_async
tensor = torch.zeros(100000, device="npu")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    save_async({{"x": tensor}}, {str(path)!r}).join()
print(caught[0].message)
""")
    assert "x.pt was not written" in message
    assert torch.load(path)["x"].tolist() == [1, 1, 1]
    assert os.listdir(tmp_path) == ["x.pt"]


def test_recomputation_repeats_dropout():
    layer = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).npu()
    x = torch.randn(4, 8, device="npu", requires_grad=True)

    def gradient(function):
        torch.npu.manual_seed(3)
        x.grad = None
        function(x).sum().backward()
        return x.grad

    plain = gradient(layer)
    assert torch.equal(plain, gradient(lambda t: checkpoint(layer, t, use_reentrant=False)))
    assert torch.equal(plain, gradient(lambda t: checkpoint(layer, t, use_reentrant=True)))


def test_loader_with_workers_and_pinned_memory():
    data = TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20))
    loader = DataLoader(data, batch_size=6, num_workers=2, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned()
        seen += (x.npu(non_blocking=True)[:, 0] / 2 - y.npu(non_blocking=True)).cpu().tolist()
    assert seen == [0] * 20


def test_functional_transforms():
    net = network().npu().eval()
    parameters = dict(net.named_parameters())
    x, y = torch.randn(5, 6, device="npu"), torch.randint(3, (5,), device="npu")

    def loss(parameters, x, y):
        return nn.functional.cross_entropy(torch.func.functional_call(net, parameters, (x.unsqueeze(0),)), y.unsqueeze(0))

    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    nn.functional.cross_entropy(net(x), y).backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(per_sample[name].mean(0), parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_scripted_and_traced_modules(tmp_path):
    net = network().npu().eval()
    x = torch.randn(2, 6, device="npu")
    for module in (torch.jit.script(net), torch.jit.trace(net, x)):
        torch.testing.assert_close(module(x), net(x))
        module.save(str(tmp_path / "net.pt"))
        torch.testing.assert_close(torch.jit.load(str(tmp_path / "net.pt"), map_location="npu")(x), net(x))


def test_parametrizations_hooks_and_copies():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).npu().eval()
    seen = []
    layer.register_forward_hook(lambda m, i, o: seen.append(o.device.type))
    layer.register_full_backward_hook(lambda m, gi, go: seen.append("backward"))
    twin = copy.deepcopy(layer)
    layer(torch.randn(2, 4, device="npu", requires_grad=True)).sum().backward()
    assert seen == ["npu", "backward"]
    assert torch.equal(twin.weight, layer.weight)


def test_deterministic_algorithms_at_any_time():
    x, index = torch.randn(1000, device="npu"), torch.randint(10, (1000,), device="npu")
    torch.use_deterministic_algorithms(True)
    try:
        results = {tuple(torch.zeros(10, device="npu").index_add(0, index, x).tolist()) for _ in range(3)}
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(results) == 1
