"""transfer_to_npu: what a script written for CUDA says means npu, until undo()."""

import json
import os
import sys
import types
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn


@pytest.fixture
def transfer(capsys):
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.apply()
    yield transfer_to_npu
    transfer_to_npu.undo()


def snapshot():
    """Every attribute of the namespaces that transfer_to_npu touches, as the objects stand there."""
    owners = [torch, torch.Tensor, nn.Module, torch.cuda, torch.cuda.amp, torch.cuda.memory, torch.cuda.random, torch.cuda.nvtx,
              torch.distributed, torch.distributed.distributed_c10d, torch.distributed.Backend, torch.jit, torch.jit.frontend,
              torch.amp, torch.amp.autocast, torch.amp.GradScaler, torch.profiler, torch.UntypedStorage, torch.TypedStorage,
              torch.npu.Stream, torch.npu.device, torch.utils.data.DataLoader, torch.nn.parallel.DistributedDataParallel]  # fmt: skip
    return {(owner.__name__, name): value for owner in owners for name, value in vars(owner).items() if name != "__warningregistry__"}


def test_undo_restores_every_name():
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.undo()
    registry, finders = list(torch.serialization._package_registry), list(sys.meta_path)
    before = snapshot()
    transfer_to_npu.apply()
    assert len({key for key, value in snapshot().items() if before.get(key) is not value}) > 200
    transfer_to_npu.undo()
    after = snapshot()
    assert after.keys() == before.keys()
    assert [key for key in before if after[key] is not before[key]] == []
    assert torch.serialization._package_registry == registry and sys.meta_path == finders
    assert not torch.cuda.is_available()


DEVICES = ["cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0]


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_devices_in_every_form(transfer, device):
    assert torch.zeros(2, device=device).device == torch.device("npu:0")
    assert torch.tensor([1.0], device=device).is_cuda
    assert torch.ones(2).to(device).is_npu
    assert torch.ones(2).to(device=device, dtype=torch.float16).dtype == torch.float16
    assert nn.Linear(2, 2).to(device).weight.is_npu
    assert torch.ones(1).new_zeros(2, device=device).is_npu
    assert torch.load(saved(), map_location=device)["x"].is_npu


def saved():
    import io

    file = io.BytesIO()
    torch.save({"x": torch.ones(2)}, file)
    file.seek(0)
    return file


def test_cuda_methods(transfer):
    x = torch.ones(2)
    assert not x.is_cuda and x.cuda().is_cuda and x.cuda("cuda:1").device.index == 1 and x.cuda(1, non_blocking=True).device.index == 1
    assert nn.Linear(2, 2).cuda(0).weight.is_cuda
    assert nn.utils.rnn.pack_sequence([torch.ones(2)]).cuda().data.is_npu
    assert torch.ones(2).untyped_storage().cuda().is_cuda
    assert torch.UntypedStorage(4, device="cuda").device.type == "npu"


def test_legacy_types_keep_their_dtype(transfer):
    assert torch.cuda.DoubleTensor([1.0]).dtype == torch.float64
    assert torch.cuda.FloatTensor(2).is_npu
    assert torch.ones(2).type("torch.cuda.DoubleTensor").dtype == torch.float64
    assert torch.ones(2).type(torch.cuda.HalfTensor).is_npu
    assert torch.ones(2).type(torch.int64).dtype == torch.int64 and torch.ones(2).type() == "torch.FloatTensor"
    assert torch.ones(2, dtype=torch.float64).cuda().dtype == torch.float64


def test_default_device_and_type(transfer):
    with torch.device("cuda"):
        assert torch.ones(2).is_npu and nn.Linear(2, 2).weight.is_npu
    torch.set_default_device("cuda")
    assert torch.ones(2).is_npu
    torch.set_default_device(None)
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    assert torch.ones(2).is_npu and torch.ones(2).dtype == torch.float64
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def test_torch_cuda_is_torch_npu(transfer, restore_device):
    torch.cuda.set_device("cuda:1")
    assert torch.npu.current_device() == 1
    with torch.cuda.device("cuda:0"):
        assert torch.cuda.current_device() == 0
    assert torch.cuda.device_count() == torch.npu.device_count()
    assert torch.cuda.get_device_name(torch.device("cuda:0")) == torch.npu.get_device_name(0)
    assert torch.cuda.memory_allocated("cuda:0") == torch.npu.memory_allocated(0)
    assert len(torch.cuda.default_generators) == torch.npu.device_count()
    torch.cuda.synchronize(torch.device("cuda", 0))
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()


def test_nested_tensors_handles_and_forked_generators(transfer):
    for layout in (torch.strided, torch.jagged):
        assert torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], device="cuda", layout=layout).is_npu
        assert torch.nested.as_nested_tensor([torch.ones(1), torch.ones(2)], device="cuda", layout=layout).is_npu
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    event.record(stream)
    assert stream.cuda_stream == stream.npu_stream and event.cuda_event == event.npu_event != 0
    torch.cuda.manual_seed(1)
    expected = torch.rand(2, device="cuda")
    torch.cuda.manual_seed(1)
    with torch.random.fork_rng(devices=["cuda:0"]):
        torch.rand(5, device="cuda")
    assert torch.equal(torch.rand(2, device="cuda"), expected)
    with torch.random.fork_rng(device_type="cuda"):
        pass


