"""torch.compile under transfer_to_npu: what a compiled function answers about CUDA is what it answers uncompiled."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

BACKENDS = ["eager", "aot_eager", "inductor"]
pytestmark = pytest.mark.filterwarnings("ignore:torch.compile. Inductor has no code generator", "ignore::DeprecationWarning")


@pytest.fixture
def transfer(capsys):
    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.apply()
    yield transfer_to_npu
    transfer_to_npu.undo()


def other_stream(x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 1
    torch.cuda.current_stream().wait_stream(side)
    return y * 2


def event(x):
    done = torch.cuda.Event()
    y = x + 1
    done.record()
    done.synchronize()
    return y


def synchronize(x):
    y = x + 1
    torch.cuda.synchronize()
    return y * 2


def on_device(x):
    with torch.cuda.device("cuda:0"):
        return x + torch.cuda.current_device()


def autocast(x):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return (x[:, None] @ x[None]) * (2 if torch.is_autocast_enabled() else 3)


def cuda_autocast(x):
    with torch.cuda.amp.autocast():
        return x * (2 if torch.is_autocast_enabled() else 3)


IN_ONE_GRAPH = {
    "is_available": lambda x: x * 2 if torch.cuda.is_available() else x * 0,
    "is_cuda": lambda x: x * 2 if x.is_cuda else x * 0,
    "getattr is_cuda": lambda x: x * 2 if getattr(x, "is_cuda") else x * 0,  # noqa: B009
    "is_cuda of a CPU tensor": lambda x: x * 2 if torch.ones(1).is_cuda else x * 3,
    "device type": lambda x: x * 2 if x.device.type == "cuda" else x * 3,
    "device equality": lambda x: x * 2 if x.device == torch.device("cuda:0") else x * 3,
    "current_device": lambda x: x + torch.cuda.current_device(),
    "device_count": lambda x: x + torch.cuda.device_count(),
    "capability": lambda x: x + torch.cuda.get_device_capability()[0],
    "properties": lambda x: x + torch.cuda.get_device_properties(0).major,
    "name": lambda x: x + len(torch.cuda.get_device_name(0)),
    "bf16": lambda x: x * (2 if torch.cuda.is_bf16_supported() else 3),
    "is_initialized": lambda x: x * (2 if torch.cuda.is_initialized() else 3),
    "device argument": lambda x: x + torch.ones(3, device="cuda"),
    "device object": lambda x: x + torch.ones(3, device=torch.device("cuda")),
    "cuda()": lambda x: x + torch.ones(3).cuda(),
    "to": lambda x: x.cpu().to("cuda", non_blocking=True) + 1,
    "new_ones": lambda x: x + x.new_ones(3, device="cuda"),
    "type": lambda x: x.type("torch.cuda.HalfTensor") + 1,
    "synchronize": synchronize,
    "streams": other_stream,
    "events": event,
    "device context": on_device,
    "autocast": autocast,
    "cuda.amp.autocast": cuda_autocast,
}
WITH_GRAPH_BREAKS = {
    "memory": lambda x: x + torch.cuda.memory_allocated() * 0 + (torch.cuda.empty_cache() is None),
    "set_device": lambda x: x + (torch.cuda.set_device(0) is None),
    "isinstance": lambda x: x * (2 if isinstance(x, torch.cuda.FloatTensor) else 3),
    "isinstance of a CPU tensor": lambda x: x * (2 if isinstance(x.cpu(), torch.cuda.FloatTensor) else 3),
    "nvtx": lambda x: x + (torch.cuda.nvtx.range_push("a") + torch.cuda.nvtx.range_pop()),
    "soc": lambda x: x + torch.npu.get_task_queue_enable() + torch.npu.utilization() * 0,
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize(("name", "fullgraph"), [*((name, True) for name in IN_ONE_GRAPH), *((name, False) for name in WITH_GRAPH_BREAKS)])
def test_compiled_is_as_eager(transfer, name, fullgraph, backend):
    function, x = {**IN_ONE_GRAPH, **WITH_GRAPH_BREAKS}[name], torch.arange(3.0).cuda()
    expected = function(x)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Dynamo does not know how to trace")
        found = torch.compile(function, backend=backend, fullgraph=fullgraph)(x)
    assert torch.equal(found, expected) and found.dtype == expected.dtype and found.device == expected.device


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_library_that_sees_no_cuda_sees_none_when_compiled(transfer, backend, tmp_path, monkeypatch):
    (tmp_path / "mylib.py").write_text("import torch\n\ndef f(x):\n    return x * 2 if torch.cuda.is_available() else x * 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mylib", raising=False)
    import mylib

    transfer.undo()
    transfer.apply(exclude=["mylib"])

    def both(x):
        return mylib.f(x) + (1 if torch.cuda.is_available() else 0)

    x = torch.ones(2).cuda()
    assert both(x).tolist() == [4, 4] == torch.compile(both, backend=backend, fullgraph=True)(x).tolist()


def test_what_was_compiled_before_is_compiled_again(transfer):
    def answer(x):
        return x + (1 if torch.cuda.is_available() else 0) + (2 if x.is_cuda else 0)

    compiled, x = torch.compile(answer, backend="eager"), torch.zeros(1).npu()
    for _ in range(2):
        assert compiled(x).item() == 3
        transfer.undo()
        assert compiled(x).item() == 0
        transfer.apply()


def test_synchronize_waits_for_the_current_card(transfer, restore_device, monkeypatch):
    waited = []
    monkeypatch.setattr(torch.accelerator, "synchronize", waited.append)
    compiled = torch.compile(synchronize, backend="aot_eager")
    for card in (0, 1):
        torch.cuda.set_device(card)
        compiled(torch.ones(2, device="cuda"))
    assert waited == [torch.device("npu:0"), torch.device("npu:1")]


ORDERS = {
    "transfer first": "from torch_npu.contrib import transfer_to_npu\nimport torch._dynamo, torch._inductor.compile_fx",
    "Dynamo first": "import torch._dynamo, torch._inductor.compile_fx\nfrom torch_npu.contrib import transfer_to_npu",
}


@pytest.mark.parametrize("order", ORDERS)
def test_default_backend_compiles_graphs_of_the_cpu_and_its_own_questions_stay_unanswered(check, order):
    """Inductor identifies the machine by CUDA's properties; a build of torch without CUDA has none."""
    printed = check(ORDERS[order] + """
def answer(x):
    return x.sin() * (2 if torch.cuda.is_available() else 0) + (1 if x.is_cuda else 0)
x = torch.ones(3)
torch.testing.assert_close(torch.compile(answer)(x), answer(x))
transfer_to_npu.undo()
assert torch.compile(answer, backend="eager", fullgraph=True)(x).tolist() == [0, 0, 0]
print("ok")
""")
    assert printed == "ok"


