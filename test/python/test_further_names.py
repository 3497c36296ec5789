"""Names that the official plugin has beside torch.cuda's: what they do, and what they refuse."""

import importlib
import os
import sys

import pytest
import torch

import torch_npu
from torch_npu.utils import FlopsCounter


def test_switches_of_attention_are_read():
    q = torch.randn(1, 2, 8, 16, device="npu")
    expected = torch.nn.functional.scaled_dot_product_attention(q.cpu(), q.cpu(), q.cpu())
    with torch.npu.sdp_kernel(enable_flash=False, enable_math=True, enable_mem_efficient=False):
        assert not torch.npu.flash_sdp_enabled() and torch.npu.math_sdp_enabled()
        torch.testing.assert_close(torch.nn.functional.scaled_dot_product_attention(q, q, q).cpu(), expected)
    assert torch.npu.flash_sdp_enabled()


def test_caches_and_libraries_that_an_npu_lacks():
    assert torch.npu.backends.fft_plan_cache.size == 0
    with pytest.raises(ValueError, match="max_size must be 0"):
        torch.npu.backends.fft_plan_cache.max_size = 3
    with pytest.raises(ValueError, match='must be None or "default"'):
        torch.npu.preferred_linalg_library("magma")
    with pytest.warns(UserWarning, match="no blas handle"):
        assert torch.npu.current_blas_handle() is None


def test_the_older_switch_of_convolutions():
    before = torch.npu.conv.allow_hf32
    torch.npu.aclnn.allow_hf32 = not before
    try:
        assert torch.npu.conv.allow_hf32 is torch.npu.aclnn.allow_hf32 is (not before)
    finally:
        torch.npu.aclnn.allow_hf32 = before


def test_synchronous_streams_need_level_0():
    before = torch.npu.get_task_queue_enable()
    try:
        torch.npu.set_task_queue_enable(0)
        with torch.npu.stream(torch.npu.SyncLaunchStream()):
            assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]
        torch.npu.set_task_queue_enable(1)
        with pytest.raises(RuntimeError, match="TASK_QUEUE_ENABLE=0"):
            torch.npu.SyncLaunchStream()
    finally:
        torch.npu.set_task_queue_enable(before)
    torch.npu.Stream().set_data_preprocess_stream(False)
    with pytest.raises(NotImplementedError, match="is not published; leave it out"):
        torch.npu.Stream().set_data_preprocess_stream(True)


def test_compatible_implementations():
    torch.npu.use_compatible_impl(True)
    assert torch.npu.are_compatible_impl_enabled()
    with pytest.warns(UserWarning, match="changes nothing"):
        torch.npu.use_compatible_impl(False)
    with pytest.raises(TypeError):
        torch.npu.use_compatible_impl(1)


def test_generators_and_weak_references():
    assert torch.npu.get_default_generator(1).device == torch.device("npu:1")
    with pytest.raises(ValueError, match="is not a card"):
        torch.npu.get_default_generator(99)
    x = torch.arange(6.0, device="npu").view(2, 3)
    weak = torch_npu._C._weak_ref_tensor(x.t())
    assert weak.data_ptr() == x.data_ptr() and weak.tolist() == x.t().tolist()
    storage = torch_npu._C._construct_storage_from_data_pointer(x.data_ptr(), x.device, 8)
    assert storage.nbytes() == 8 and storage.data_ptr() == x.data_ptr()
    assert torch_npu._C._npu_getCurrentRawStream(0) == torch.npu.current_stream(0).npu_stream


def test_a_stream_is_set_by_its_numbers():
    before, stream = torch.npu.current_stream(), torch.npu.Stream()
    torch_npu._C._npu_setStream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)
    assert torch.npu.current_stream() == stream
    torch.npu.set_stream(before)


