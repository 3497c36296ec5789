"""Corners of torch.npu.graph, make_graphed_callables and NPUGraph.update that test_graphs.py, which compares replays with eager runs, does
not meet: what is refused, what is called how often, and what is left as it was.
"""

import gc

import pytest
import torch
from torch import nn

from torch_npu.npu import _graph_updates, _graphed_callables, graphs

pytestmark = pytest.mark.usefixtures("restore_device")
n = torch.npu


def ones(*shape, **options):
    return torch.ones(*shape, device="npu", **options)


# ---- torch.npu.graph ----


def test_arguments_of_a_capture():
    stream, graph, pool = n.Stream(), n.NPUGraph(), n.graph_pool_handle()
    made = n.graph(graph, pool=pool, stream=stream, capture_error_mode="relaxed")
    assert (made.npu_graph, made.pool, made.capture_stream, made.capture_error_mode) == (graph, pool, stream, "relaxed")
    assert made.dispatch_mode is None and n.graph(graph).capture_error_mode == "global" and n.graph(graph).dispatch_mode is None
    assert isinstance(n.graph(graph, auto_dispatch_capture=True).dispatch_mode, _graph_updates.DispatchCapture)
    with made:
        assert n.current_stream() == stream and n.is_current_stream_capturing()
    assert n.current_stream() != stream and graph.pool() == pool


def test_captures_share_a_stream_of_the_current_card():
    first = n.graph(n.NPUGraph()).capture_stream
    assert n.graph(n.NPUGraph()).capture_stream is first and first.device_index == 0
    with n.device(1):
        second = n.graph(n.NPUGraph()).capture_stream
        assert second.device_index == 1 and n.graph(n.NPUGraph()).capture_stream is second
    assert n.graph(n.NPUGraph()).capture_stream.device_index == 0


@pytest.mark.parametrize("collects", [False, True])
def test_a_capture_waits_and_empties_the_cache(monkeypatch, collects):
    """And collects garbage if upstream's setting says so."""
    done = []
    monkeypatch.setattr(graphs, "synchronize", lambda: done.append("synchronize"))
    monkeypatch.setattr(graphs.gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(graphs, "empty_cache", lambda: done.append("empty"))
    with torch.compiler.config.patch(force_cudagraph_gc=collects), n.graph(n.NPUGraph()):
        pass
    assert done == (["synchronize", "collect", "empty"] if collects else ["synchronize", "empty"])


def test_a_capture_that_does_not_begin_leaves_the_stream():
    graph, before = n.NPUGraph(), n.current_stream()
    with n.graph(graph):
        ones(2)
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        with n.graph(graph):
            pass
    assert n.current_stream() == before
    with pytest.raises(RuntimeError, match="boom"):
        with n.graph(n.NPUGraph(), auto_dispatch_capture=True):
            raise RuntimeError("boom")
    assert n.current_stream() == before and not n.is_current_stream_capturing()
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None


def test_an_error_at_the_end_of_a_capture_is_raised():
    class Graph:
        def capture_begin(self, *args, **options):
            self.given = args, options

        def capture_end(self):
            raise RuntimeError("the end")

    graph, before = Graph(), n.current_stream()
    with pytest.raises(RuntimeError, match="the end"):
        with n.graph(graph):
            pass
    assert graph.given == ((), {"capture_error_mode": "global"}) and n.current_stream() == before
    with pytest.raises(KeyError), n.graph(graph, pool=(1, 2)):
        raise KeyError
    assert graph.given[0] == ((1, 2),) and n.current_stream() == before


def test_what_graphs_do_not_have():
    graph = n.NPUGraph()
    assert graph.graph_dispatch_mode is None
    with pytest.raises(NotImplementedError, match="replay\\(\\) the graph as it is"):
        graph.super_kernel_optimize()
    for mode in ("thread_local", "relaxed", "global"):
        with n.stream(n.Stream()):
            graph.capture_begin(capture_error_mode=mode)
            graph.capture_end()
        graph.reset()


# ---- Graphed callables ----


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls = nn.Linear(3, 2), 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x)


def test_callables_are_warmed_up_captured_and_then_replayed():
    for options, calls in (({}, 4), ({"num_warmup_iters": 1}, 2)):
        module = Counted().npu()
        graphed = n.make_graphed_callables(module, (ones(2, 3),), **options)
        assert graphed is module and module.calls == calls
        x = torch.randn(2, 3).npu()
        assert torch.equal(graphed(x), module.linear(x)) and module.calls == calls
        module.eval()
        graphed(x)
        assert module.calls == calls + 1  # as it was before
        module.train()
        graphed(x)
        assert module.calls == calls + 1


