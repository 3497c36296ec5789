"""What torch.compile is told of the npu, without compiling: the entry of Inductor, the interface of the device, rules of Dynamo's tracing,
graphs that need no wrapper, the code that upstream saves.
"""

from types import SimpleNamespace

import pytest
import torch
from torch._functorch._aot_autograd.schemas import PlainTensorMeta

import torch_npu
from torch_npu.dynamo import backend, capture, inductor, interface, output_code, rules
from torch_npu.npu import devices, streams


def graph(*values, parameter=None, buffer=None, key="val"):
    made = torch.fx.Graph()
    for i, value in enumerate(values):
        made.placeholder(f"x{i}").meta[key] = value
    made.output(())
    root = torch.nn.Module()
    if parameter is not None:
        root.weight = torch.nn.Parameter(parameter)
        made.get_attr("weight")
    if buffer is not None:
        root.register_buffer("state", buffer)
        made.get_attr("state")
    return torch.fx.GraphModule(root, made)


CPU, META = torch.ones(2), torch.ones(2, device="meta")


@pytest.fixture
def card():
    return torch.ones(2, device="npu")


# ---- The entry of Inductor ----


def test_which_graphs_compute_on_the_card(card):
    assert inductor._has_npu(graph(), [card]) and inductor._has_npu(graph(), [[CPU, {"a": card}]]) and inductor._has_npu(None, [card])
    assert not inductor._has_npu(graph(), [CPU, 3]) and not inductor._has_npu(lambda: card, [CPU])
    for given in ({"parameter": card}, {"buffer": card}):
        assert inductor._has_npu(graph(**given), [CPU])
    assert not inductor._has_npu(graph(CPU, parameter=CPU, buffer=CPU), [CPU])
    for key in ("val", "example_value"):
        assert inductor._has_npu(graph(CPU, [META, card], key=key), []) and not inductor._has_npu(graph(CPU, META, key=key), [])


def test_graphs_of_the_card_go_to_this_package(card, monkeypatch):
    compiled = []
    monkeypatch.setattr(backend, "compile_fused", lambda model, inputs, captures: compiled.append((model, inputs, captures)) or "ours")

    def compile_fx(model_, example_inputs_, *args, **kwargs):
        """Upstream's."""
        return "upstream's", args, kwargs

    module = SimpleNamespace(compile_fx=compile_fx)
    inductor.wrap_entry(module)
    entry, model = module.compile_fx, graph(card)
    assert entry is not compile_fx and entry.__doc__ == "Upstream's."
    assert entry(graph(CPU), [CPU], 1, a=2) == ("upstream's", (1,), {"a": 2}) and entry(len, [card]) == ("upstream's", (), {})
    for options, captures in ((None, True), ({}, True), ({"triton.cudagraphs": False}, False), ({"max_autotune": True}, False),
                              ({"max_autotune": True, "triton.cudagraphs": True}, True), ({"max_autotune": False}, True)):
        assert entry(model, [card], config_patches=options) == "ours" and compiled.pop() == (model, [card], captures)
    assert entry(model, [card]) == "ours" and compiled.pop()[2] is True


def test_other_ways_into_inductor_say_why():
    told = []
    common = SimpleNamespace(register_backend_for_device=lambda *given: told.append(given), DeviceOpOverrides=lambda: "overrides",
                             register_device_op_overrides=lambda *given: told.append(given))
    inductor.register(common)
    (name, scheduling, *wrappers, refusal), overrides = told
    assert name == "npu" and wrappers == [scheduling] * 3 and scheduling.supports_caching is True and overrides == ("npu", "overrides")
    with pytest.raises(NotImplementedError, match="Inductor has no code generator for the npu; compile with torch.compile"):
        refusal(graph())
    assert refusal.uuid() == "npu graphs run eagerly"


# ---- The interface of the device ----


def test_the_interface_is_torch_npus_own(card):
    found = interface.NpuInterface
    for name in ("current_device", "set_device", "device_count", "is_available", "synchronize", "get_device_properties",
                 "is_bf16_supported"):
        assert getattr(found, name) is getattr(devices, name), name
    assert (found.Event, found.Stream, found.device) == (streams.Event, streams.Stream, devices.device)
    assert found.get_compute_capability is devices.get_device_name and found.memory_allocated() == torch.npu.memory_allocated()
    assert found.get_raw_stream(0) == torch.npu.current_stream(0).npu_stream
    stream, before = torch.npu.Stream(), torch.npu.current_stream()
    try:
        found._set_stream_by_id(stream.stream_id, stream.device_index, 20)
        assert torch.npu.current_stream() == stream
    finally:
        torch.npu.set_stream(before)


