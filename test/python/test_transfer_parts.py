"""The parts of transfer_to_npu by themselves: which arguments are rewritten and which pass, what wrappers count, how variables are said for
npu. test_transfer_to_npu.py redirects torch.
"""

import ast
import functools
import os
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import ProfilerActivity

import torch_npu  # noqa: F401
from torch_npu.contrib._transfer import arguments, environment, patches, replacements, script, wrappers
from torch_npu.contrib._transfer.report import Report, Row


@pytest.fixture(autouse=True)
def enabled(monkeypatch):
    monkeypatch.setattr(arguments, "enabled", True)


def off(monkeypatch):
    monkeypatch.setattr(arguments, "enabled", False)


# ---- Arguments ----

PASS = ["cpu", "cudax", "cud", "npu:0", "", "xcuda", torch.device("cpu"), 1, None, ["cpu"], (1, "npu"), {"a": "cpu"}, 1.5]


@pytest.mark.parametrize("value, changed", [
    ("cuda", "npu"), ("cuda:1", "npu:1"), (torch.device("cuda:1"), torch.device("npu:1")), (torch.device("cuda"), torch.device("npu")),
    (["cuda:1", "cpu"], ["npu:1", "cpu"]), (("cuda", 2), ("npu", 2)), ({"a": "cuda"}, {"a": "npu"}), ({"a": ["cuda"]}, {"a": ["npu"]})],
    ids=str)
def test_devices_of_cuda_become_those_of_npu(value, changed, monkeypatch):
    used = []
    monkeypatch.setattr(arguments, "before_use", lambda: used.append(1))
    assert arguments.device(value) == changed and type(arguments.device(value)) is type(value) and used
    off(monkeypatch)
    assert arguments.device(value) is value


@pytest.mark.parametrize("value", PASS, ids=repr)
def test_everything_else_passes_as_it_is(value, monkeypatch):
    monkeypatch.setattr(arguments, "before_use", lambda: 1 / 0)
    assert arguments.device(value) is value


def test_locations_may_be_numbers_and_dicts(monkeypatch):
    assert arguments.map_location(1) == torch.device("npu:1") and arguments.map_location("cuda:0") == "npu:0"
    assert arguments.map_location(True) is True and arguments.map_location(None) is None and arguments.map_location(len) is len
    assert arguments.map_location({"cuda:1": "cuda:0", "cpu": "cpu"}) == {"cuda:1": "npu:0", "npu:1": "npu:0", "cpu": "cpu"}
    assert arguments.map_location({"npu:1": "cpu", "cuda:1": "cuda:0"}) == {"npu:1": "cpu", "cuda:1": "npu:0"}  # as it is written counts
    off(monkeypatch)
    given = {"cuda:1": "cuda:0"}
    assert arguments.map_location(given) is given and arguments.map_location(1) == 1


def test_backends(monkeypatch):
    found = [arguments.backend(value) for value in ("nccl", "NCCL", "gloo", "cpu:gloo,cuda:nccl", "cuda: nccl", None, 3, "mpi")]
    assert found == ["hccl", "hccl", "gloo", "cpu:gloo,npu:hccl", "npu:hccl", None, 3, "mpi"]
    off(monkeypatch)
    assert arguments.backend("nccl") == "nccl"


def test_activities(monkeypatch):
    cpu, cuda, npu = ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.PrivateUse1

    def with_npu(there):
        monkeypatch.setattr(torch.profiler, "supported_activities", lambda: {cpu, npu} if there else {cpu})

    with_npu(True)
    assert arguments.activities([cpu, cuda]) == [cpu, npu] and arguments.activities({cuda}) == [npu]
    assert arguments.activities([npu, cuda]) == [npu] and arguments.activities(None) is None and arguments.activities((cpu,)) == [cpu]
    with_npu(False)
    assert arguments.activities([cuda]) == [cpu] and arguments.activities([cpu, cuda]) == [cpu]
    off(monkeypatch)
    assert arguments.activities([cuda]) == [cuda]