def test_options_are_read_back(run):
    code = """
import torch, torch_npu
read = torch_npu._C._npu_getOption
print(read("ALLOW_INTERNAL_FORMAT"), read("ALLOW_CONV_HF32"), read("ALLOW_MATMUL_HF32"), read("CUBE_MATH_TYPE"), read("ACL_DEBUG_DIR"))
torch.npu.set_option({"ALLOW_INTERNAL_FORMAT": "enable", "jitCompile": "enable", "CUBE_MATH_TYPE": "3"})
print(read("ALLOW_INTERNAL_FORMAT"), read("jitCompile"), read("CUBE_MATH_TYPE"))
torch.npu.config.allow_internal_format = False
torch.npu.set_compile_mode(jit_compile=False)
print(read("ALLOW_INTERNAL_FORMAT"), read("jitCompile"))
try:
    read("ALLOW_FORMATS")
except ValueError as error:
    print("unknown npu option 'ALLOW_FORMATS'; the options are: " in str(error))
"""
    process = run(code)
    assert process.stdout == (
        "b'disable' b'enable' b'disable' None None\nb'enable' b'enable' b'3'\nb'disable' b'disable'\nTrue\n"), process.stderr


def test_patches_are_those_of_the_caller(run):
    code = """
import torch, torch_npu
before = torch.profiler.profile
torch_npu._apply_patches([])
assert torch.profiler.profile is before
torch_npu._apply_patches([["profiler.profile", torch_npu.profiler.profile]])
print(torch.profiler.profile is torch_npu.profiler.profile)
"""
    process = run(code)
    assert process.stdout == "True\n", process.stderr


def test_erased_streams_are_not_waited_for(run):
    code = """
import torch, torch_npu
side = torch.npu.Stream()
def reused(erase):
    x = torch.ones(4 << 20, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(side):
        for _ in range(100):
            x.mul_(1.0)
    x.record_stream(side)
    if erase:
        torch_npu.erase_stream(x, side)
    address = x.data_ptr()
    del x
    y = torch.empty(4 << 20, device="npu")
    same = y.data_ptr() == address
    torch.npu.synchronize()
    return same
print(reused(False), reused(True))
"""
    process = run(code, SOFTNPU_ASYNC="1")
    assert process.stdout == "False True\n", process.stderr
    with pytest.raises(ValueError, match="tensor of the npu"):
        torch_npu.erase_stream(torch.ones(1), torch.npu.current_stream())


def test_flops_are_counted():
    a, b = torch.randn(4, 5, device="npu"), torch.randn(5, 6, device="npu")
    counter = FlopsCounter()
    counter.start()
    a @ b
    counter.pause()
    a @ b
    counter.resume()
    assert counter.get_flops() == [240, 480]
    counter.stop()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        counter.get_flops()


def test_threads_are_bound_to_cores():
    before = os.sched_getaffinity(0)
    try:
        first = min(before)
        torch_npu.utils.set_thread_affinity([first, first])
        assert os.sched_getaffinity(0) == {first}
        for wrong in ([1], [3, 2], [[0]], "0", [0, 100000]):
            with pytest.raises(ValueError, match="core_range"):
                torch_npu.utils.set_thread_affinity(wrong)
    finally:
        torch_npu.utils.reset_thread_affinity()
    assert os.sched_getaffinity(0) == before


def test_scripted_gelu_becomes_fast_gelu():
    traced = torch.jit.trace(torch.nn.GELU(), torch.randn(3))
    torch_npu.jit.optimize(traced)
    assert "npu::fast_gelu" in str(traced.graph)


def test_compilers_lead_to_our_backend():
    import torchair  # noqa: F401 (found last)

    from torch_npu.dynamo import torchair as ours
    from torch_npu.dynamo.backend import npu

    assert sys.modules["torchair"] is ours and ours.get_npu_backend() is npu
    config = ours.CompilerConfig()
    config.mode = "reduce-overhead"
    assert ours.get_npu_backend(compiler_config=config) is npu
    config.debug.graph_dump.type = "pbtxt"
    with pytest.raises(NotImplementedError, match="config.debug.graph_dump.type = 'pbtxt'"):
        ours.get_npu_backend(compiler_config=config)
    from torch_npu.dynamo.backend import npugraph_ex

    compiled = torch.compile(lambda x: torch.relu(x @ x).sum(), backend=npugraph_ex)
    x = torch.randn(4, 4, device="npu")
    assert compiled(x).item() == pytest.approx(torch.relu(x.cpu() @ x.cpu()).sum().item(), rel=1e-4)
    with pytest.raises(AttributeError, match="CANN's graph engine"):
        _ = importlib.import_module("torchair.ge").Cast