@pytest.mark.parametrize("order", ORDERS)
def test_the_backend_cudagraphs_captures_on_npu(check, order):
    assert check(ORDERS[order] + """
from torch._dynamo.utils import counters
def chain(x):
    for _ in range(8):
        x = x.sin() * 1.5
    return x
compiled, x = torch.compile(chain, backend="cudagraphs"), torch.ones(4, device="cuda")
print(all(torch.equal(compiled(x), chain(x)) for _ in range(4)), counters["npu"]["captures"], counters["npu"]["replays"] > 0)
print("cudagraphs" in torch._dynamo.list_backends())
transfer_to_npu.undo()
from torch._dynamo.backends import cudagraphs, registry
print(isinstance(registry.lookup_backend("cudagraphs"), cudagraphs.CudagraphsBackend))
""").split() == ["True", "1", "True", "True", "True"]


@pytest.mark.parametrize("order", ORDERS)
def test_autocast_of_cuda_is_one_graph_whoever_is_imported_first(check, order):
    printed = check(ORDERS[order] + """
def answer(x, autocast):
    with autocast():
        return x @ x
x = torch.ones(2, 2, device="npu")
half, single = torch.compile(answer, backend="eager", fullgraph=True), torch.ones(2, 2)
for autocast in (torch.cuda.amp.autocast, torch.npu.amp.autocast):
    assert half(x, autocast).dtype == torch.float16 and half(single, autocast).dtype == torch.float32
transfer_to_npu.undo()
assert half(x, torch.npu.amp.autocast).dtype == torch.float16 and half(x, torch.cuda.amp.autocast).dtype == torch.float32
print("ok")
""")
    assert printed == "ok"


