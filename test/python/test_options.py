"""torch_npu/npu/npu_config.py: settings are checked, kept, read back, and reach the operators and CANN's compiler."""

import inspect
import shutil
import subprocess
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import torch_npu
from torch_npu.npu import npu_config

# Of the official plugin 2.13.0.
SIGNATURES = {
    "set_compile_mode": "(jit_compile=False)",
    "set_option": "(option)",
    "is_jit_compile_false": "() -> bool",
    "set_mm_bmm_format_nd": "(is_nd=True)",
    "get_mm_bmm_format_nd": "()",
}
FORMATS = {
    "UNDEFINED": -1, "NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "NC1HWC0_C04": 12, "HWCN": 16, "NDHWC": 27,
    "FRACTAL_NZ": 29, "NCDHW": 30, "NDC1HWC0": 32, "FRACTAL_Z_3D": 33, "NC": 35, "NCL": 47, "FRACTAL_NZ_C0_16": 50,
    "FRACTAL_NZ_C0_32": 51, "FRACTAL_NZ_C0_2": 52, "FRACTAL_NZ_C0_4": 53, "FRACTAL_NZ_C0_8": 54,
}  # fmt: skip
CUBE_MATH_TYPES = {
    "KEEP_DTYPE": 0, "ALLOW_FP32_DOWN_PRECISION": 1, "USE_FP16": 2, "USE_HF32": 3, "FORCE_GRP_ACC_FOR_FP32": 4, "USE_FP32_ADD": 4,
}  # fmt: skip
# What the official plugin hands to aclSetCompileopt, seen with ACL_OP_INIT_MODE=0.
COMPILE_OPTIONS = {
    "ACL_PRECISION_MODE": (0, "allow_fp32_to_fp16"),
    "ACL_AICORE_NUM": (1, "8"),
    "ACL_OP_SELECT_IMPL_MODE": (3, "high_precision"),
    "ACL_OPTYPELIST_FOR_IMPLMODE": (4, "Add"),
    "ACL_OP_DEBUG_LEVEL": (5, "1"),
    "ACL_DEBUG_DIR": (6, "/tmp/x"),
    "ACL_OP_COMPILER_CACHE_MODE": (7, "force"),
    "ACL_OP_COMPILER_CACHE_DIR": (8, "/tmp/y"),
    "ACL_OP_DEBUG_OPTION": (16, "oom"),
}
# Reads from the runtime itself, past torch_npu.
RUNTIME = """
import ctypes, os
def option(number):
    compiler = ctypes.CDLL(os.path.join(torch_npu._C.runtime_path(), "libacl_op_compiler.so"))
    value = ctypes.create_string_buffer(256)
    compiler.aclGetCompileopt(number, value, 256)
    return value.value.decode()
"""


@pytest.fixture(autouse=True)
def restore():
    saved = dict(npu_config._state)
    yield
    npu_config._set_precision(**saved)


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature_is_the_official_one(name):
    ours = str(inspect.signature(getattr(torch.npu, name)))
    assert ours.partition(" -> ")[0] == SIGNATURES[name].partition(" -> ")[0]
    assert getattr(torch.npu, name) is getattr(npu_config, name)


def test_enumerations_have_the_official_members():
    assert {name: int(value) for name, value in torch_npu.Format.__members__.items()} == FORMATS
    assert {name: int(value) for name, value in torch.npu.CubeMathType.__members__.items()} == CUBE_MATH_TYPES


def test_format_names_are_taken_by_the_format_cast():
    x = torch.randn(16, 16, device="npu")
    assert torch.equal(torch_npu.npu_format_cast(x, torch_npu.Format.ND), x)
    assert torch_npu.get_npu_format(x) in (torch_npu.Format.ND, torch_npu.Format.NCHW)