def test_acl_answers_what_programs_ask_of_a_machine():
    acl = importlib.import_module("acl")
    assert acl.rt.get_device_count() == (torch.npu.device_count(), 0) and acl.get_soc_name() == torch.npu.get_device_name(0)
    with pytest.raises(AttributeError, match="install CANN's"):
        _ = acl.mdl


def test_acl_initialises_and_leaves_the_configuration_to_a_variable(run):
    acl = importlib.import_module("acl")
    assert acl.init() == acl.init(None) == acl.init("") == 0 and acl.finalize() == 0
    with pytest.raises(NotImplementedError, match="takes no configuration file: set TORCH_ACL_INIT_CONFIG_PATH"):
        acl.init("acl.json")
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]  # finalize() ends nothing
    process = run("import torch_npu, acl\nprint(torch_npu._C.is_initialized(), acl.init(), torch_npu._C.is_initialized())")
    assert process.stdout == "False 0 True\n", process.stderr


def test_acl_rt_speaks_of_the_cards_that_torch_sees():
    rt = importlib.import_module("acl.rt")
    before = torch.npu.current_device()
    try:
        assert rt.set_device(1) == 0 and torch.npu.current_device() == 1 and rt.get_device() == (1, 0)
        assert rt.set_device(0) == 0 and rt.get_device() == (0, 0)
        x = torch.ones(2, device="npu:1")
        assert rt.reset_device(1) == 0 and x.tolist() == [1, 1] and rt.get_device() == (0, 0)
    finally:
        torch.npu.set_device(before)
    for attr in (0, 1, 2):
        free, total, code = rt.get_mem_info(attr)
        assert 0 < free <= total == torch.npu.mem_get_info()[1] and code == 0
    for attr in (-1, 3):
        with pytest.raises(ValueError, match=f"attr must be 0, 1 or 2, got {attr}"):
            rt.get_mem_info(attr)
    assert rt.get_soc_name() == torch.npu.get_device_name(0)
    with pytest.raises(AttributeError, match=r"acl\.rt\.malloc is not supported: .*install CANN's, or use torch\.npu"):
        _ = rt.malloc


def test_acl_resets_a_card_when_its_work_is_done(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.npu, "synchronize", waited.append)
    assert importlib.import_module("acl.rt").reset_device(1) == 0 and waited == [1]


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_acl_copies_all_and_nothing(kind):
    memcpy = importlib.import_module("acl.rt").memcpy
    source = torch.arange(6, dtype=torch.uint8, device="npu" if kind in (2, 3) else "cpu")
    target = torch.full((6,), 9, dtype=torch.uint8, device="npu" if kind in (1, 3) else "cpu")
    torch.npu.synchronize()
    assert memcpy(0, 0, 0, 0, kind) == memcpy(target.data_ptr(), 6, source.data_ptr(), 0, kind) == 0 and target.tolist() == [9] * 6
    assert memcpy(target.data_ptr(), 6, source.data_ptr(), 1, kind) == 0 and target.tolist() == [0, 9, 9, 9, 9, 9]
    assert memcpy(target.data_ptr(), 6, source.data_ptr(), 6, kind) == 0 and target.tolist() == [0, 1, 2, 3, 4, 5]
    for named, address, count in (("src is 0: no address", 0, 6), ("count must be from 0 to dest_max, 6; got 7", source.data_ptr(), 7),
                                  ("dest_max, 6; got -1", source.data_ptr(), -1)):
        with pytest.raises(ValueError, match=named):
            memcpy(target.data_ptr(), 6, address, count, kind)
    with pytest.raises(ValueError, match="kind must be 0, 1, 2 or 3, got -1"):
        memcpy(target.data_ptr(), 6, source.data_ptr(), 6, -1)


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_acl_copies_between_addresses(kind):
    memcpy = importlib.import_module("acl.rt").memcpy
    source = torch.arange(100, dtype=torch.int32, device="npu" if kind in (2, 3) else "cpu")
    target = torch.full((100,), -1, dtype=torch.int32, device="npu" if kind in (1, 3) else "cpu")
    torch.npu.synchronize()
    assert memcpy(target.data_ptr(), 400, source.data_ptr(), 200, kind) == 0
    assert target.tolist() == [*range(50), *[-1] * 50]
    wrong = {"dst is 0": (0, 400, kind), "count": (target.data_ptr(), 100, kind), "kind": (target.data_ptr(), 400, 4)}
    for named, (address, most, to) in wrong.items():
        with pytest.raises(ValueError, match=named):
            memcpy(address, most, source.data_ptr(), 200, to)


