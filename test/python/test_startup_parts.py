"""The parts of `import torch_npu`, each by itself: what is checked before the extension is loaded, variables, imports that are waited for,
refusals, and what stands in torch.npu when the package could not be loaded.
"""

import inspect
import os
import sys
import types
import warnings
from types import SimpleNamespace

import pytest
import torch

import torch_npu
from torch_npu import (
    _C,
    _after_import,
    _captured_steps,
    _debug,
    _environment,
    _fallback_modules,
    _grad_scaler,
    _refusal,
    _register,
    _startup,
    _unavailable,
)

OURS = torch_npu.__version__


def refused(function, *arguments):
    with pytest.raises(ImportError) as error:
        function(*arguments)
    return str(error.value)


# ---- What is checked ----


def test_the_series_of_torch(monkeypatch):
    for version, fits in (("2.13.0+cpu", True), ("2.13.4", True), ("2.130.0", False), ("2.12.1", False), ("12.13.0", False)):
        monkeypatch.setattr(torch, "__version__", version)
        if fits:
            _startup._check_torch("2.13.0+oss")
        else:
            assert refused(_startup._check_torch, "2.13.0+oss") == (
                f"torch_npu 2.13.0+oss needs torch 2.13 but found torch {version}; cure: pip install torch==2.13.0")


def test_another_backend_in_the_one_place(monkeypatch):
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")
    _startup._check_alone()
    monkeypatch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "other")
    assert refused(_startup._check_alone).startswith("another torch backend has already registered the device 'other', and torch has room")