def test_capability_is_a_pair_as_scripts_expect(transfer, monkeypatch):
    """Libraries unpack it; (0, 0) makes them take no path for CUDA's newer cards."""
    properties = torch.cuda.get_device_properties("cuda:0")
    monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY", raising=False)
    major, minor = torch.cuda.get_device_capability(device="cuda")
    assert (major, minor) == (properties.major, properties.minor) == (0, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (8, 0)
    transfer.undo()
    assert not hasattr(properties, "major")


def test_streams_events_generators(transfer):
    side = torch.cuda.Stream(device="cuda:0")
    event = torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(side):
        event.record()
        y = torch.ones(4, device="cuda") * 2
    torch.cuda.current_stream("cuda").wait_stream(side)
    y.record_stream(torch.cuda.current_stream())
    assert y.sum().item() == 8 and isinstance(side, torch.cuda.Stream) and isinstance(side, torch.Stream)
    generator = torch.Generator("cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator) and isinstance(torch.default_generator, torch.Generator)
    assert torch.equal(torch.rand(3, generator=generator, device="cuda").cpu(),
                       torch.rand(3, generator=torch.Generator(device="cuda:0").manual_seed(3), device="cuda").cpu())  # fmt: skip
    assert torch.Stream("cuda").device.type == "npu" and torch.Event("cuda") is not None
    torch.cuda.manual_seed_all(5)
    assert torch.cuda.initial_seed() == 5
    assert torch.cuda.get_rng_state("cuda:0").dtype == torch.uint8


def test_mixed_precision(transfer):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("npu") and torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
        assert torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda") == torch.bfloat16
    with torch.cuda.amp.autocast(False):
        assert not torch.is_autocast_enabled()
    assert torch.amp.GradScaler()._device == "npu" and torch.amp.GradScaler("cuda").is_enabled()
    assert torch.cuda.amp.GradScaler(enabled=False).get_scale() == 1.0

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.cuda.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_torchscript_keeps_working(transfer):
    def on_gpu(x: torch.Tensor, scale: float = 2.0):
        y = torch.zeros(2, device="cuda")
        if x.is_cuda:
            y = y + torch.full([2], scale, device=x.device)
        return y + x.cuda() + torch.ones_like(y)

    scripted = torch.jit.script(on_gpu)
    assert isinstance(scripted, torch.jit.ScriptFunction)
    assert scripted(torch.ones(2)).tolist() == [2, 2] and scripted(torch.ones(2).cuda()).tolist() == [4, 4]
    module = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).cuda()
    assert module(torch.ones(1, 2, device="cuda")).is_cuda
    traced = torch.jit.trace(lambda x: x * 2 + torch.ones(2, device="cuda"), torch.ones(2).cuda())
    assert traced(torch.zeros(2).cuda()).tolist() == [1, 1]


def test_fx_and_compile_keep_working(transfer):
    def function(x):
        return x.to("cuda") + torch.ones(2, device="cuda")

    graph = torch.fx.symbolic_trace(function)
    assert graph(torch.ones(2)).tolist() == [2, 2]
    assert torch.compile(function, backend="eager")(torch.ones(2)).tolist() == [2, 2]


def test_checkpoint_written_on_cuda_loads_to_npu(transfer, tmp_path):
    """The location tag is all that differs between a file written on CUDA and one written on the CPU."""
    tag, torch.serialization.location_tag = torch.serialization.location_tag, lambda storage: "cuda:0"
    try:
        torch.save({"x": torch.arange(3)}, tmp_path / "cuda.pt")
    finally:
        torch.serialization.location_tag = tag
    x = torch.load(tmp_path / "cuda.pt")["x"]
    assert x.device == torch.device("npu:0") and x.tolist() == [0, 1, 2]
    assert torch.load(tmp_path / "cuda.pt", map_location={"cuda:0": "cuda:1"})["x"].device == torch.device("npu:1")
    assert torch.load(tmp_path / "cuda.pt", map_location=lambda storage, loc: storage.cuda(1))["x"].device.index == 1
    assert torch.load(tmp_path / "cuda.pt", map_location="cpu")["x"].device.type == "cpu"
    torch.save(torch.ones(2).cuda(), tmp_path / "npu.pt")
    assert torch.load(tmp_path / "npu.pt", map_location={"cuda:0": "cuda:1"}).device == torch.device("npu:1")


def test_pinned_memory_and_loader(transfer):
    loader = torch.utils.data.DataLoader(torch.ones(4, 2), pin_memory=True)
    assert all(batch.is_pinned() and batch.cuda(non_blocking=True).is_cuda for batch in loader)
    assert torch.ones(2).pin_memory("cuda").is_pinned()


def test_backend_names(transfer):
    from torch_npu.contrib._transfer import arguments

    assert arguments.backend("nccl") == "hccl" and arguments.backend("gloo") == "gloo"
    assert arguments.backend("cpu:gloo,cuda:nccl") == "cpu:gloo,npu:hccl"
    assert arguments.backend(None) is None
    assert "cuda" not in torch.distributed.Backend.default_device_backend_map
    assert torch.distributed.ProcessGroupNCCL.__name__ == "ProcessGroupHCCL"
    assert torch.distributed.ProcessGroupNCCL.Options() is not None
    assert torch.distributed.is_nccl_available() == ("hccl" in torch.distributed.Backend.backend_list)


def test_profiler_activities(transfer):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        torch.cuda.nvtx.range_push("marked")
        torch.ones(2).cuda().mul(2)
        torch.cuda.nvtx.range_pop()
        first, second = torch.cuda.nvtx.range_start("first"), torch.cuda.nvtx.range_start("second")
        torch.cuda.nvtx.range_end(first)
        torch.cuda.nvtx.range_end(second)
        torch.cuda.nvtx.range_end(second)  # closed already: nothing happens, as on CUDA
    names = {event.key for event in prof.key_averages()}
    assert {"aten::mul", "marked", "first", "second"} <= names
    assert prof.key_averages().table(sort_by="self_cuda_time_total")


@pytest.mark.parametrize("call", ["jiterator(None)", "cudart()"])
def test_what_has_no_counterpart_says_so(transfer, call):
    name = call.partition("(")[0]
    with pytest.raises(NotImplementedError, match=rf"torch\.cuda\.{name}: .*; cure: "):
        eval("torch.cuda." + call)


def module_named(name, body):
    module = types.ModuleType(name)
    module.torch = torch
    exec(body, module.__dict__)
    return module


@pytest.mark.parametrize("name", ["transformers.utils.import_utils", "accelerate.utils.imports", "peft.utils.other", "torch.something"])
def test_libraries_that_know_npu_see_no_cuda(transfer, name):
    asks = module_named(name, "def answer(): return torch.cuda.is_available()")
    assert asks.answer() is False
    assert torch.cuda.is_available() is True and module_named("train", "answer = torch.cuda.is_available()").answer is True


def test_opt_out(check):
    out = check(
        """
from torch_npu.contrib import transfer_to_npu
assert not torch.ones(1).npu().is_cuda
assert torch.jit.frontend.parse_def.__module__ == "torch._sources"
asks = {"__name__": "mylib.devices", "torch": torch}
exec("answer = torch.cuda.is_available()", asks)
assert asks["answer"] is False and torch.cuda.is_available()
assert transfer_to_npu.report().excluded == ["torch.Tensor.is_cuda", "torch.jit", "mylib"]
print("ok")
""",
        TORCH_NPU_TRANSFER_EXCLUDE="torch.Tensor.is_cuda, torch.jit,mylib",
    )
    assert out == "ok"


def test_report_counts_what_was_rewritten(transfer):
    torch.zeros(1, device="cpu")
    torch.zeros(1, device="cuda")
    torch.zeros(1, device="cuda")
    torch.ones(1).cuda()
    uses = {row.name: row.uses for row in transfer.report().rows}
    assert uses["torch.zeros"] == 2 and uses["torch.Tensor.cuda"] == 1 and uses["torch.ones"] == 0
    assert "torch.zeros: rewrites device" in str(transfer.report())
    before = {row.name: row.uses for row in transfer.report().rows}
    torch.Generator("cuda")
    after = {row.name: row.uses for row in transfer.report().rows}
    assert after["torch.Generator"] - before["torch.Generator"] == 1


@pytest.mark.parametrize(("rank", "lines"), [(None, 1), ("0", 1), ("3", 0)])
def test_one_line_on_rank_0(run, rank, lines):
    process = run("import torch, torch_npu; assert torch.ones(1).cuda().is_npu", TORCH_TRANSFER_TO_NPU="1", RANK=rank)
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("\n") == lines == process.stderr.count("transfer_to_npu:")


def test_processes_that_the_script_starts_are_silent(run, tmp_path):
    (tmp_path / "main.py").write_text(
        "import torch, torch_npu, torch.multiprocessing as mp\n\ndef f(i):\n    assert torch.ones(1).cuda().is_npu\n\n"
        "if __name__ == '__main__':\n    mp.spawn(f, nprocs=2)\n"
    )
    process = run("import subprocess, sys; sys.exit(subprocess.run([sys.executable, 'main.py']).returncode)", TORCH_TRANSFER_TO_NPU="1")
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("transfer_to_npu:") == 1


def test_nothing_happens_unless_asked(check):
    check("assert not torch.cuda.is_available() and 'torch_npu.contrib' not in __import__('sys').modules")
    check("from torch_npu.contrib._transfer import table\nassert not torch.cuda.is_available()")


def test_other_values_are_an_error(run):
    process = run("import torch_npu", TORCH_TRANSFER_TO_NPU="yes")
    assert process.returncode != 0 and "TORCH_TRANSFER_TO_NPU must be 0 or 1, but is: yes" in process.stderr


def test_modules_imported_later_are_redirected(check):
    out = check(
        """
import sys
from torch_npu.contrib import transfer_to_npu
late = "torch.distributed.fsdp.fully_sharded_data_parallel"
assert late not in sys.modules
import torch.distributed.fsdp as fsdp
assert hasattr(fsdp.FullyShardedDataParallel.__init__, "__wrapped__")
transfer_to_npu.undo()
assert not hasattr(fsdp.FullyShardedDataParallel.__init__, "__wrapped__")
print("ok")
"""
    )
    assert out == "ok"


# What stays as it is although the official plugin rebinds it. A name stands for everything below it.
LEFT_ALONE = {
    "torch.Event::__new__": "torch.Event is replaced as a whole",
    "torch.Generator::__new__": "torch.Generator is replaced as a whole",
    "torch.Tensor::__torch_function__": "functions are redirected, not the protocol",
    "torch.frombuffer": "takes no device",
    "torch.jit.script": "TorchScript keeps working",
    "torch.jit.script_method": "TorchScript keeps working",
    "torch.profiler": "torch's own profiler runs; its activities are rewritten when it is made",
    "torch._C._profiler.ProfilerActivity": "as torch.profiler",
    "torch.autograd": "as torch.profiler",
    "torch._dynamo.utils.has_triton": "torch.compile knows npu by itself",
    "torch._inductor": "torch.compile knows npu by itself",
    "torch.utils._triton.has_triton": "torch.compile knows npu by itself",
    "torch._utils._get_available_device_type": "finds npu by itself",
    "torch.distributed.checkpoint.filesystem._OverlappingCpuLoader::__init__": "finds npu by torch._utils",
    "torch.cuda.amp.autocast_mode": "the names in it are replaced",
    "torch.cuda.amp.common": "the names in it are replaced",
    "torch.cuda.amp.grad_scaler": "the names in it are replaced",
    "torch.utils.cpp_extension.include_paths": "extensions for npu name their folders",
}


@pytest.mark.slow
def test_surface_is_the_one_of_the_official_plugin(check):
    """transfer_surface.txt lists what the official plugin rebinds: all of it is rebound here, or LEFT_ALONE says why not."""
    names = [line for line in (Path(__file__).parent / "transfer_surface.txt").read_text().splitlines() if not line.startswith("#")]
    assert len(names) > 400
    out = check(
        f"""
import importlib, inspect, json
MISSING = object()
def find(name):
    path, _, attribute = name.partition("::")
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:size]))
            for part in parts[size:]:
                value = getattr(value, part)
            return inspect.getattr_static(value, attribute) if attribute else value
        except (ImportError, AttributeError, RuntimeError, NotImplementedError, AssertionError):
            continue
    return MISSING
names = {names!r}
before = {{name: find(name) for name in names}}
from torch_npu.contrib import transfer_to_npu
print(json.dumps([name for name in names if find(name) is before[name]]))
""",
        timeout=400,
    )
    same = json.loads(out.splitlines()[-1])
    covered = {name: [prefix for prefix in LEFT_ALONE if name == prefix or name.startswith((prefix + ".", prefix + "::"))] for name in same}
    assert [name for name, prefixes in covered.items() if not prefixes] == []
    assert LEFT_ALONE.keys() <= {prefix for prefixes in covered.values() for prefix in prefixes}, "reasons for names that are rebound"
    print(f"{len(names)} names, {len(same)} left alone for {len(LEFT_ALONE)} reasons")


def test_every_name_of_the_table_exists_in_torch(check):
    """A name that torch has dropped would be passed over in silence."""
    out = check(
        """
import importlib
import torch.distributed.fsdp, torch.distributed.pipelining, torch.utils.data, torch.profiler
from torch_npu.contrib import transfer_to_npu
from torch_npu.contrib._transfer import replacements, table
rows = {row.name for row in transfer_to_npu.report().rows}
names = {*table.ARGUMENTS, *table.CLASSES, *replacements.REPLACEMENTS}
print(sorted({name.replace(":", ".") for name in names} - rows))
"""
    )
    assert out == "[]"


def test_data_parallel_is_refused_in_one_sentence():
    with pytest.raises(RuntimeError, match="DistributedDataParallel"):
        nn.DataParallel(nn.Linear(2, 2).npu(), device_ids=[0, 1])
    assert nn.DataParallel(nn.Linear(2, 2).npu(), device_ids=[0])(torch.ones(1, 2).npu()).is_npu


def test_environment_variables_of_cuda_count_until_the_first_use(check):
    code = """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = "2,3"
from torch_npu.contrib import transfer_to_npu
os.environ["CUDA_VISIBLE_DEVICES"] = "1,2,3"
assert torch.cuda.device_count() == 3 and torch.ones(1).cuda().is_cuda
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
assert torch.cuda.device_count() == 3
print(os.environ["ASCEND_RT_VISIBLE_DEVICES"], os.environ.get("ASCEND_LAUNCH_BLOCKING"))
transfer_to_npu.undo()
print("ASCEND_RT_VISIBLE_DEVICES" in os.environ, "ASCEND_LAUNCH_BLOCKING" in os.environ, "PYTORCH_NPU_ALLOC_CONF" in os.environ)
"""
    printed = check(code, CUDA_LAUNCH_BLOCKING="1", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", ASCEND_RT_VISIBLE_DEVICES=None)
    assert printed.split("\n") == ["1,2,3 1", "False False False"]
    code = "from torch_npu.contrib import transfer_to_npu\nprint(torch.cuda.device_count())"
    assert check(code, CUDA_VISIBLE_DEVICES="0", ASCEND_RT_VISIBLE_DEVICES="0,1") == "2"  # the npu's own variable counts
    assert check(code, CUDA_VISIBLE_DEVICES="", ASCEND_RT_VISIBLE_DEVICES=None) == "0"


@pytest.mark.parametrize(("variable", "value"),
                         [("CUDA_VISIBLE_DEVICES", "GPU-8932f937"), ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")])  # fmt: skip
def test_environment_variables_that_npu_cannot_honour_are_refused(run, variable, value):
    names = {"ASCEND_RT_VISIBLE_DEVICES": None, "PYTORCH_NPU_ALLOC_CONF": None, variable: value}
    process = run("import torch, torch_npu\nfrom torch_npu.contrib import transfer_to_npu", **names)
    assert process.returncode and f"ValueError: {variable}={value}" in process.stderr


def test_pinned_asks_about_npu_and_cuda_memory_is_not_exposed(transfer):
    assert torch.ones(2).pin_memory().is_pinned("cuda") and not torch.ones(2).is_pinned("cuda")
    x = torch.ones(2).cuda()
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="an npu tensor has no CUDA memory"):
        x.__cuda_array_interface__  # noqa: B018
    with pytest.raises(AttributeError, match="non-CUDA tensor"):
        torch.ones(2).__cuda_array_interface__  # noqa: B018


def test_memory_timeline_of_a_card(transfer, tmp_path):
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        torch.randn(64, 64, device="cuda").mm(torch.ones(64, 64, device="cuda")).sum().item()
    prof.export_memory_timeline(str(tmp_path / "timeline.json"), device="cuda:0")
    times, sizes = json.loads((tmp_path / "timeline.json").read_text())
    assert len(times) == len(sizes) > 3 and max(map(sum, sizes)) >= 2 * 64 * 64 * 4


def test_operators_that_a_script_registers_for_cuda(transfer):
    @torch.library.custom_op("transfer_test::double", mutates_args=(), device_types="cuda")
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @double.register_kernel("cpu")
    def _(x):
        return x * 20

    library = torch.library.Library("transfer_test2", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.define("g(Tensor x) -> Tensor")
    library.impl("f", lambda x: x + 1, "CUDA")
    torch.library.impl(library, "g", "CUDA")(lambda x: x + 2)
    torch.library.define("transfer_test3::h", "(Tensor x) -> Tensor")
    torch.library.impl("transfer_test3::h", "cuda")(lambda x: x + 3)
    x = torch.ones(1).cuda()
    assert double(x).item() == 2 and double(x.cpu()).item() == 20
    assert [torch.ops.transfer_test2.f(x).item(), torch.ops.transfer_test2.g(x).item(), torch.ops.transfer_test3.h(x).item()] == [2, 3, 4]


@pytest.mark.parametrize("call", ["cuda.profiler.start()", "cuda.profiler.stop()", "cuda.nccl.version()", "cuda.comm.broadcast(1, [0])",
                                  "cuda._sleep(10)", "autograd.profiler.emit_nvtx()"])  # fmt: skip
def test_what_only_cuda_has_explains_itself(transfer, call):
    import torch.cuda.comm  # noqa: F401

    with pytest.raises(NotImplementedError, match=rf"torch\.{call.partition('(')[0]}: \w.*"):
        eval(f"torch.{call}")


def test_detectors_of_torchvision_can_be_scripted(transfer):
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(weights=None, weights_backbone=None).eval()
    scripted = torch.jit.script(model).cuda()
    _, (found,) = scripted([torch.zeros(3, 64, 64, device="cuda")])
    assert found["boxes"].is_cuda


@pytest.mark.parametrize("rewrite, value, expected", [
    ("device", "cuda", "npu"), ("device", "cuda:1", "npu:1"), ("device", torch.device("cuda"), torch.device("npu")),
    ("device", torch.device("cuda", 1), torch.device("npu", 1)), ("device", ["cuda:0", "cpu"], ["npu:0", "cpu"]),
    ("device", ("cpu", torch.device("cuda:1")), ("cpu", torch.device("npu:1"))), ("device", {"a": "cuda:1"}, {"a": "npu:1"}),
    ("map_location", {"cuda:0": "cuda:1"}, {"npu:0": "npu:1", "cuda:0": "npu:1"}), ("map_location", 1, torch.device("npu:1")),
    ("map_location", "cuda:1", "npu:1"), ("backend", "nccl", "hccl"), ("backend", "cpu:gloo,cuda:nccl", "cpu:gloo,npu:hccl"),
    ("backend", "NCCL", "hccl"), ("dispatch_key", "CUDA", "PrivateUse1"), ("dispatch_key", "AutocastCUDA", "AutocastPrivateUse1"),
], ids=str)  # fmt: skip
def test_arguments_that_name_cuda(transfer, rewrite, value, expected):
    from torch_npu.contrib._transfer import arguments

    function = getattr(arguments, rewrite)
    assert function(value) == expected and type(function(value)) is type(expected)
    transfer.undo()
    assert function(value) is value


@pytest.mark.parametrize("rewrite, value", [
    ("device", "cpu"), ("device", "cudagraph"), ("device", "cud"), ("device", torch.device("cpu")), ("device", ["cpu"]),
    ("device", ("npu",)), ("device", {"a": "cpu"}), ("device", None), ("device", 1), ("map_location", "cpu"), ("map_location", True),
    ("backend", "gloo"),
    ("backend", None), ("activities", None), ("dispatch_key", "CPU"),
], ids=str)  # fmt: skip
def test_arguments_that_do_not_name_cuda_pass(transfer, rewrite, value):
    from torch_npu.contrib._transfer import arguments

    result = getattr(arguments, rewrite)(value)
    assert result is value or (rewrite == "backend" and result == value)


def test_activities_of_the_profiler_are_named_once(transfer, monkeypatch):
    from torch.profiler import ProfilerActivity

    from torch_npu.contrib._transfer.arguments import activities

    cpu, cuda, npu = ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.PrivateUse1
    assert activities((cpu,)) == [cpu]
    for supported, given, expected in (({cpu, npu}, [cpu, cuda], [cpu, npu]), ({cpu, npu}, [cuda, npu], [npu]), ({cpu}, [cuda], [cpu]),
                                       ({cpu}, [cpu, cuda], [cpu]), ({cpu, npu}, {cuda}, [npu])):
        monkeypatch.setattr("torch.profiler.supported_activities", lambda supported=supported: supported)
        assert activities(given) == expected


def row():
    from torch_npu.contrib._transfer.report import Row

    return Row("torch.f", "rewrites device")


def test_a_rewritten_function_counts_what_it_changes(transfer):
    from torch_npu.contrib._transfer.wrappers import rewriting

    def function(x, device=None, other=None):
        return x, device, other

    seen, last = row(), row()
    f = rewriting(function, "device@1", seen)
    assert [f(1, "cuda"), f(1, device="cuda:1"), f(1, "cuda", 2)] == [(1, "npu", None), (1, "npu:1", None), (1, "npu", 2)]
    assert seen.uses == 3
    assert [f(1), f(1, "cpu"), f(1, device="cpu")] == [(1, None, None), (1, "cpu", None), (1, "cpu", None)] and seen.uses == 3
    g = rewriting(function, "device@1=npu other", last)
    assert [g(1), g(1, "cuda", 3), g(1, "cuda", other="cuda:1")] == [(1, "npu", None), (1, "npu", 3), (1, "npu", "npu:1")]
    assert last.uses == 3
    assert [g(1, "cpu"), g(1, device="cpu", other="cpu")] == [(1, "cpu", None), (1, "cpu", "cpu")] and last.uses == 3
    assert f.__name__ == g.__name__ == "function"
    transfer.undo()
    assert f(1, "cuda") == (1, "cuda", None) and g(1) == (1, None, None)


def test_a_stand_in_makes_the_objects_of_its_class(transfer):
    from torch_npu.contrib._transfer.wrappers import stand_in

    class Original:
        def __init__(self, device=None):
            self.device = device

    seen = row()
    Stand = stand_in(Original, "device@0", seen)

    class Derived(Stand):
        pass

    assert type(Stand("cuda")) is Original and Stand("cuda").device == "npu" and Stand(device="cuda:1").device == "npu:1" and seen.uses == 3
    assert isinstance(Original(), Stand) and issubclass(Original, Stand) and not isinstance(1, Stand) and not issubclass(int, Stand)
    assert type(Derived("cuda")) is Derived and Derived("cuda").device == "npu"
    assert isinstance(Derived(), Derived) and isinstance(Derived(), Stand) and issubclass(Derived, Stand)
    assert not isinstance(Original(), Derived) and not issubclass(Original, Derived)
    assert Stand.__name__ == "Original" and Stand.__qualname__ == Original.__qualname__ and Stand.__module__ == __name__


def test_what_is_refused_says_why_and_is_counted(transfer):
    from torch_npu.contrib._transfer.wrappers import refusing

    seen = row()
    cls = refusing("torch.cuda.CUDAGraph", "npu records no graphs", seen)
    with pytest.raises(NotImplementedError, match="^torch.cuda.CUDAGraph: npu records no graphs$"):
        cls(1, a=2)
    assert seen.uses == 1 and not isinstance(1, cls)
    assert (cls.__module__, cls.__name__, cls.__doc__) == ("torch.cuda", "CUDAGraph", "npu records no graphs")


def test_names_that_are_excluded_stay_those_of_cuda(transfer):
    from torch_npu.contrib._transfer import patches

    transfer.undo()
    plain, seeding = torch.cuda.memory.memory_allocated, torch.cuda.manual_seed
    patches.apply(["torch.cuda.memory", "torch.cuda.manual"])
    assert torch.cuda.memory.memory_allocated is plain and torch.cuda.manual_seed is not seeding
    assert patches.report().excluded == ["torch.cuda.memory", "torch.cuda.manual"]
    assert torch.zeros(1, device="cuda").is_npu
    transfer.undo()
    assert patches.report().excluded == [] and torch.cuda.manual_seed is seeding


def test_is_cuda_in_a_compiled_function(transfer):
    from torch_npu.contrib._transfer.replacements import _is_cuda_in_dynamo

    attribute = _is_cuda_in_dynamo(None, None)
    assert attribute(types.SimpleNamespace(device=None), None) is None  # dynamo asks again when it is known
    answers = [attribute(types.SimpleNamespace(device=torch.device(name)), None).value for name in ("npu", "cpu")]
    assert answers == [True, False]


@mock.patch.dict(os.environ)
def test_environment_of_the_allocator_and_of_scripts_that_use_both(monkeypatch):
    """In a process whose npu has not been used, and then has."""
    from torch_npu.contrib._transfer import environment

    names = {"CUDA_VISIBLE_DEVICES": "1", "CUDA_LAUNCH_BLOCKING": None, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
             "PYTORCH_ALLOC_CONF": None, "ASCEND_RT_VISIBLE_DEVICES": None, "ASCEND_LAUNCH_BLOCKING": None, "PYTORCH_NPU_ALLOC_CONF": None}
    used = False
    monkeypatch.setattr(environment._C, "is_initialized", lambda: used)

    def said():
        return {name: os.environ[name] for name in ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_LAUNCH_BLOCKING", "PYTORCH_NPU_ALLOC_CONF")
                if name in os.environ}

    def start(**changes):
        for name, value in {**names, **changes}.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        environment.apply()

    start()
    assert said() == {"ASCEND_RT_VISIBLE_DEVICES": "1", "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    os.environ["CUDA_VISIBLE_DEVICES"] = "2"
    environment.before_use()
    assert said()["ASCEND_RT_VISIBLE_DEVICES"] == "2"
    os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "3"  # the script itself
    environment.undo()
    assert said() == {"ASCEND_RT_VISIBLE_DEVICES": "3"}
    environment.before_use()  # after undo() nothing is said any more
    assert said() == {"ASCEND_RT_VISIBLE_DEVICES": "3"}
    start(PYTORCH_ALLOC_CONF="max_split_size_mb:64", CUDA_LAUNCH_BLOCKING="1")  # which npu reads too
    assert said() == {"ASCEND_RT_VISIBLE_DEVICES": "1", "ASCEND_LAUNCH_BLOCKING": "1"}
    environment.undo()
    start(ASCEND_RT_VISIBLE_DEVICES="0")
    assert said()["ASCEND_RT_VISIBLE_DEVICES"] == "0"
    environment.undo()
    assert said() == {"ASCEND_RT_VISIBLE_DEVICES": "0"}
    used = True
    start()
    assert said() == {}
    environment.undo()


def test_cuda_graphs_are_npu_graphs(transfer):
    x = torch.ones(3, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [8] * 3
    assert torch.cuda.graphs.CUDAGraph is torch.cuda.CUDAGraph is torch.npu.NPUGraph


def test_cuda_graphs_take_the_arguments_of_cuda(transfer):
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, torch.cuda.graph_pool_handle(), side, "thread_local") as entered:
        y = x * 2
    assert entered is None and graph.graph_dispatch_mode is None
    graph.replay()
    assert y.tolist() == [2] * 3
    with torch.cuda.graph(cuda_graph=torch.cuda.CUDAGraph(), stream=side, capture_error_mode="relaxed", check_input_liveness=False):
        x * 2
    with pytest.raises(ValueError, match="'global'"), torch.cuda.graph(torch.cuda.CUDAGraph(), None, side, "local"):
        pass
    for name in ("enable_annotations", "check_input_liveness"):
        with pytest.raises(NotImplementedError, match=name):
            torch.cuda.graphs.graph(torch.cuda.CUDAGraph(), **{name: True})
    assert issubclass(torch.cuda.graph, torch.npu.graph) and torch.cuda.graphs.graph is torch.cuda.graph


def test_keys_of_the_dispatcher_stay_cuda_for_libraries_that_know_npu(transfer):
    from torch_npu.contrib._transfer import arguments

    for module, expected in (("torchvision.ops.boxes", "CUDA"), ("torch.library", "CUDA"), ("mylibrary.torch", "PrivateUse1")):
        names = {"__name__": module, "dispatch_key": arguments.dispatch_key}
        assert eval("dispatch_key('CUDA')", names) == expected