def test_keys_of_the_dispatcher(monkeypatch):
    found = [arguments.dispatch_key(key) for key in ("CUDA", "AutogradCUDA", "AutocastCUDA", "CPU", "", "QuantizedCUDA")]
    assert found == ["PrivateUse1", "AutogradPrivateUse1", "AutocastPrivateUse1", "CPU", "", "QuantizedCUDA"]
    for module, changed in (("torch.library", False), ("torchvision.x", False), ("torch_npu", False), ("torchy", True)):
        space = {"__name__": module, "key": arguments.dispatch_key}
        exec("found = key('CUDA')", space)
        assert (space["found"] == "PrivateUse1") is changed
    off(monkeypatch)
    assert arguments.dispatch_key("CUDA") == "CUDA"


# ---- Sources of TorchScript ----


@pytest.mark.parametrize("source, changed", [
    ("torch.zeros(2, device='cuda:1')", "torch.zeros(2, device='npu:1')"), ("f('cuda', ['cuda:0', 'cpu'])", "f('npu', ['npu:0', 'cpu'])"),
    ("x.cuda()", "x.to('npu')"), ("torch.relu(x.cuda())", "torch.relu(x.to('npu'))"), ("x.cuda().cuda()", "x.to('npu').to('npu')"),
    ("x.is_cuda", "x.device.type == 'npu'"), ("f(x.y.is_cuda)", "f(x.y.device.type == 'npu')"),
    ("x.cuda().is_cuda", "x.to('npu').device.type == 'npu'"), ("f(x.cuda()).is_cuda", "f(x.to('npu')).device.type == 'npu'"),
    *[(code, code) for code in ("x.cuda(0)", "x.cuda(non_blocking=True)", "cuda()", "x.cuda", "x.cudart()", "'cudaish'", "f(1, 'cpu')")],
], ids=str)  # fmt: skip
def test_sources_that_are_scripted_say_npu(source, changed):
    tree = script._Source().visit(ast.parse(source))
    assert ast.unparse(tree) == ast.unparse(ast.parse(changed))
    compile(tree, "file.py", "exec")  # every node has its place


def test_scripted_functions_are_counted_if_they_change():
    def original(fn):
        """Of torch."""
        return torch._sources.ParsedDef(ast.parse(fn), None, fn, "file.py", 1)

    counted = row()
    parse_def = script.make_parse_def(original, counted)
    assert parse_def.__doc__ == "Of torch."
    for source, uses in (("x.cpu()", 0), ("x.cuda()", 1), ("x.is_cuda", 2), ("y", 2)):
        parsed = parse_def(source)
        assert counted.uses == uses and parsed.source == source and parsed.filename == "file.py"
    assert ast.unparse(parse_def("x.cuda()").ast) == "x.to('npu')"


# ---- Wrappers ----


def echo(*args, **kwargs):
    """Says what it was given."""
    return args, kwargs


def row():
    return Row("a name", "an effect")


def test_one_parameter_is_rewritten_where_it_is_given():
    counted = row()
    wrapped = wrappers.rewriting(echo, "device@1", counted)
    assert wrapped.__doc__ == echo.__doc__ and counted.uses == 0
    assert wrapped("cuda", "cuda:1", "cuda") == (("cuda", "npu:1", "cuda"), {}) and counted.uses == 1
    assert wrapped("cuda", device="cuda") == (("cuda",), {"device": "npu"}) and counted.uses == 2
    assert wrapped("cuda") == (("cuda",), {}) and wrapped("x", "cpu") == (("x", "cpu"), {}) and counted.uses == 2
    assert wrapped(device="cpu") == ((), {"device": "cpu"}) and wrapped() == ((), {}) and counted.uses == 2
    assert wrapped(1, "cuda", 3, 4) == ((1, "npu", 3, 4), {})
    by_name = wrappers.rewriting(echo, "device", counted)
    assert by_name("cuda", x="cuda") == (("cuda",), {"x": "cuda"}) and by_name(device="cuda")[1] == {"device": "npu"}


