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