def test_trainer_with_torch_compile(tmp_path):
    """transformers' Trainer(torch_compile=True) uses the default backend."""
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    script = tmp_path / "train.py"
    script.write_text("""
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, labels=None):
        loss = (self.layer(x).squeeze(-1) - labels).square().mean()
        return {"loss": loss}

data = [{"x": torch.ones(4), "labels": torch.tensor(1.0)} for _ in range(8)]
arguments = TrainingArguments("out", max_steps=2, torch_compile=True, report_to=[], save_strategy="no")
trainer = Trainer(Net(), arguments, train_dataset=data)
print("trained", trainer.train().global_step, trainer.model.layer.weight.device.type)
""")
    command = [sys.executable, "-c", "from torch_npu.contrib import transfer_to_npu; import runpy; runpy.run_path('train.py')"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert "trained 2 npu" in process.stdout


def dynamo_tables():
    """What Dynamo looks functions up in, and TorchScript's table of builtins."""
    from torch._dynamo import trace_rules, utils
    from torch._dynamo.variables import ctx_manager, streams, tensor, torch as functions
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable
    from torch.jit import _builtins

    handlers = functions.TorchInGraphFunctionVariable._get_handlers()
    return [*map(dict, trace_rules.torch_name_rule_map), dict(trace_rules.get_torch_obj_rule_map()),
            dict(functions.constant_fold_functions), dict(functions.constant_fold_functions_need_guards), dict(handlers),
            dict(streams._stream_fn_to_variable_cls), dict(functions.supported_ctx_manager_classes),
            dict(ctx_manager._device_context_manager_map), set(UserDefinedClassVariable._in_graph_classes()),
            set(utils.common_constant_types), set(trace_rules.SKIP_DIRS), dict(vars(tensor.TensorVariable)),
            dict(_builtins._get_builtin_table())]  # fmt: skip


def test_undo_leaves_nothing_in_the_tables_of_dynamo_and_torchscript():
    import torch._dynamo  # noqa: F401

    from torch_npu.contrib import transfer_to_npu

    transfer_to_npu.undo()
    before = dynamo_tables()
    transfer_to_npu.apply()
    changed = [a != b for a, b in zip(before, dynamo_tables())]
    assert sum(changed) >= 7, changed
    transfer_to_npu.undo()
    after = dynamo_tables()
    assert [a == b for a, b in zip(before, after)] == [True] * len(before)


def test_undo_leaves_nothing_when_dynamo_came_later(check):
    """The tables of a Dynamo that was imported while cuda meant npu are those of one that was imported before."""
    printed = check(f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from torch_npu.contrib import transfer_to_npu
import torch._dynamo
torch.compile(lambda x: x + torch.cuda.device_count(), backend="eager")(torch.ones(1))
ours = {{id(value) for name in dir(torch.cuda) if callable(value := getattr(torch.cuda, name, None)) and not isinstance(value, type)}}
wanted = [torch.cuda.is_available.__closure__ is not None]
transfer_to_npu.undo()
from test_transfer_compile import dynamo_tables
left = [key for table in dynamo_tables()[3:] for key in table if id(key) in ours and getattr(torch.cuda, key.__name__, None) is not key]
functions = torch._dynamo.variables.torch
print(left, torch.cuda.is_available in functions.constant_fold_functions, torch.cuda.synchronize in dynamo_tables()[6])
""")
    assert printed == "[] True True"


def test_module_moved_inside_a_compiled_function(transfer):
    net = nn.Linear(2, 2)

    def step(x):
        return net.cuda()(x.cuda())

    assert torch.compile(step, backend="aot_eager")(torch.ones(1, 2)).is_cuda


def test_undo_leaves_no_attribute_of_any_module_or_class_of_torch_changed(check):
    """Everything that torch has is looked at, whatever transfer_to_npu says that it changes."""
    printed = check("""
import sys
import torch._dynamo, torch.cuda.comm, torch.cuda.nccl, torch.cuda.profiler, torch.distributed.fsdp, torch.distributed.pipelining
import torch.library, torch.nested, torch.profiler, torch_npu.contrib._transfer.patches

def everything():
    modules = [m for name, m in list(sys.modules.items()) if name.split(".")[0] in ("torch", "torch_npu") and "_transfer" not in name]
    classes = {id(c): c for m in modules for c in list(vars(m).values()) if issubclass(type(c), type) and c.__module__.startswith("torch")}
    return {(getattr(owner, "__module__", ""), owner.__name__, name): (value, owner) for owner in (*modules, *classes.values())
            for name, value in list(vars(owner).items()) if name not in ("__warningregistry__", "__abstractmethods__", "_abc_impl")
            and (callable(value) or hasattr(type(value), "__get__") or "_dynamo" not in str(owner))}

torch_npu.contrib._transfer.patches.apply([])
torch_npu.contrib._transfer.patches.undo()    # what it imports is imported
before = everything()
torch_npu.contrib._transfer.patches.apply([])
during = everything()
print(sum(before.get(key, (None,))[0] is not value for key, (value, _) in during.items()) > 250)
torch_npu.contrib._transfer.patches.undo()
after = everything()
print(sorted(".".join(key) for key in {*before, *after} if before.get(key, (None,))[0] is not after.get(key, (None,))[0]))
""")
    assert printed.split("\n") == ["True", "[]"]