def test_refusals_name_the_way_out():
    hook = torch_npu.utils.register_asd_hook
    for call in (torch.npu.npurt, lambda: torch.npu.set_aoe("x"), lambda: hook(1, 2), torch_npu.asd.asd.SilentFaultData):
        with pytest.raises(NotImplementedError, match="is not supported: .{20,}"):
            call()
    assert not hasattr(torch_npu, "_npu_paged_attention_quant") and not hasattr(torch_npu, "onnx")


# ---- Names of the official graph compilers ----


def test_backends_of_the_graph_compilers(monkeypatch):
    from torch_npu.dynamo import backend, capture
    from torch_npu.dynamo.npugraph_ex import npu_fx_compiler
    from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig

    wrong, changed = 3, CompilerConfig()
    changed.experimental.frozen = True
    for make in (npu_fx_compiler.get_compiler, lambda config=None: npu_fx_compiler.get_npu_backend(compiler_config=config)):
        assert callable(make()) and callable(make(CompilerConfig()))
        with pytest.raises(TypeError, match="compiler_config must be a CompilerConfig, but got int"):
            make(wrong)
        with pytest.raises(NotImplementedError, match=r"not supported: config.experimental.frozen = True; leave them at their defaults"):
            make(changed)
    assert npu_fx_compiler.get_npu_backend(custom_decompositions={}) is backend.npu
    with pytest.raises(NotImplementedError, match="custom_decompositions are not supported"):
        npu_fx_compiler.get_npu_backend(custom_decompositions={1: 2})
    with pytest.raises(NotImplementedError, match="options of CANN's graph compiler are not supported: a, b; leave them out"):
        npu_fx_compiler.compile_fx(None, options={"a": 1, "b": 2})
    monkeypatch.setattr(capture, "captured", lambda *given: given)
    monkeypatch.setattr(backend, "npu", lambda *given: given)
    assert npu_fx_compiler.get_compiler()("graph", ["x"]) == ("graph", ["x"], set())
    assert npu_fx_compiler.compile_fx("graph", ["x"]) == ("graph", ["x"]) == npu_fx_compiler.compile_fx("graph", ["x"], {})


def test_options_of_the_graph_compilers():
    from torch_npu.dynamo.npugraph_ex.configs import CompilerConfig

    config = CompilerConfig()
    assert config.a.b is config.a.b and config.changed() == {} and config.check() is None
    config.a.b.c = 5
    config.mode = "reduce-overhead"
    assert config.a.b.c == 5 and config.changed() == {"config.mode": "reduce-overhead", "config.a.b.c": 5}
    with pytest.raises(NotImplementedError, match="^options of CANN's graph compiler are not supported: config.a.b.c = 5; leave them at"):
        config.check()
    for value in (None, False, ""):
        config.a.b.c = value
        assert config.check() is None
    config.mode = "npugraph_ex"
    assert config.check() is None
    config.mode = "max-autotune"
    with pytest.raises(NotImplementedError, match="config.mode = 'max-autotune'"):
        config.check()
    with pytest.raises(AttributeError, match="__nothing__"):
        _ = config.__nothing__