def test_a_worker_asks_for_all_cards_once(monkeypatch):
    asked = []
    monkeypatch.setattr(interface, "caching_worker_device_properties", kept := {})
    monkeypatch.setattr(interface, "caching_worker_current_devices", {"npu": 1})
    monkeypatch.setattr(interface.devices, "device_count", lambda: 3)
    monkeypatch.setattr(interface.devices, "get_device_properties", lambda card: asked.append(card) or f"card {card}")
    worker = interface.NpuInterface.Worker
    assert [worker.get_device_properties(device) for device in (None, 2, "npu:0", "npu", torch.device("npu:2"))] == [
        "card 1", "card 2", "card 0", "card 1", "card 2"]
    assert asked == [0, 1, 2] and kept == {"npu": ["card 0", "card 1", "card 2"]}


# ---- Rules of tracing ----


def test_every_rule_is_registered():
    from torch._dynamo import trace_rules, utils
    from torch._dynamo.variables import TorchInGraphFunctionVariable, torch as functions
    from torch._dynamo.variables.ctx_manager import _device_context_manager_map
    from torch._dynamo.variables.streams import _stream_fn_to_variable_cls
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable

    rules.register()
    npu = torch_npu.npu
    for name in ("device_count", "get_device_name", "get_device_properties", "is_available", "current_device", "is_initialized"):
        assert getattr(npu, name) in functions.constant_fold_functions, name
    guarded = {name for name in rules.IN_GRAPH if getattr(npu, name) in functions.constant_fold_functions_need_guards}
    assert guarded == {"current_device", "is_initialized"}
    for name in ("current_stream", "stream", "synchronize", "default_stream", "device_count", "is_initialized"):
        assert trace_rules.lookup(getattr(npu, name)) is TorchInGraphFunctionVariable, name
    table = rules.handlers()
    assert table[npu.current_stream] is table[torch.accelerator.current_stream] and table[npu.synchronize] is rules.synchronize
    assert _stream_fn_to_variable_cls[npu.current_stream] is rules.NpuStreamVariable
    assert {npu.Stream, npu.Event} <= set(UserDefinedClassVariable._in_graph_classes())
    assert torch_npu._C._NPUDeviceProperties in utils.common_constant_types
    assert _device_context_manager_map[npu.device] is rules.DeviceVariable
    assert npu.amp.autocast_mode.__file__ in trace_rules.BUILTIN_INLINE_WHEN_CALLED
    assert rules.DeviceVariable.module_name(None) == "torch.npu" and rules.DeviceVariable.python_type(None) is npu.device
    assert rules.DeviceVariable._get_device_index_fn("npu:1", True) == 1 and rules.DeviceVariable._get_device_index_fn(None, True) == -1


def test_waiting_for_a_card_is_a_node_of_the_graph(monkeypatch):
    made, guards = [], []
    monkeypatch.setattr(rules, "install_guard", guards.append)
    monkeypatch.setattr(rules, "ImportSource", lambda name: name)
    monkeypatch.setattr(rules, "AttrSource", lambda base, name: f"{base}.{name}")
    monkeypatch.setattr(rules, "CallFunctionNoArgsSource", lambda base: SimpleNamespace(make_guard=lambda kind: (base, kind)))
    monkeypatch.setattr(rules.devices, "current_device", lambda: 4)
    tx = SimpleNamespace(output=SimpleNamespace(create_proxy=lambda *given: made.append(given)))
    constant = SimpleNamespace(as_python_constant=lambda: "npu:2")
    for args, kwargs, card in (((constant,), {}, 2), ((), {"device": constant}, 2), ((), {}, 4)):
        made.clear()
        assert rules.synchronize(None, tx, *args, **kwargs).as_python_constant() is None
        assert made == [("call_function", torch.ops.streams.synchronize_device, ("npu", card), {})]
    assert guards == [("torch.npu.current_device", rules.GuardBuilder.EQUALS_MATCH)]  # if no card is named


# ---- Graphs that need no wrapper ----


def metadata(**changes):
    plain = object.__new__(PlainTensorMeta)
    usual = dict.fromkeys(("tokens", "aliased_out_indices", "mutated_inp_runtime_indices", "act_input_indices"), ())
    return SimpleNamespace(**usual | {"subclass_inp_meta": [plain], "subclass_fw_graph_out_meta": [plain], "num_intermediate_bases": 0,
                                      "num_graphsafe_rng_states": 0, "grad_enabled_mutation": None} | changes)


@pytest.mark.parametrize("changes", [{"tokens": {1: 2}}, {"aliased_out_indices": [0]}, {"num_intermediate_bases": 1},
                                     {"mutated_inp_runtime_indices": [0]}, {"num_graphsafe_rng_states": 1}, {"act_input_indices": [0]},
                                     {"grad_enabled_mutation": False}, {"subclass_inp_meta": [object()]},
                                     {"subclass_fw_graph_out_meta": [object()]}])