def test_functions_are_graphed_with_containers_and_what_is_not_differentiated():
    def function(pair, mask):
        return {"sum": pair[0] + pair[1], "kept": pair[0].detach() * 2, "masked": pair[0] * mask}

    a, b, mask = ones(3).requires_grad_(), ones(3).requires_grad_(), torch.tensor([1, 0, 1]).npu()
    graphed = n.make_graphed_callables(function, ([a, b], mask))
    x, y = torch.tensor([1.0, 2, 3]).npu().requires_grad_(), torch.tensor([4.0, 5, 6]).npu().requires_grad_()
    result = graphed([x, y], torch.tensor([0, 1, 1]).npu())
    assert result["sum"].tolist() == [5, 7, 9] and result["kept"].tolist() == [2, 4, 6] and result["masked"].tolist() == [0, 2, 3]
    (result["sum"] * torch.tensor([1.0, 2, 3]).npu() + result["masked"]).sum().backward()
    assert x.grad.tolist() == [1, 3, 4] and y.grad.tolist() == [1, 2, 3]


def test_functions_without_gradients_are_graphed():
    graphed = n.make_graphed_callables(lambda x: x * 2, (ones(3),))
    assert graphed(torch.tensor([1.0, 2, 3]).npu()).tolist() == [2, 4, 6]
    with torch.no_grad():
        assert graphed(ones(3)).tolist() == [2] * 3


def test_inputs_that_are_not_used():
    a, b = ones(2).requires_grad_(), ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match="allow_unused|not have been used"):
        n.make_graphed_callables(lambda a, b: a * 2, (a, b))
    graphed = n.make_graphed_callables(lambda a, b: a * 2, (a, b), allow_unused_input=True)
    x, y = ones(2).requires_grad_(), ones(2).requires_grad_()
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad is None


def test_what_is_no_graphed_callable():
    x = ones(2, 3)
    for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        module = nn.Linear(3, 2).npu()
        getattr(module, register)(lambda *args: None)
        with pytest.raises(RuntimeError, match="must not have hooks"):
            n.make_graphed_callables(module, (x,))
    module = nn.Linear(3, 2).npu()
    module.register_buffer("b", ones(2).requires_grad_())
    with pytest.raises(RuntimeError, match="buffers with requires_grad=False"):
        n.make_graphed_callables(module, (x,))
    module = nn.BatchNorm1d(3).npu()
    assert n.make_graphed_callables(module, (x,)) is module
    with torch.autocast("npu", torch.float16), pytest.raises(RuntimeError, match="autocast caching"):
        n.make_graphed_callables(nn.Linear(3, 2).npu(), (x,))
    with torch.autocast("npu", torch.float16, cache_enabled=False):
        assert n.make_graphed_callables(nn.Linear(3, 2).npu(), (x,))(x).dtype == torch.float16
    with pytest.raises(ValueError, match="for each of the 1 callables, but has 2"):
        n.make_graphed_callables((nn.ReLU(),), ((x,), (x,)))
    with pytest.raises(TypeError, match="must be tensors"):
        n.make_graphed_callables(lambda a, b: a, (x, 1))


def test_callables_share_a_pool(monkeypatch):
    pools = []
    real = _graphed_callables.torch_npu.npu.graph
    monkeypatch.setattr(_graphed_callables.torch_npu.npu, "graph", lambda graph, pool: pools.append(pool) or real(graph, pool=pool))
    pool, x = n.graph_pool_handle(), ones(2).requires_grad_()
    first, second = n.make_graphed_callables((lambda x: x * 2, lambda x: x + 1), ((x,), (x,)), pool=pool)
    assert pools == [pool] * 4 and second(first(ones(2))).tolist() == [3, 3]
    pools.clear()
    n.make_graphed_callables(lambda x: x * 2, (x,))
    assert len(set(pools)) == 1 and pools[0] not in (None, pool)


def test_the_samples_themselves_may_be_given():
    x = ones(3).requires_grad_()
    graphed = n.make_graphed_callables(lambda x: x * x, (x,))
    with torch.no_grad():
        x.fill_(3.0)
    (gradient,) = torch.autograd.grad(graphed(x).sum(), x)
    assert gradient.tolist() == [6] * 3 and graphed(ones(3)).requires_grad is False
    gc.collect()


# ---- Updates ----


@pytest.fixture
def handler():
    """For npu_fused_infer_attention_score in place of the usual one."""
    seen = []
    before = dict(_graph_updates._handlers)

    @n.register_npu_graph_handler("npu_fused_infer_attention_score")
    class Handler(n.NpuGraphOpHandler):
        UPDATE_SPECS = {"npu_fused_infer_attention_score": ["actual_seq_lengths_kv", "num_heads"]}

        @classmethod
        def prepare_capture(cls, func, args, kwargs):
            seen.append("prepare")
            return func, args, kwargs

        @classmethod
        def postprocess_result(cls, result, kwargs):
            seen.append(sorted(kwargs))
            return result[0] + 1, result[1]

        @classmethod
        def record_wrap_kwarg(cls, key, value, tensor_param_names):
            seen.append(key)
            return value

    yield seen
    _graph_updates._handlers.clear()
    _graph_updates._handlers.update(before)


Q, K, V = (torch.randn(2, 2, length, 8).half() for length in (1, 16, 16))