def test_defaults_are_the_official_ones(check):
    code = """
print(torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32, torch.npu.matmul.cube_math_type, torch.npu.config.allow_internal_format,
      torch.npu.get_mm_bmm_format_nd(), torch.npu.is_initialized(), torch.npu.is_jit_compile_false())
"""
    assert check(code) == "False True None False True False True"


@pytest.mark.parametrize("name", COMPILE_OPTIONS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_option_reaches_the_compiler(check, name, when):
    number, value = COMPILE_OPTIONS[name]
    code = f"""
if {when!r} == "after": torch.npu.init()
torch.npu.set_option({{{name!r}: {value!r}}})
assert torch.npu.is_initialized() == ({when!r} == "after")
x = torch.ones(2).npu()
print(option({number}), torch_npu._C.compile_option({number}))
"""
    assert check(RUNTIME + code) == f"{value} {value}"


def test_compile_mode_reaches_the_compiler(check):
    code = """
torch.npu.set_compile_mode(jit_compile=True)
assert not torch.npu.is_initialized() and not torch.npu.is_jit_compile_false()
print(torch.npu.is_initialized(), option(10), end=" ")
torch.npu.set_compile_mode(jit_compile=False)
print(option(10), torch.npu.is_jit_compile_false())
"""
    assert check(RUNTIME + code) == "True enable disable True"


def test_hf32_reaches_the_compiler(check):
    code = """
torch.npu.conv.allow_hf32 = False
torch.npu.matmul.allow_hf32 = True
torch.npu.init()
print(option(14), end=" ")
torch.npu.conv.allow_hf32 = True
print(option(14), end=" ")
torch.npu.set_option({"ALLOW_MATMUL_HF32": "disable"})
print(option(14))
"""
    assert check(RUNTIME + code) == "01 11 10"


# As the official plugin calls them: convolutions follow torch.npu.conv, products torch.npu.matmul, pooling neither.
@pytest.mark.parametrize("settings, convolution, product", [
    ("", 3, 0),
    ("torch.npu.conv.allow_hf32, torch.npu.matmul.allow_hf32 = False, True", 0, 3),
    ("torch.npu.set_option({'ALLOW_CONV_HF32': 'enable', 'ALLOW_MATMUL_HF32': 'enable'})", 3, 3),
    ("torch.npu.matmul.cube_math_type = torch.npu.CubeMathType.USE_FP16; torch.npu.matmul.allow_hf32 = True", 3, 2),
    ("torch.npu.matmul.cube_math_type = torch.npu.CubeMathType.USE_FP32_ADD", 3, 4),
])  # fmt: skip
def test_operators_are_called_with_the_precision_that_is_set(check, interposer, settings, convolution, product):
    code = f"""
{settings}
x, w = torch.randn(1, 2, 6, 6).npu().requires_grad_(), torch.randn(3, 2, 3, 3).npu().requires_grad_()
torch.nn.functional.conv2d(x, w).sum().backward()
torch.mm(torch.randn(4, 4).npu(), torch.randn(4, 4).npu())
torch.nn.functional.avg_pool2d(x, 2)
torch.npu.synchronize()
"""
    expected = f"Convolution={convolution} ConvolutionBackward={convolution} Mm={product} AvgPool2d=0"
    assert check(code, LD_PRELOAD=interposer) == expected


@pytest.fixture(scope="module")
def interposer(tmp_path_factory):
    """A library that prints what arrives at the operator library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = tmp_path_factory.mktemp("interposer") / "math_types.so"
    source = Path(__file__).with_name("math_types.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("settings, error, words", [
    ([1], TypeError, "option must be a dict"),
    ({"NOPE": "1"}, ValueError, "ACL_PRECISION_MODE"),
    ({"ACL_PRECISION_MODE": "x"}, ValueError, "allow_fp32_to_fp16, must_keep_origin_dtype, but got 'x'"),
    ({"ACL_AICORE_NUM": 33}, ValueError, "must be one of 1, 2, 3"),
    ({"ACL_OP_DEBUG_LEVEL": 5}, ValueError, "0, 1, 2, 3, 4, but got '5'"),
    ({"jitCompile": "yes"}, ValueError, "disable, enable"),
    ({"CUBE_MATH_TYPE": "7"}, ValueError, "0, 1, 2, 3, 4"),
    ({"MM_BMM_ND_ENABLE": True}, ValueError, "disable, enable, but got 'True'"),
])  # fmt: skip
def test_a_wrong_option_names_the_accepted_ones(settings, error, words):
    with pytest.raises(error, match=words):
        torch.npu.set_option(settings)


def test_a_refused_option_leaves_the_others_unset():
    with pytest.raises(ValueError):
        torch.npu.set_option({"ALLOW_MATMUL_HF32": "enable", "NOPE": 1})
    assert torch.npu.matmul.allow_hf32 is False


@pytest.mark.parametrize("target, name", [(torch.npu.matmul, "allow_hf32"), (torch.npu.conv, "allow_hf32"),
                                          (torch.npu.config, "allow_internal_format")])  # fmt: skip
def test_a_switch_takes_true_and_false_only(target, name):
    for value in (0, 1, "True", None):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            setattr(target, name, value)


def test_a_cube_math_type_is_one_of_the_enumeration():
    with pytest.raises(TypeError, match="KEEP_DTYPE, ALLOW_FP32_DOWN_PRECISION, USE_FP16, USE_HF32"):
        torch.npu.matmul.cube_math_type = 3
    torch.npu.set_option({"CUBE_MATH_TYPE": 3})
    assert torch.npu.matmul.cube_math_type is torch.npu.CubeMathType.USE_HF32
    with pytest.raises(TypeError, match="jit_compile must be True or False"):
        torch.npu.set_compile_mode(jit_compile="off")


@pytest.mark.parametrize("target, known", [("matmul", "allow_hf32"), ("conv", "allow_hf32"), ("config", "allow_internal_format")])
def test_an_unknown_setting_names_those_there_are(target, known):
    for use in (lambda settings: settings.nothing, lambda settings: setattr(settings, "nothing", True)):
        with pytest.raises(AttributeError, match=f"torch.npu.{target} has no setting 'nothing'; it has: .*{known}"):
            use(getattr(torch.npu, target))


def test_a_setting_of_cuda_is_not_taken_without_a_word():
    with pytest.warns(UserWarning, match="allow_tf32 is CUDA's setting and changes nothing"):
        torch.npu.matmul.allow_tf32 = True
    assert torch.npu.matmul.allow_tf32 is False


def test_what_changes_nothing_says_so():
    with pytest.warns(UserWarning, match="passes every matrix as ND"):
        torch.npu.set_mm_bmm_format_nd(False)
    assert torch.npu.get_mm_bmm_format_nd() is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.npu.set_mm_bmm_format_nd(True)


def test_settings_are_seen_by_every_thread():
    def work():
        seen.append(torch.npu.matmul.allow_hf32)
        torch.npu.set_option({"ALLOW_MATMUL_HF32": "disable", "ACL_OP_DEBUG_LEVEL": "0"})
        torch.npu.set_compile_mode(jit_compile=False)

    seen = []
    torch.npu.matmul.allow_hf32 = True
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True] and torch.npu.matmul.allow_hf32 is False and torch.npu.is_jit_compile_false()


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_results_do_not_depend_on_the_precision_on_softnpu(check, queue):
    code = """
if not torch_npu.is_softnpu(): print(True); raise SystemExit
import threading
a, x, w = torch.randn(8, 8), torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
def results():
    return torch.mm(a.npu(), a.npu()).cpu(), torch.nn.functional.conv2d(x.npu(), w.npu()).cpu()
first = results()
torch.npu.matmul.allow_hf32, torch.npu.conv.allow_hf32 = True, False
with torch.autocast("npu"), torch.no_grad():
    torch.mm(a.npu(), a.npu())
print(all(torch.equal(*pair) for pair in zip(first, results())))
"""
    assert check(code, TASK_QUEUE_ENABLE=queue) == "True"


def test_a_forked_child_is_refused_in_one_sentence(check):
    code = """
import os
torch.npu.init()
torch.npu.set_compile_mode(jit_compile=False)
if os.fork() == 0:
    try:
        torch.npu.conv.allow_hf32 = False
    except RuntimeError as error:
        print("Cannot re-initialize NPU in forked subprocess" in str(error), torch.npu.conv.allow_hf32, flush=True)
    os._exit(0)
os.wait()
"""
    assert check(code) == "True True"


def test_a_compiled_function_follows_the_setting():
    torch._dynamo.reset()
    function = torch.compile(lambda x, w: F.conv2d(x, w), backend="eager")
    x, w = torch.randn(1, 2, 6, 6, device="npu"), torch.randn(3, 2, 3, 3, device="npu")
    torch.npu.conv.allow_hf32 = False
    assert torch.equal(function(x, w), F.conv2d(x, w))


# ---- What is handed over, in this process ----


@pytest.fixture
def handed(monkeypatch):
    """Calls of the extension, in order."""
    calls = []
    made = SimpleNamespace(init=lambda: calls.append("init"), is_initialized=lambda: False,
                           compile_option=lambda number: f"option {number}")
    for name in ("set_compile_option", "set_product_math_type", "set_convolution_math_type"):
        setattr(made, name, lambda *given, name=name: calls.append((name, *given)))
    monkeypatch.setattr(npu_config, "_C", made)
    monkeypatch.setattr(npu_config, "_state", dict(npu_config._state, conv_hf32=True, matmul_hf32=False, cube_math_type=None))
    return calls


@pytest.mark.parametrize(("change", "flags", "product", "convolution"), [
    ({}, "10", 0, 3), ({"matmul_hf32": True}, "11", 3, 3), ({"conv_hf32": False}, "00", 0, 0),
    ({"conv_hf32": False, "matmul_hf32": True}, "01", 3, 0), ({"cube_math_type": torch.npu.CubeMathType.USE_FP16}, "10", 2, 3),
    ({"cube_math_type": torch.npu.CubeMathType.KEEP_DTYPE, "matmul_hf32": True}, "11", 0, 3),
])
def test_precision_is_told_to_the_compiler_and_the_operators(handed, change, flags, product, convolution):
    npu_config._set_precision(**change)
    assert handed == [("set_compile_option", 14, flags), ("set_product_math_type", product), ("set_convolution_math_type", convolution)]
    assert {name: npu_config._state[name] for name in change} == change


def test_what_the_compiler_refuses_changes_nothing(handed, monkeypatch):
    def refuse(*given):
        raise RuntimeError

    for name in ("set_compile_option", "set_product_math_type", "set_convolution_math_type"):
        monkeypatch.setattr(npu_config._C, name, refuse)
        with pytest.raises(RuntimeError):
            npu_config._set_precision(matmul_hf32=True)
        assert npu_config._state["matmul_hf32"] is False


@pytest.mark.parametrize("name", COMPILE_OPTIONS)
def test_options_of_the_compiler_have_its_numbers(handed, name):
    number, value = COMPILE_OPTIONS[name]
    torch.npu.set_option({name: value})
    assert handed == [("set_compile_option", number, value)] and npu_config._npu_getOption(name) is None


def test_numbers_of_cores_and_levels():
    accepted = {name: values for name, (values, _) in npu_config._OPTIONS.items()}
    assert accepted["ACL_AICORE_NUM"] == tuple(str(n) for n in range(1, 33)) and accepted["CUBE_MATH_TYPE"] == ("0", "1", "2", "3", "4")
    assert [name for name, values in accepted.items() if values is None] == [
        "ACL_OPTYPELIST_FOR_IMPLMODE", "ACL_DEBUG_DIR", "ACL_OP_COMPILER_CACHE_DIR", "ACL_OP_DEBUG_OPTION"]
    with pytest.raises(TypeError, match="value of ACL_DEBUG_DIR must be a text, but got 1.5"):
        torch.npu.set_option({"ACL_DEBUG_DIR": 1.5})
    with pytest.raises(ValueError, match="unknown npu option 'x'; the options are: ACL_PRECISION_MODE, "):
        npu_config._npu_getOption("x")


def test_switches_are_set_and_read_by_name(handed):
    get = torch_npu._C._npu_getOption
    for name, target, attribute in (("ALLOW_CONV_HF32", torch.npu.conv, "allow_hf32"),
                                    ("ALLOW_MATMUL_HF32", torch.npu.matmul, "allow_hf32"),
                                    ("ALLOW_INTERNAL_FORMAT", torch.npu.config, "allow_internal_format")):
        for value in ("enable", "disable", "enable"):
            torch.npu.set_option({name: value})
            assert getattr(target, attribute) is (value == "enable") and get(name) == value.encode()
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "enable"})
    assert torch.npu.get_mm_bmm_format_nd() is True and get("MM_BMM_ND_ENABLE") == b"enable"
    with pytest.warns(UserWarning, match="passes every matrix as ND"):
        torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
    assert get("MM_BMM_ND_ENABLE") == b"disable" and get("CUBE_MATH_TYPE") is None
    torch.npu.set_option({"CUBE_MATH_TYPE": "2"})
    assert get("CUBE_MATH_TYPE") == b"2" and torch.npu.matmul.cube_math_type is torch.npu.CubeMathType.USE_FP16
    assert get("jitCompile") == b"option 10"
    torch.npu.config.allow_internal_format = False


def test_how_operators_are_compiled(handed, monkeypatch):
    waited = []
    monkeypatch.setattr("torch_npu.npu.devices.synchronize", lambda: waited.append(len(handed)))
    torch.npu.set_compile_mode()
    torch.npu.set_compile_mode(jit_compile=True)
    torch.npu.set_option({"jitCompile": "disable"})
    assert handed == [("set_compile_option", 10, "disable"), ("set_compile_option", 10, "enable"), ("set_compile_option", 10, "disable")]
    assert waited == []
    npu_config._C.is_initialized = lambda: True
    torch.npu.set_compile_mode()
    assert waited == [3]  # before it changes
    handed.clear()
    for text, prebuilt in (("disable", True), ("enable", False), (None, False)):
        npu_config._C.compile_option = lambda number, text=text: text if number == 10 else "disable"
        assert torch.npu.is_jit_compile_false() is prebuilt
    assert handed == ["init"] * 3


@pytest.mark.parametrize("name", ["allow_tf32", "allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction"])
def test_settings_of_cuda_are_false_and_say_so(name):
    assert getattr(torch.npu.matmul, name) is False
    with pytest.warns(UserWarning, match=f"torch.npu.matmul.{name} is CUDA's setting and changes nothing") as caught:
        setattr(torch.npu.matmul, name, True)
    assert getattr(torch.npu.matmul, name) is False and caught[0].filename == __file__


def test_names_that_the_official_module_has():
    from torch_npu.npu import _dump, _further, core_limits
    from torch_npu.utils._path_manager import PathManager

    assert npu_config.set_aoe is _further.set_aoe and npu_config.PathManager is PathManager and npu_config.init_dump is _dump.init_dump
    for name in ("get_device_limit", "set_device_limit", "get_stream_limit", "set_stream_limit", "reset_stream_limit"):
        assert getattr(npu_config, name) is getattr(core_limits, name)
    with pytest.raises(AttributeError, match="module 'torch_npu.npu.npu_config' has no attribute 'nothing'"):
        _ = npu_config.nothing