def test_names_of_torchair():
    from torch_npu.dynamo import npugraph_ex, torchair
    from torch_npu.dynamo.npugraph_ex import configs, npu_fx_compiler

    assert torchair.CompilerConfig is configs.CompilerConfig and torchair.get_compiler is npu_fx_compiler.get_compiler
    assert torchair.version == torch_npu.__version__ and npugraph_ex.__name__ == "torch_npu.dynamo.npugraph_ex"
    for name in ("configs", "ge", "inference", "ops", "scope", "npu_fx_compiler", "core", "ge_concrete_graph"):
        assert torchair.__getattr__(name) is importlib.import_module(f"torch_npu.dynamo.torchair.{name}")
    with pytest.raises(AttributeError, match="^module 'torch_npu.dynamo.torchair' has no attribute 'nothing'$"):
        _ = torchair.nothing
    with pytest.raises(AttributeError, match="^torchair.ge.Cast is not supported: "):
        _ = torchair.ge.Cast
    for name in ("dynamo_export", "register_fx_node_ge_converter", "register_replacement", "ge_converter"):
        assert getattr(torchair, name).__refusal__.startswith(f"torchair.{name} is not supported: ")
    assert torchair.inference.set_dim_gears.__refusal__.startswith("torchair.inference.set_dim_gears is not supported: ")


def test_weights_in_the_format_of_products():
    from torch_npu.dynamo import torchair

    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)).npu()
    before = [parameter.detach().cpu() for parameter in net.parameters()]
    assert torchair.use_internal_format_weight(net) is net
    assert [torch_npu.get_npu_format(parameter) for parameter in net.parameters()][0] == 29 != torch_npu.get_npu_format(net[1].weight)
    for parameter, expected in zip(net.parameters(), before, strict=True):
        assert torch.equal(torch_npu.npu_format_cast(parameter.detach(), 2).cpu(), expected)
    cast = torchair.npu_format_cast_via_cpu(torch.ones(16, 16).npu(), 29)
    assert torch_npu.get_npu_format(cast) == 29


# ---- Kernels of attention ----


def test_switches_of_attention():
    from torch_npu.npu import backends

    upstream = torch.backends.cuda
    before = upstream.flash_sdp_enabled(), upstream.math_sdp_enabled(), upstream.mem_efficient_sdp_enabled()
    try:
        for name in ("flash", "math", "mem_efficient"):
            for value in (False, True):
                getattr(backends, f"enable_{name}_sdp")(value)
                assert getattr(backends, f"{name}_sdp_enabled")() is value is getattr(upstream, f"{name}_sdp_enabled")()
            for wrong in (1, None, "True"):
                with pytest.raises(TypeError, match=f"enabled must be True or False, got {wrong!r}"):
                    getattr(backends, f"enable_{name}_sdp")(wrong)
        for wanted in ((True, False, True), (False, True, False), (True, True, True)):
            with pytest.raises(KeyError), backends.sdp_kernel(*wanted):
                inside = backends.flash_sdp_enabled(), backends.math_sdp_enabled(), backends.mem_efficient_sdp_enabled()
                raise KeyError
            assert inside == wanted
            assert (backends.flash_sdp_enabled(), backends.math_sdp_enabled(), backends.mem_efficient_sdp_enabled()) == (True, True, True)
        with backends.sdp_kernel():
            assert backends.flash_sdp_enabled() and backends.math_sdp_enabled() and backends.mem_efficient_sdp_enabled()
        for name in ("enable_flash", "enable_math", "enable_mem_efficient"):
            with pytest.raises(TypeError, match=f"{name} must be True or False, got 1"), backends.sdp_kernel(**{name: 1}):
                pass
    finally:
        for name, value in zip(("flash", "math", "mem_efficient"), before, strict=True):
            getattr(upstream, f"enable_{name}_sdp")(value)


def test_libraries_and_plans_that_there_are_not():
    from torch_npu.npu import backends

    default = torch._C._LinalgBackend.Default
    assert {backends.preferred_linalg_library(given) for given in (None, "default", default)} == {default}
    assert backends.preferred_linalg_library() == default
    with pytest.raises(ValueError, match="the npu has no other library for linear algebra, got 'magma'"):
        backends.preferred_linalg_library("magma")
    cache = backends.fft_plan_cache
    assert (cache.size, cache.max_size, cache.clear()) == (0, 0, None)
    cache.max_size = 0
    with pytest.raises(ValueError, match="max_size must be 0: Fourier transforms on npu have no plans that could be kept, got 5"):
        cache.max_size = 5