def test_update_goes_through_the_handler(handler):
    q, k, v = Q.npu(), K.npu(), V.npu()
    graph = n.NPUGraph()
    with n.graph(graph, auto_dispatch_capture=True):
        out = torch.ops.npu.npu_fused_infer_attention_score(q, k, v, num_heads=2, input_layout="BNSD", scale=0.3,
                                                            actual_seq_lengths_kv=[4, 5])[0]
    assert handler[0] == "prepare" and handler[-1] == sorted(handler[1:-1]) and "scale" in handler
    assert len(graph.graph_dispatch_mode.records) == 1
    assert graph.graph_dispatch_mode.records[0].outputs[0].data_ptr() != out.data_ptr()
    graph.replay()
    graph.update(cpu_update_input=[{"actual_seq_lengths_kv": [7, 2]}])
    assert torch.equal(out, _reference([7, 2], post=1))
    with pytest.raises(ValueError, match="has 'scale', but of npu_fused_infer_attention_score these can be updated: "
                                         "actual_seq_lengths_kv, num_heads"):
        graph.update(cpu_update_input=[{"scale": 1.0}])


def _reference(lengths, post=0):
    scores = (Q.float() @ K.float().transpose(-1, -2)) * 0.3
    mask = torch.arange(16).expand(2, 1, 1, 16) >= torch.tensor(lengths).view(2, 1, 1, 1)
    out = torch.ops.npu.npu_fused_infer_attention_score(Q.npu(), K.npu(), V.npu(), num_heads=2, input_layout="BNSD", scale=0.3,
                                                        actual_seq_lengths_kv=lengths)[0]
    if post:
        return out + 1
    expected = scores.masked_fill(mask, -torch.inf).softmax(-1) @ V.float()
    torch.testing.assert_close(out.cpu().float(), expected, rtol=2e-3, atol=2e-3)
    return out


def test_update_of_several_operators():
    q, k, v = Q.npu(), K.npu(), V.npu()
    graph = n.NPUGraph()
    with n.graph(graph, auto_dispatch_capture=True):
        outs = [torch.ops.npu.npu_fused_infer_attention_score(q, k, v, num_heads=2, input_layout="BNSD", scale=0.3,
                                                              actual_seq_lengths_kv=[4, 5])[0] for _ in range(2)]
    for inputs, lengths in (([[3, 16], [9, 1]], [[3, 16], [9, 1]]), ([[2, 2]], [[2, 2], [2, 2]])):
        graph.replay()
        graph.update([{"actual_seq_lengths_kv": given} for given in inputs])
        assert all(torch.equal(out, _reference(wanted)) for out, wanted in zip(outs, lengths, strict=True))
    for count in (0, 3):
        with pytest.raises(ValueError, match=f"must have 1 or 2 entries, one for each captured operator, but has {count}"):
            graph.update([{}] * count)


def test_update_of_an_argument_that_was_given_by_its_place():
    op = torch.ops.aten.add.Tensor
    names = {"add": ["other", "alpha"]}
    handler = type("Handler", (n.NpuGraphOpHandler,), {"UPDATE_SPECS": names})
    record = _graph_updates.DispatchRecord(op, (1, 2), {"alpha": 3}, None, handler, 0, None)
    handler.update_args(record, {"other": 5, "alpha": 7})
    assert record.args == (1, 5) and record.kwargs == {"alpha": 7}
    assert handler.get_update_specs("add") == ["other", "alpha"] and handler.get_update_specs("mul") == []
    assert n.NpuGraphOpHandler.prepare_capture(1, 2, 3) == (1, 2, 3) and n.NpuGraphOpHandler.postprocess_result(4, {}) == 4
    assert n.NpuGraphOpHandler.record_wrap_kwarg("a", 5, []) == 5


def test_handlers_for_update_are_registered_by_one_name_or_several(handler):
    @n.register_npu_graph_handler(["one", "two"])
    class Handler(n.NpuGraphOpHandler):
        pass

    assert _graph_updates._handlers["one"] is _graph_updates._handlers["two"] is Handler
    for wrong in (3, int, Handler()):
        with pytest.raises(TypeError, match="a handler must be a subclass of NpuGraphOpHandler, but got"):
            n.register_npu_graph_handler("x")(wrong)
    assert _graph_updates.FusedInferAttentionHandler.get_update_specs("npu_fused_infer_attention_score_v2") == [
        "actual_seq_qlen", "actual_seq_kvlen"]


def test_results_are_written_where_the_graph_has_them_unless_the_call_says_where():
    given = []

    class Packet:
        @staticmethod
        def out(*args, **kwargs):
            given.append((args, kwargs))

    op = type("Op", (), {"overloadpacket": Packet})
    for kwargs, expected in (({"a": 1}, {"a": 1, "out": [7, 8]}), ({"out": 3}, {"out": 3})):
        _graph_updates._run_into(_graph_updates.DispatchRecord(op, (5,), kwargs, (7, [8]), None, 0, None))
        assert given.pop() == ((5,), expected)