def test_several_parameters_and_defaults_are_rewritten(monkeypatch):
    counted = row()
    wrapped = wrappers.rewriting(echo, "backend@0 device@2=npu", counted)
    assert wrapped("nccl", 1, "cuda") == (("hccl", 1, "npu"), {}) and counted.uses == 1
    assert wrapped("nccl", 1) == (("hccl", 1, "npu"), {}) and wrapped("gloo", 1) == (("gloo", 1, "npu"), {}) and counted.uses == 3
    assert wrapped("gloo") == (("gloo",), {}) and wrapped("gloo", 1, "cpu") == (("gloo", 1, "cpu"), {}) and counted.uses == 3
    assert wrapped("gloo", device="cuda") == (("gloo",), {"device": "npu"}) and counted.uses == 4
    assert wrapped("gloo", device="cpu") == (("gloo",), {"device": "cpu"}) and counted.uses == 4
    off(monkeypatch)
    assert wrapped("nccl", 1) == (("nccl", 1), {}) and counted.uses == 4


def test_words_of_the_table():
    plain, at, default = (wrappers.Parameter(text) for text in ("map_location", "device@2", "x@0=cuda"))
    assert (plain.name, plain.position, plain.default, plain.rewrite) == ("map_location", None, None, arguments.map_location)
    assert (at.name, at.position, at.default, at.rewrite) == ("device", 2, None, arguments.device)
    assert (default.name, default.position, default.default) == ("x", 0, "cuda")
    assert patches._words("device@1 backend") == "device, backend"


def test_functions_of_npu_take_names_of_cuda(monkeypatch):
    used, counted = [], row()
    monkeypatch.setattr(environment, "before_use", lambda: used.append(1))
    wrapped = wrappers.counting(echo, counted)
    assert wrapped("cuda:1", 3, device="cuda", other=1) == (("npu:1", 3), {"device": "npu", "other": 1})
    assert counted.uses == 1 and used == [1] and wrapped.__name__ == "echo"


class Original:
    """A document."""

    def __init__(self, device="cuda"):
        self.device = device


def test_a_stand_in_makes_and_recognises_objects_of_the_original():
    counted = row()
    made = wrappers.stand_in(Original, "device@0", counted)
    assert made("cuda:1").device == "npu:1" and type(made("cpu")) is Original and counted.uses == 2
    assert isinstance(Original(), made) and not isinstance(3, made) and issubclass(Original, made) and not issubclass(int, made)
    assert made.__doc__ == "A document." and made.__name__ == "Original" and made.__module__ == __name__

    class Sub(made):
        pass

    assert type(Sub("cuda")) is Sub and Sub("cuda").device == "npu" and isinstance(Sub(), made) and not isinstance(Original(), Sub)
    assert issubclass(Sub, made) and not issubclass(Original, Sub)
    abstract = wrappers.stand_in(torch.utils.data.Sampler, "device", row())
    assert issubclass(torch.utils.data.RandomSampler, abstract)


def test_what_is_refused_says_why():
    counted = row()
    made = wrappers.refusing("torch.cuda.nothing", "there is none", counted)
    with pytest.raises(NotImplementedError, match="^torch.cuda.nothing: there is none$"):
        made(1, x=2)
    assert counted.uses == 1 and not isinstance(3, made) and (made.__name__, made.__module__) == ("nothing", "torch.cuda")
    assert [wrappers.is_plain_function(f) for f in (echo, len, Original, 3, functools.partial(echo))] == [True, True, False, False, False]


# ---- Report ----


def test_reports_show_what_was_used():
    rows = [Row("a", "x", 2), Row("b", "y"), Row("c", "z", 10)]
    made = Report(rows, ["torch.load"])
    assert [r.name for r in made.used] == ["c", "a"] and Row("a", "b").uses == 0
    assert str(made).splitlines() == ["3 names redirected from cuda to npu, 2 of them used", "      10  c: z", "       2  a: x",
                                     "excluded: torch.load"]
    assert str(Report([], [])) == "0 names redirected from cuda to npu, 0 of them used"


# ---- Environment ----


