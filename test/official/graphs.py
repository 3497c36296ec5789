"""Graphs: NPUGraph and torch.npu.graph over softnpu's capture."""

import os

import torch

import torch_npu  # noqa: F401


def captured(function):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = function()
    return graph, result


def check_replays():
    x = torch.ones(4, device="npu")
    graph, y = captured(lambda: x * 2 + 1)
    for value in (3.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert y.cpu().tolist() == [2 * value + 1] * 4


def check_streams_join():
    x, side = torch.ones(4, device="npu"), torch.npu.Stream()

    def work():
        current = torch.npu.current_stream()
        a = x + 1
        side.wait_stream(current)
        with torch.npu.stream(side):
            b = a * 2
        current.wait_stream(side)
        return a + b

    graph, y = captured(work)
    x.fill_(2)
    graph.replay()
    assert y.cpu().tolist() == [9] * 4


def check_random_numbers_go_on():
    torch.npu.manual_seed(3)
    graph, (numbers, kept) = captured(lambda: (torch.rand(50, device="npu"), torch.nn.functional.dropout(torch.ones(50, device="npu"))))
    seen = []
    for _ in range(3):
        graph.replay()
        seen += [tuple(numbers.cpu().tolist()), tuple(kept.cpu().tolist())]
    assert len(set(seen)) == 6
    torch.npu.manual_seed(3)
    graph.replay()
    assert tuple(numbers.cpu().tolist()) == seen[0]


def check_training_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).npu()
    x = torch.randn(3, 6).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(2):
            step()
    torch.npu.current_stream().wait_stream(side)
    graph, loss = captured(step)
    losses = []
    for _ in range(4):
        graph.replay()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]


def check_graphed_callables():
    layer = torch.nn.Linear(4, 4).npu()
    graphed = torch.npu.make_graphed_callables(layer, (torch.randn(2, 4).npu(),))
    x = torch.randn(2, 4).npu()
    graphed(x).sum().backward()
    assert torch.allclose(layer.weight.grad[0].cpu(), x.sum(0).cpu())


def check_optimisers():
    """A step of AdamW counts on the card."""
    torch.manual_seed(0)
    start, gradients = torch.randn(5, 4), [torch.randn(5, 4) for _ in range(4)]
    results = []
    for captures in (False, True):
        parameter = start.npu().requires_grad_()
        optimizer = torch.optim.AdamW([parameter], lr=0.1, capturable=True)
        parameter.grad = gradients[0].npu()
        optimizer.step()
        graph = captured(optimizer.step)[0] if captures else None
        for gradient in gradients[1:]:
            parameter.grad.copy_(gradient)
            graph.replay() if captures else optimizer.step()
        results.append(parameter.detach().cpu())
    assert torch.equal(*results) and not torch.equal(results[0], start)


def check_graphs_share_memory():
    x = torch.ones(1 << 20, device="npu")
    pool = torch.npu.graph_pool_handle()
    first, y = captured_into(pool, lambda: (x * 2 * 3).sum())
    reserved = torch.npu.memory_reserved()
    second, z = captured_into(first.pool(), lambda: (x * 2 * 4).sum())
    assert torch.npu.memory_reserved() == reserved
    for graph in (first, second):
        graph.replay()
    assert (y.item(), z.item()) == (6 << 20, 8 << 20)


def captured_into(pool, function):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, pool=pool):
        result = function()
    return graph, result


def check_memory_comes_back():
    x = torch.ones(1 << 20, device="npu")

    def held():
        torch.npu.synchronize()
        torch.npu.empty_cache()
        return torch.npu.memory_reserved()

    before = held()
    for _ in range(5):
        graph, y = captured(lambda: (x * 2 + x.sin()).sum())
        graph.replay()
        graph.reset()
        del graph, y
    assert held() == before


def check_capture_is_seen():
    stream, graph = torch.npu.Stream(), torch.npu.NPUGraph()
    assert not torch.npu.is_current_stream_capturing()
    with torch.npu.stream(stream):
        graph.capture_begin()
        assert torch.npu.is_current_stream_capturing()
        torch.ones(3, device="npu")
        graph.capture_end()
        assert not torch.npu.is_current_stream_capturing()


def check_updates():
    """New lengths for an attention operator that was captured."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, length, 8).half().npu() for length in (1, 16, 16))

    def attend(lengths):
        return torch.ops.npu.npu_fused_infer_attention_score(q, k, v, num_heads=2, input_layout="BNSD", scale=8**-0.5,
                                                             actual_seq_lengths_kv=lengths)[0]

    attend([4, 5])
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        out = attend([4, 5])
    for lengths in ([3, 16], [9, 1]):
        graph.replay()
        graph.update(cpu_update_input=[{"actual_seq_lengths_kv": lengths}])
        torch.npu.synchronize()
        assert torch.equal(out.cpu(), attend(lengths).cpu())


def check_an_exception_ends_the_capture():
    x = torch.ones(4, device="npu")
    try:
        captured(lambda: 1 / 0)
    except ZeroDivisionError:
        pass
    torch.npu.set_stream(torch.npu.default_stream())
    assert not torch.npu.is_current_stream_capturing()
    graph, y = captured(lambda: x + 1)
    graph.replay()
    assert y.cpu().tolist() == [2] * 4


def check_waiting_is_refused():
    x = torch.ones(4, device="npu")
    try:
        captured(lambda: x.sum().item())
    except RuntimeError:
        pass
    else:
        raise AssertionError("item() in a capture must be refused")
    torch.npu.set_stream(torch.npu.default_stream())  # the client stays on the stream of a capture that failed
    assert (x + 1).sum().item() == 8


def check_task_groups_are_updated():
    x = torch.full((4,), 3.0, device="npu")
    graph, update, gate = torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.ExternalEvent()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        gate.wait(stream)
        gate.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        y = torch.mul(x, 2.0)
        group = torch.npu.graph_task_group_end(stream)
        z = y + 1
    for factor in (10.0, 20.0):
        graph.replay()
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, group)
            torch.mul(x, factor, out=y)
            torch.npu.graph_task_update_end(update)
            gate.record(update)
        torch.npu.synchronize()
        assert z.cpu().tolist() == [3 * factor + 1] * 4


def _refused():
    try:
        captured(lambda: None)
    except RuntimeError as error:
        assert "TASK_QUEUE_ENABLE" in str(error)
    else:
        raise AssertionError("the client captures with the task queue at level 2")


if os.environ.get("TASK_QUEUE_ENABLE") == "2":  # where the client captures nothing
    globals().update(dict.fromkeys([name for name in globals() if name.startswith("check_")], _refused))