@pytest.mark.parametrize(("value", "wanted"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_transfer_is_asked_for_by_a_one(monkeypatch, value, wanted):
    monkeypatch.delenv("TORCH_TRANSFER_TO_NPU", raising=False)
    if value is not None:
        monkeypatch.setenv("TORCH_TRANSFER_TO_NPU", value)
    assert _startup._transfer_is_wanted() is wanted
    monkeypatch.setenv("TORCH_TRANSFER_TO_NPU", "yes")
    with pytest.raises(ValueError, match="TORCH_TRANSFER_TO_NPU must be 0 or 1, but is: yes"):
        _startup._transfer_is_wanted()


@pytest.fixture
def steps(monkeypatch):
    """The names of what start() does, in order."""
    done = []
    for name in ("_check_torch", "_check_alone", "_load_extension"):
        monkeypatch.setattr(_startup, name, lambda *given, name=name: done.append((name, *given)))
    for module, name in ((_environment, "warn_of_unknown"), (_startup._dump_settings, "check"), (_register, "register"), (_debug, "start"),
                         (_unavailable, "register")):
        whole = f"{module.__name__.partition('.')[2]}.{name}"
        monkeypatch.setattr(module, name, lambda *given, whole=whole: done.append((whole, *given)))
    monkeypatch.setattr(_startup, "_transfer_is_wanted", lambda: False)
    monkeypatch.setitem(sys.modules, "torch_npu.contrib.transfer_to_npu", None)
    monkeypatch.delattr("torch_npu.contrib.transfer_to_npu", raising=False)
    return done


def test_the_order_of_a_start(steps, monkeypatch):
    _startup.start(["/there"], "2.13.0", False)
    assert steps == [("_check_torch", "2.13.0"), ("_check_alone",), ("_environment.warn_of_unknown",), ("_dump_settings.check",),
                     ("_load_extension", ["/there"], "2.13.0"), ("_register.register",), ("_debug.start", "/there")]
    steps.clear()
    monkeypatch.setattr(_startup, "_transfer_is_wanted", lambda: True)
    with pytest.raises(ImportError):  # it is looked for
        _startup.start(["/there"], "2.13.0", False)
    assert len(steps) == 7


def test_what_goes_wrong_does_not_stop_torch(steps, monkeypatch):
    def fail(version):
        raise ValueError("the reason")

    monkeypatch.setattr(_startup, "_check_torch", fail)
    _startup.start(["/there"], "2.13.0", True)
    assert steps == [("_unavailable.register", "the reason")]
    with pytest.raises(ValueError, match="the reason"):
        _startup.start(["/there"], "2.13.0", False)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder that looks like the package; nothing else is on the path."""
    folder = tmp_path / "site/torch_npu"
    folder.mkdir(parents=True)
    (folder / "_C.cpython-311.so").touch()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [])
    return folder


REINSTALL = "The files in {} do not belong together: another release, or another package named torch_npu (the official one), is mixed"


def test_the_extension_of_the_package_is_taken(package, monkeypatch):
    path = [str(package), "other"]
    _startup._load_extension(path, OURS)
    assert path == [str(package), "other"]
    assert refused(_startup._load_extension, path, "2.13.1").startswith(REINSTALL.format(package))
    (package / "_op_plugin_docs.py").touch()
    assert refused(_startup._load_extension, path, OURS).startswith(REINSTALL.format(package))


def test_a_source_folder_leads_to_the_installed_package(package, tmp_path, monkeypatch):
    source = tmp_path / "source/torch_npu"
    source.mkdir(parents=True)
    path = [str(source)]
    assert refused(_startup._load_extension, path, OURS) == (
        f"{source} is the source folder of torch_npu and no built package was found; cure: bash ci/build.sh && pip install "
        "dist/torch_npu-*.whl")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "none"), str(tmp_path / "source"), str(package.parent)])
    _startup._load_extension(path, OURS)
    assert path == [str(package)]
    monkeypatch.chdir(package.parent)
    monkeypatch.setattr(sys, "path", [""])
    assert _startup._built_elsewhere(str(source)) == str(package)


def test_extensions_are_files_of_one_name(tmp_path):
    for name, built in (("_C.py", False), ("x_C.so", False), ("_Cx.so", False), ("_C.cpython-311.so", True)):
        (tmp_path / name).touch()
        assert _startup._is_built(str(tmp_path)) is built, name


def test_two_packages_in_one_place(package):
    assert _startup._is_mixed(str(package)) is False
    for name, mixed in (("torch_npu-1.dist-info", False), ("torch_npu-2.egg-info", False), ("torch-2.dist-info", False),
                        ("torch_npu-2.dist-info", True)):
        (package.parent / name).mkdir()
        assert _startup._is_mixed(str(package)) is mixed


def test_another_library_on_the_search_path(package, tmp_path, monkeypatch):
    (package / "lib").mkdir()
    (package / "lib/libtorch_npu.so").write_text("ours")
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}:{package / 'lib'}")
    assert _startup._other_library(str(package)) is None
    (other / "libtorch_npu.so").write_text("theirs")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{package / 'lib'}:{other}")
    assert _startup._other_library(str(package)) == (
        f"LD_LIBRARY_PATH leads to another package's {other}/libtorch_npu.so; remove {other} from LD_LIBRARY_PATH")


@pytest.mark.parametrize("text", ["GLIBCXX_3.4.32", "CXXABI_1.3.15", "GLIBC_2.38", None])
def test_why_an_extension_does_not_load(package, tmp_path, monkeypatch, text):
    error = f"libstdc++.so.6: version `{text}' not found" if text else "undefined symbol: _Z3foo"

    def absent(name):
        raise ImportError(error)

    monkeypatch.delattr(torch_npu, "_C")
    monkeypatch.setattr(torch_npu, "__getattr__", absent)
    first, reason = refused(_startup._load_extension, [str(package)], OURS).split("\n")
    assert first == error and reason.startswith("The C++ library of this system is older" if text else REINSTALL.format(package))
    other = tmp_path / "other"
    other.mkdir()
    (other / "libtorch_npu.so").touch()
    (package / "lib").mkdir()
    (package / "lib/libtorch_npu.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other))
    reason = refused(_startup._load_extension, [str(package)], OURS).split("\n")[1]
    assert reason.startswith("The C++ library" if text else "LD_LIBRARY_PATH leads to another package's")


# ---- Variables ----


@pytest.fixture
def environment(monkeypatch):
    def only(**variables):
        monkeypatch.setattr(os, "environ", dict(variables))

    return only


def test_variables_that_nothing_reads(environment):
    environment(TORCH_NPU_RUNTIM="x", SOFTNPU_QQQQQQQQQQQQ="", SOFTNPU_MEMORY="1", SOFTNPU_PREFIX="/", SOFTNPU_MUTANT="3", NPU_X="")
    assert _environment.unknown() == [("SOFTNPU_QQQQQQQQQQQQ", None), ("TORCH_NPU_RUNTIM", "TORCH_NPU_RUNTIME")]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _environment.warn_of_unknown()
    assert [str(entry.message) for entry in caught] == [
        "Nothing reads the environment variable SOFTNPU_QQQQQQQQQQQQ: unset it; docs/environment.md lists what there is.",
        "Nothing reads the environment variable TORCH_NPU_RUNTIM: did you mean TORCH_NPU_RUNTIME? docs/environment.md lists what there is."]


@pytest.mark.parametrize("name", _environment._NUMBERS)
def test_switches_take_numbers(environment, name):
    for text, number in (("", True), ("0", True), (" +12 ", True), ("-1", True), ("yes", False), ("1x", False), ("1.5", False)):
        environment(**{name: text})
        assert _environment.not_numbers() == ([] if number else [name])
    with pytest.warns(UserWarning, match=f"The environment variable {name} takes a number; '1.5' has no effect."):
        _environment.warn_of_unknown()


@pytest.mark.parametrize(("text", "on"), [(None, False), ("", False), ("0", False), ("00", False), ("1", True), ("01", True), ("10", True),
                                          (" -3 ", True), ("+2", True), ("yes", False), ("1x", False)])
def test_flags_are_numbers_but_zero(environment, text, on):
    environment(**({} if text is None else {"X": text}))
    assert _debug._is_on("X") is on


def test_what_debugging_asks_for(environment, monkeypatch, tmp_path):
    from torch_npu import _inspection
    from torch_npu.npu import _dump, _sanitizer

    done = []
    monkeypatch.setattr(_debug, "_C", SimpleNamespace(set_library_folders=done.append, inspect_stacks_with=done.append,
                                                      keep_origins=lambda keep: done.append(("origins", keep))))
    monkeypatch.setattr(_sanitizer, "enable_npu_sanitizer", lambda: done.append("sanitizer"))
    monkeypatch.setattr(_dump, "init_dump", lambda: done.append("dump"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folders = [os.path.dirname(torch.__file__) + "/", f"{tmp_path}/real/", f"{tmp_path}/link/"]
    for variables, more in (({}, []), ({"TORCH_NPU_ERROR_ORIGIN": "1"}, [("origins", True)]), ({"TORCH_NPU_SANITIZER": "1"}, ["sanitizer"]),
                            ({"ACL_DUMP_DATA": "1"}, ["dump"])):
        environment(**variables)
        done.clear()
        _debug.start(f"{tmp_path}/link")
        assert done == [folders, _inspection.stacks, *more]


# ---- Imports that are waited for ----


def test_functions_run_right_after_an_import(tmp_path, monkeypatch):
    (tmp_path / "waited_for.py").write_text("value = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []
    for number in (1, 2):
        _after_import.after_import("waited_for", lambda module, number=number: seen.append((number, module.value)))
    assert seen == []
    import waited_for

    assert seen == [(1, 1), (2, 1)] and "waited_for" not in _after_import._waiting
    waited_for.value = 5
    _after_import.after_import("waited_for", lambda module: seen.append(module.value))
    assert seen[2:] == [5]
    _after_import.after_import("there_is_no_such_module", seen.append)
    with pytest.raises(ModuleNotFoundError):
        import there_is_no_such_module  # noqa: F401
    assert len(seen) == 3


def test_modules_that_are_looked_for_last():
    finder = _fallback_modules._Finder()
    assert finder.find_spec("acl").submodule_search_locations is not None
    assert finder.find_spec("torchair.configs").name == "torchair.configs" and finder.find_spec("acl.rt").loader is finder
    assert finder.find_spec("json") is None and finder.find_spec("acl.there_is_none") is None
    import torch_npu.dynamo.torchair.configs as configs

    assert finder.create_module(finder.find_spec("torchair.configs")) is configs


# ---- Refusals ----


def test_functions_that_refuse():
    function = _refusal.refuse("torch_npu.a.f", "it is not there", "x, y=3, *, z")
    assert (function.__name__, function.__qualname__, function.__doc__) == ("f", "f", "Refused: it is not there.")
    assert str(inspect.signature(function)) == "(x, y=3, *, z)"
    assert function.__refusal__ == "torch_npu.a.f is not supported: it is not there"
    with pytest.raises(NotImplementedError, match=r"^torch_npu\.a\.f is not supported: it is not there$"):
        function(1, z=2)
    with pytest.raises(NotImplementedError):
        _refusal.refuse("f", "r")(1, 2, a=3)


def test_classes_that_refuse():
    made = _refusal.refuse_class("torch_npu.a.C", "it is not there")
    assert (made.__name__, made.__doc__) == ("C", "Refused: it is not there.") and not isinstance(3, made)
    assert made.__refusal__ == "torch_npu.a.C is not supported: it is not there"
    with pytest.raises(NotImplementedError, match="torch_npu.a.C is not supported: it is not there"):
        made(1, a=2)


def test_names_of_modules_that_refuse():
    some, every = _refusal.refusing_getattr("m", {"a": "why"}), _refusal.refusing_getattr("m", {"a": "why"}, "all alike")
    for get, name, words in ((some, "a", "m.a is not supported: why"), (some, "b", "module 'm' has no attribute 'b'"),
                             (every, "a", "m.a is not supported: why"), (every, "b", "m.b is not supported: all alike"),
                             (every, "__b__", "module 'm' has no attribute '__b__'")):
        with pytest.raises(AttributeError) as error:
            get(name)
        assert str(error.value) == words


def test_modules_under_another_name(monkeypatch):
    one, two = types.ModuleType("one"), types.ModuleType("two")
    monkeypatch.setitem(sys.modules, "pack_of_none.kept", two)
    _refusal.alias_modules("pack_of_none", {"new": one, "kept": one})
    assert sys.modules.pop("pack_of_none.new") is one and sys.modules["pack_of_none.kept"] is two


# ---- torch.npu of a process in which the package could not be loaded ----


def test_nothing_is_available_and_every_use_says_why():
    npu = _unavailable._Npu("the reason")
    assert (npu.__name__, npu.is_available(), npu.is_initialized(), npu.device_count(), npu._is_in_bad_fork(), npu.manual_seed_all(1)) == (
        "torch.npu", False, False, 0, False, None)

    def change():
        npu.matmul.allow_hf32 = True

    def enter():
        with npu.stream:
            pass

    for use in (npu._lazy_init, lambda: npu.set_device(0), lambda: npu.amp.autocast, change, enter):
        with pytest.raises(RuntimeError, match="^the reason$"):
            use()
    for name in ("__path__", "_x"):
        with pytest.raises(AttributeError, match=name):
            getattr(npu, name)
    assert not hasattr(npu.x, "__len__")


@pytest.mark.parametrize("taken", [False, True])
def test_the_reason_is_a_warning(monkeypatch, taken):
    done = []

    def rename(name):
        done.append(name)
        if taken:
            raise RuntimeError

    monkeypatch.setattr(torch.utils, "rename_privateuse1_backend", rename)
    monkeypatch.setattr(torch, "_register_device_module", lambda name, module: done.append((name, module._reason)))
    monkeypatch.setattr(torch.utils, "generate_methods_for_privateuse1_backend", lambda **options: done.append(options))
    with pytest.warns(RuntimeWarning, match="^torch_npu could not be loaded: why$"):
        _unavailable.register("why")
    assert done == ["npu"] + [("npu", "torch_npu could not be loaded: why"), {"for_storage": True}] * (not taken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _unavailable.register("why")


# ---- What is put in torch's places ----


def test_cuda_without_cuda_points_here():
    def upstream():
        """Upstream's."""
        raise AssertionError("Torch not compiled with CUDA enabled")

    wrapped = _register._point_to_npu(upstream)
    assert wrapped.__doc__ == "Upstream's."
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled. `import torch_npu.contrib.transfer_to_npu` runs"):
        wrapped()
    done = []
    _register._point_to_npu(lambda: done.append(1))()
    assert done == [1]


def test_the_version_of_cann(monkeypatch):
    monkeypatch.setattr(_register, "_C", SimpleNamespace(is_available=lambda: True, cann_version=lambda: "9.1"))
    assert _register._version_attribute("cann") == "9.1"
    monkeypatch.setattr(_register, "_C", SimpleNamespace(is_available=lambda: False, cann_version=lambda: "9.1"))
    assert _register._version_attribute("cann") is None
    with pytest.raises(AttributeError, match="module 'torch.version' has no attribute 'nothing'"):
        _register._version_attribute("nothing")


def test_attention_of_other_devices_is_checked_as_ever():
    checked = []
    module = SimpleNamespace(_validate_device=lambda *given: checked.append(given))
    _register._allow_flex_attention(module)
    npu, cpu = (SimpleNamespace(device=torch.device(name)) for name in ("npu", "cpu"))
    module._validate_device(npu, 1, 2)
    assert checked == []
    module._validate_device(cpu, 1, 2)
    assert checked == [(cpu, 1, 2)]


def test_a_module_on_one_card_is_called_as_it_is(monkeypatch):
    net = torch.nn.Linear(2, 2)
    made = torch.nn.DataParallel(net.npu(), device_ids=[0])
    assert made.device_ids == [] and made(torch.ones(1, 2).npu()).shape == (1, 2)
    with pytest.raises(RuntimeError, match="torch.nn.DataParallel is not supported on several npu cards: use torch.nn.parallel.Distri"):
        torch.nn.DataParallel(net.npu(), device_ids=[0, 1])
    monkeypatch.setattr(_register, "_upstream_data_parallel", lambda self: None)
    for ids, device in (([], "npu"), ([0, 1], "cuda")):
        other = SimpleNamespace(device_ids=list(ids), src_device_obj=SimpleNamespace(type=device))
        _register._data_parallel(other)
        assert other.device_ids == ids


def test_streams_of_those_who_take_memory(monkeypatch):
    x = torch.ones(3, device="npu")
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 0) and torch.ones(1).__dlpack_device__()[0].name == "kDLCPU"
    waits = []
    monkeypatch.setattr(torch_npu.npu, "ExternalStream", lambda address, device: SimpleNamespace(
        wait_stream=lambda stream: waits.append((address, device, stream))))
    for stream in (0, -2):
        with pytest.raises(BufferError, match=f"stream must be the address of an aclrtStream, or -1, but got {stream}"):
            x.__dlpack__(stream=stream)
    monkeypatch.setattr(_register, "_upstream_dlpack", lambda self, **options: options)
    assert x.__dlpack__() == {"stream": -1} and x.__dlpack__(stream=None, copy=True) == {"stream": None, "copy": True} and waits == []
    assert x.__dlpack__(stream=5) == {"stream": 5} and waits == [(5, x.device, torch.npu.current_stream())]
    assert torch.ones(1).__dlpack__(stream=5) == {"stream": 5} and len(waits) == 1


def test_optimizers_that_count_on_the_host_are_not_captured(monkeypatch):
    class Adam:
        def __init__(self, *groups):
            self.param_groups = list(groups)

    monkeypatch.setattr(_captured_steps, "_C", SimpleNamespace(is_current_stream_capturing=lambda: True))
    for groups in (({"capturable": True},), ({"capturable": False, "fused": True},), ({},), ()):
        assert _captured_steps._check(Adam(*groups), (), {}) is None
    with pytest.raises(RuntimeError, match="Attempting NPU graph capture of step.. for an instance of Adam but param_groups'"):
        _captured_steps._check(Adam({"capturable": True}, {"capturable": False}), (), {})
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert _captured_steps._check(Adam({"capturable": False}), (), {}) is None
    monkeypatch.undo()
    assert _captured_steps._check(Adam({"capturable": False}), (), {}) is None


def test_the_scale_is_float32_while_gradients_are_unscaled():
    class Scaler:
        _scale = None

        def unscale_(self, optimizer):
            """Upstream's."""
            self.seen = None if self._scale is None else self._scale.double().dtype
            if optimizer == "fails":
                raise KeyError
            return optimizer

    _grad_scaler.register(Scaler)
    scaler = Scaler()
    assert scaler.unscale_(3) == 3 and scaler.seen is None and Scaler.unscale_.__doc__ == "Upstream's."
    scaler._scale = torch.ones(1)
    assert scaler.unscale_(3) == 3 and scaler.seen == torch.float64
    scale = scaler._scale = torch.ones(1, device="npu")
    scaler.unscale_(3)
    assert scaler.seen == torch.float32 and scaler._scale is scale
    with pytest.raises(KeyError):
        scaler.unscale_("fails")
    assert scaler._scale is scale


def test_finding_what_is_not_here_is_a_sentence():
    for name in ("nothing_like_this", "onnx"):
        with pytest.raises(AttributeError, match=f"torch_npu.{name} is not supported|has no attribute '{name}'"):
            getattr(torch_npu, name)
    assert torch_npu.unsupported_dtype == [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]
    assert torch_npu.is_softnpu() is _C.is_softnpu() and torch_npu.is_softnpu() in (True, False)


def test_what_registration_leaves_in_torchs_places():
    from multiprocessing.reduction import ForkingPickler

    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    from torch_npu.multiprocessing import reductions

    picklers = ForkingPickler._extra_reducers
    assert picklers[torch.Tensor] is reductions.reduce_tensor is picklers[torch.nn.Parameter]
    assert torch.multiprocessing.reductions.reduce_tensor is reductions.reduce_tensor
    assert picklers[torch_npu.npu.Event] is reductions.reduce_event
    assert torch.version.__getattr__ is _register._version_attribute and torch.Tensor.__dlpack__ is _register._dlpack
    assert torch.Tensor.__dlpack_device__ is _register._dlpack_device and torch.nn.DataParallel.__init__ is _register._data_parallel
    for scaler in (torch.amp.GradScaler, ShardedGradScaler):
        assert scaler.unscale_.__code__.co_filename == _grad_scaler.__file__
    assert _C._storage_Use_Count is torch._C._storage_Use_Count and _C._NPUTaskGroupHandle is int
    assert torch.get_device_module("npu") is torch_npu.npu is torch.npu
    for name in ("amp", "memory", "streams", "random"):
        assert sys.modules[f"torch.npu.{name}"] is sys.modules[f"torch_npu.npu.{name}"]
    assert torch.cuda._lazy_init.__wrapped__ or torch._C._has_cuda
    assert torch.ones(1).untyped_storage().is_npu is False and any(type(finder) is _fallback_modules._Finder for finder in sys.meta_path)
    from torch.nn.attention import flex_attention

    assert flex_attention._validate_device.__wrapped__.__module__ == flex_attention.__name__
    from torch._dynamo.device_interface import get_interface_for_device
    from torch._functorch._aot_autograd import utils

    assert get_interface_for_device("npu").__module__ == "torch_npu.dynamo.interface"
    assert "npu" in utils._graphsafe_rng_device_types if hasattr(utils, "_graphsafe_rng_device_types") else True


def test_a_process_ends_with_the_cards_closed_behind_what_is_shared(monkeypatch):
    """Functions of atexit run in the reverse order: what is shared with other processes goes first."""
    import atexit

    from torch_npu.multiprocessing import reductions

    order = []
    monkeypatch.setattr(atexit, "register", order.append)
    for name in ("rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"):
        monkeypatch.setattr(torch.utils, name, lambda *given, **options: None)
    monkeypatch.setattr(torch, "_register_device_module", lambda *given: None)
    for module in ("_captured_steps", "_fallback_modules", "_grad_scaler", "_printing", "custom_ops", "distributed.backend"):
        monkeypatch.setattr(f"torch_npu.{module}.register", lambda *given: None)
    monkeypatch.setattr(_register, "after_import", lambda *given: order.append(given[0]))
    monkeypatch.setattr(_register, "_point_to_npu", lambda upstream: upstream)
    _register.register()
    assert order[-2:] == [_C.finalize, reductions.end]


def test_registrations_go_where_they_belong(monkeypatch):
    from torch_npu.dynamo import inductor, rules
    from torch_npu.dynamo.interface import NpuInterface

    told = []
    monkeypatch.setattr(rules, "register", lambda: told.append("rules"))
    monkeypatch.setattr(inductor, "register", lambda module: told.append(("inductor", module)))
    monkeypatch.setattr(inductor, "wrap_entry", lambda module: told.append(("entry", module)))
    _register._register_interface(SimpleNamespace(register_interface_for_device=lambda *given: told.append(given)))
    _register._register_rules(None)
    _register._register_recomputation(SimpleNamespace(register_graphsafe_rng_device_type=told.append))
    _register._register_inductor("common")
    _register._wrap_inductor("compile_fx")
    assert told == [("npu", NpuInterface), "rules", "npu", ("inductor", "common"), ("entry", "compile_fx")]