@pytest.fixture
def variables(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "ASCEND_LAUNCH_BLOCKING",
                 "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    card = SimpleNamespace(opened=False)
    monkeypatch.setattr(environment, "_C", SimpleNamespace(is_initialized=lambda: card.opened))
    monkeypatch.setattr(environment, "_set", {})
    monkeypatch.setattr(environment, "_settled", True)
    return card, monkeypatch.setenv


def test_variables_of_cuda_are_read_until_the_card_is_used(variables):
    card, setenv = variables
    setenv("CUDA_VISIBLE_DEVICES", "1")
    environment.before_use()
    assert "ASCEND_RT_VISIBLE_DEVICES" not in os.environ  # it is not applied
    environment.apply()
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "1"
    setenv("CUDA_VISIBLE_DEVICES", "2")
    setenv("CUDA_LAUNCH_BLOCKING", "1")
    environment.before_use()
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "2" and os.environ["ASCEND_LAUNCH_BLOCKING"] == "1"
    card.opened = True
    setenv("CUDA_VISIBLE_DEVICES", "3")
    environment.before_use()
    card.opened = False
    environment.before_use()
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "2"  # too late, from then on
    setenv("ASCEND_LAUNCH_BLOCKING", "0")
    environment.undo()
    assert "ASCEND_RT_VISIBLE_DEVICES" not in os.environ and os.environ["ASCEND_LAUNCH_BLOCKING"] == "0" and not environment._set


def test_what_the_npus_own_variable_says_counts(variables):
    _, setenv = variables
    setenv("CUDA_VISIBLE_DEVICES", "1")
    setenv("ASCEND_RT_VISIBLE_DEVICES", "5")
    setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:30")
    environment.apply()
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "5" and os.environ["PYTORCH_NPU_ALLOC_CONF"] == "max_split_size_mb:30"
    environment.undo()
    setenv("PYTORCH_ALLOC_CONF", "x")
    environment.apply()
    assert "PYTORCH_NPU_ALLOC_CONF" not in os.environ and os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "5"
    environment.undo()
    assert os.environ["ASCEND_RT_VISIBLE_DEVICES"] == "5"


# ---- Patches ----


@pytest.fixture
def place(monkeypatch):
    """An object to change, and nothing that was changed before."""
    monkeypatch.setattr(patches, "_saved", [])
    monkeypatch.setattr(patches, "_rows", {})
    monkeypatch.setattr(patches, "excluded", [])
    redirected = []
    monkeypatch.setattr(patches.dynamo, "redirect", lambda *args: redirected.append(args))
    return SimpleNamespace(inner=SimpleNamespace(f=echo)), redirected


def test_a_name_is_changed_and_counted(place):
    owner, redirected = place
    patches._change(owner, ["inner", "f"], "torch.inner.f", "an effect", lambda old, row: (old, row))
    old, made = owner.inner.f
    assert old is echo and made.name == "torch.inner.f" and made.effect == "an effect" and patches._rows == {"torch.inner.f": made}
    assert patches._saved == [(owner.inner, "f", echo)] and redirected == [("torch.inner.f", echo, owner.inner.f)]


def test_names_that_are_not_there_are_passed_over_or_added(place):
    owner, _ = place
    for path in (["none"], ["none", "f"], ["inner", "none"]):
        patches._change(owner, path, "torch.x", "", lambda old, row: 1)
    assert not patches._saved and not patches._rows
    for name, target in (("a", "torch.cuda.a"), ("b", "torch_npu.b"), ("ProcessGroupNCCL", "torch.x")):
        patches._change(owner, [name], target, "", lambda old, row: old)
        assert getattr(owner, name) is None
    assert [saved[2] for saved in patches._saved] == [patches._MISSING] * 3


def test_excluded_names_and_what_is_below_them(place, monkeypatch):
    asked = []
    monkeypatch.setattr(patches, "after_import", lambda module, function: asked.append(module))
    monkeypatch.setattr(patches, "_pending", {})
    monkeypatch.setattr(patches, "excluded", ["torch.a"])
    assert [patches._is_excluded(name) for name in ("torch.a", "torch.a.b", "torch.ab", "torch")] == [True, True, False, False]
    for target in ("torch.a.b", "torch.c.d", "torch.e:f.g"):
        patches._patch(target, "x", len)
    assert asked == ["torch.c", "torch.e"]
    assert patches._pending == {"torch.c": [(["d"], "torch.c.d", "x", len)], "torch.e": [(["f", "g"], "torch.e.f.g", "x", len)]}


def test_what_a_class_inherits_is_not_put_back_into_it(place):
    class Base:
        def f(self):
            return 1

    class Derived(Base):
        pass

    patches._change(Derived, ["f"], "torch.f", "", lambda old, row: lambda self: 2)
    assert Derived().f() == 2 and patches._saved == [(Derived, "f", patches._MISSING)]
    patches._change(Base, ["__new__"], "torch.new", "", lambda old, row: lambda cls: old(cls))
    assert isinstance(vars(Base)["__new__"], staticmethod) and isinstance(Base(), Base)
    patches._remove(Base, "f")
    assert not hasattr(Base, "f") and patches._saved[-1][1] == "f"


# ---- Replacements ----


def replaced(name, original=None):
    counted = row()
    return replacements.REPLACEMENTS[name](original, counted), counted


class Movable:
    def npu(self, *args, **kwargs):
        return args, kwargs


def test_cuda_methods_move_to_npu():
    for name, expected in (("torch:Tensor.cuda", (("npu:1", True), {"memory_format": torch.channels_last})),
                           ("torch:UntypedStorage.cuda", (("npu:1", True), {})), ("torch.nn:Module.cuda", (("npu:1",), {}))):
        cuda, counted = replaced(name)
        more = {"torch:Tensor.cuda": (True, torch.channels_last), "torch:UntypedStorage.cuda": (True,)}.get(name, ())
        assert cuda(Movable(), "cuda:1", *more) == expected and counted.uses == 1
    assert replaced("torch:Tensor.cuda")[0](Movable()) == ((None, False), {"memory_format": torch.preserve_format})
    assert replaced("torch:TypedStorage.cuda")[0](Movable()) == ((None, False), {})


def test_what_lies_on_npu_counts_as_cuda():
    asked = replaced("torch:Tensor.is_cuda")[0].fget
    assert [asked(SimpleNamespace(device=torch.device(name))) for name in ("npu", "cuda", "cpu", "meta")] == [True, True, False, False]
    interface = replaced("torch:Tensor.__cuda_array_interface__", property(lambda self: "original"))[0].fget
    assert interface(torch.ones(1)) == "original"
    with pytest.raises(AttributeError, match="an npu tensor has no CUDA memory"):
        interface(torch.ones(1, device="npu"))
    in_dynamo = replaced("torch._dynamo.variables.tensor:TensorVariable.method_attr_is_cuda")[0]
    for name, answer in (("npu", True), ("cuda", True), ("cpu", False)):
        assert in_dynamo(SimpleNamespace(device=torch.device(name)), None).as_python_constant() is answer
    assert in_dynamo(SimpleNamespace(device=None), None) is None


def test_tensor_types_of_cuda():
    given = []
    changed, counted = replaced("torch:Tensor.type", lambda *args, **kwargs: given.append((args[1:], kwargs)))
    x = torch.ones(2)
    half = changed(x, "torch.cuda.HalfTensor")
    assert half.is_npu and half.dtype == torch.float16 and counted.uses == 1
    double = changed(torch.ones(1, device="npu:1"), torch.npu.DoubleTensor)
    assert double.device.index == 1 and double.dtype == torch.float64 and counted.uses == 2
    changed(x)
    changed(x, torch.int32, True, a=1)
    assert given == [((), {"non_blocking": False}), ((torch.int32, True), {"a": 1})] and counted.uses == 2


def test_the_default_type_is_a_type_and_a_device():
    given = []
    changed, counted = replaced("torch.set_default_tensor_type", given.append)
    try:
        changed("torch.cuda.DoubleTensor")
        assert torch.get_default_dtype() == torch.float64 and torch.get_default_device().type == "npu" and counted.uses == 1
        changed(torch.npu.FloatTensor)
        assert torch.get_default_dtype() == torch.float32 and counted.uses == 2
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    changed("torch.FloatTensor")
    changed(torch.DoubleTensor)
    assert given == ["torch.FloatTensor", torch.DoubleTensor] and counted.uses == 2


def test_who_is_told_that_there_is_a_gpu(monkeypatch):
    told = replacements.TOLD_THE_TRUTH
    told = next(iter(told))
    assert replacements.is_available_for("a.script") is True and replacements.is_available_for(f"{told}.x") is False
    monkeypatch.setattr(patches, "excluded", ["mine"])
    assert replacements.is_available_for("mine.x") is False and replacements.is_available_for("miner") is True
    asked, counted = replaced("torch.cuda.is_available")
    assert asked() is True and counted.uses == 1
    space = {"__name__": f"{told}.x", "asked": asked}
    exec("found = asked()", space)
    assert space["found"] is False and counted.uses == 1
    monkeypatch.setattr(replacements.npu, "is_available", lambda: False)
    assert asked() is False and replaced("torch.cuda.amp.common.amp_definitely_not_available")[0]() is True


def test_properties_and_capabilities(monkeypatch):
    properties, counted = replaced("torch.cuda.get_device_properties")
    assert properties("cuda:0").name == torch.npu.get_device_properties(0).name and counted.uses == 1
    space = {"__name__": "torch._inductor.x", "properties": properties}
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        exec("properties()", space)
    monkeypatch.delenv("TORCH_NPU_DEVICE_CAPABILITY", raising=False)
    capability, counted = replaced("torch.cuda.get_device_capability")
    assert capability() == (0, 0) and capability(0) == (0, 0) and counted.uses == 2
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.6")
    assert capability() == (8, 6)
    assert [replaced(f"torch_npu._C:_NPUDeviceProperties.{part}")[0].fget(None) for part in ("major", "minor")] == [8, 6]
    assert replaced("torch_npu.npu.streams:Stream.cuda_stream")[0].fget(SimpleNamespace(npu_stream=5)) == 5
    assert replaced("torch_npu.npu.streams:Event.cuda_event")[0].fget(SimpleNamespace(npu_event=6)) == 6


def test_collectives_profilers_and_checkpoints(monkeypatch):
    there, counted = replaced("torch.distributed.is_nccl_available")
    assert there() is True and counted.uses == 1
    monkeypatch.setattr(torch.distributed.Backend, "backend_list", ["gloo"])
    assert there() is False
    found = replaced("torch.distributed:Backend.default_device_backend_map", {"cuda": "nccl", "cpu": "gloo", "npu": "hccl"})[0]
    assert found == {"cpu": "gloo", "npu": "hccl"}
    given = []
    profile, counted = replaced("torch.autograd.profiler:profile.__init__", lambda self, *args, **kwargs: given.append((args, kwargs)))
    npu, cpu = ProfilerActivity.PrivateUse1, ProfilerActivity.CPU
    for supported, device in (({npu, cpu}, "npu"), ({cpu}, None)):
        monkeypatch.setattr(torch.profiler, "supported_activities", lambda supported=supported: supported)
        for options in ({"use_cuda": True}, {"use_device": "cuda"}):
            profile(None, **options, x=1)
            assert given.pop() == ((True,), {"use_device": device, "x": 1})
    assert counted.uses == 4
    profile(None, False, use_device="other")
    assert given.pop() == ((False,), {"use_device": "other"}) and counted.uses == 4
    monkeypatch.setattr(torch.serialization, "default_restore_location", lambda obj, location: (obj, location))
    assert replacements.cuda_checkpoints(3, "cuda:1") == (3, "npu:1") and replacements.cuda_checkpoints(3, "cpu") is None


def test_types_of_autocast():
    get, counted = replaced("torch.get_autocast_gpu_dtype")
    change, _ = replaced("torch.set_autocast_gpu_dtype")
    before = get()
    try:
        change(torch.bfloat16)
        assert get() == torch.get_autocast_dtype("npu") == torch.bfloat16 and counted.uses == 2
    finally:
        torch.set_autocast_dtype("npu", before)