def test_what_needs_the_wrapper(changes, monkeypatch):
    assert backend._needs_no_wrapper(metadata()) is True and backend._needs_no_wrapper(metadata(**changes)) is False


def test_autocast_and_saving_need_the_wrapper(monkeypatch):
    assert backend._needs_no_wrapper(None) is False
    with torch.autocast("npu", dtype=torch.float16):
        assert backend._needs_no_wrapper(metadata()) is False
    monkeypatch.setattr(backend, "_is_to_be_saved", lambda: True)
    assert backend._needs_no_wrapper(metadata()) is False


def test_without_a_wrapper_versions_are_counted():
    seen = []
    run = backend._without_wrapper(lambda inputs: seen.append(inputs) or "result", [])
    assert run(1, 2) == "result" and seen == [[1, 2]]
    x, y = torch.ones(2), torch.ones(2)
    versions = x._version, y._version
    run = backend._without_wrapper(lambda inputs: seen.append(inputs) or "result", [1])
    assert run(x, y) == "result" and seen[1][0] is x and seen[1][1] is y
    assert (x._version, y._version) == (versions[0], versions[1] + 1)


def test_whose_graph_is_fused_or_only_captured(monkeypatch):
    from torch_npu.dynamo import fusions

    called = []
    monkeypatch.setattr(backend, "compile_fused", lambda *given, captures: called.append(("fused", *given, captures)) or 1)
    monkeypatch.setattr(backend, "compile_graph", lambda *given, captures: called.append(("graph", *given, captures)) or 2)
    assert [backend.npu("m", [3]), backend.npugraph_ex("m", [3]), backend.npugraphs("m", [3])] == [1, 1, 2]
    assert called == [("fused", "m", [3], True)] * 2 + [("graph", "m", [3], True)]
    with pytest.raises(ValueError, match="^backend 'npugraph_ex' has no options, but got depth$"):
        backend.npugraph_ex("m", [], depth=1)
    monkeypatch.undo()
    model, fused = graph(CPU), []
    monkeypatch.setattr(fusions, "apply", fused.append)
    monkeypatch.setattr(backend, "compile_graph", lambda *given, captures: (*given, captures))
    few = []
    monkeypatch.setattr(backend, "launches", lambda graph: few[-1])
    x, trained = torch.ones(1), torch.ones(1, requires_grad=True)
    for number, inputs, small in ((3, [x, 5], True), (4, [x, 5], False), (4, [x, trained], True), (11, [trained], True),
                                  (12, [trained], False)):
        few.append(number)
        with pytest.warns(UserWarning, match="it has fewer than") if small else monkeypatch.context():
            result = backend.compile_fused(model, inputs, captures=False)
        assert (result == model.forward) if small else (result == (model, inputs, False))
    few.append(4)
    with torch.no_grad():
        assert backend.compile_fused(model, [trained], captures=True) == (model, [trained], True)
    few.append(0)
    for name in ("_has_bodies", "_is_to_be_saved"):
        with monkeypatch.context() as patch:
            patch.setattr(backend, name, lambda *given: True)
            assert backend.compile_fused(model, [x], captures=True) == (model, [x], True)
    assert fused == [model] * 8


def test_graphs_inside_of_operators():
    made = torch.fx.Graph()
    assert backend._has_bodies(made) is False
    made.call_function(torch.ops.aten.sin.default, (made.placeholder("x"),))
    assert backend._has_bodies(made) is False
    made.call_function(torch.ops.higher_order.cond, ())
    assert backend._has_bodies(made) is True


# ---- The code that upstream saves ----


def test_what_is_saved_runs_again(monkeypatch):
    made = []

    def captured(module, inputs, fixed):
        made.append((module, inputs, fixed))
        return lambda inputs: ["captured", *inputs]

    monkeypatch.setattr(capture, "captured", captured)
    monkeypatch.setattr(capture, "eagerly", lambda module: lambda inputs: ["eager", *inputs])
    model = graph(CPU)
    code = output_code.GraphCode(model, [1], {0}, captures=True)
    assert code([7]) == ["captured", 7] and made == [(model, [1], {0})]
    assert output_code.GraphCode(model, [1], {0}, captures=False)([7]) == ["eager", 7] and output_code._every_operator("x") is True
    state = code.__getstate__()
    assert "_run" not in state and state["_fixed"] == {0} and state["_captures"] is True
    code.post_compile([2], None, None)
    assert len(made) == 1  # it is there
    del code._run
    code.post_compile([2], None, None)
    assert code([8]) == ["captured", 8] and made[1][1:] == ([2], {0})
