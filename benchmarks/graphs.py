"""Graph replay beside the eager step on npu and on the CPU. Run: python benchmarks/graphs.py [--threads N] [--rounds N]

Each round runs a slice of replays, of eager npu steps and of eager CPU steps, in turn, each slice ending with a synchronise; medians over
the rounds. Both eager sides run the same step with the same settings. Results of replay and eager are compared bit for bit first.
The memory is what the first steps reserve of the card. Nothing is asserted; a figure that misses its "must" is marked.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time

import torch
from slices import table
from torch import nn

import torch_npu  # noqa: F401

OPERATORS, MOST_NANOSECONDS = 100, 200  # of the chain; for each of them in a replay
clock = time.perf_counter


class Chain(nn.Module):
    """Small operators."""

    def forward(self, x):
        for _ in range(OPERATORS):
            x = x + 1
        return x


class Decoder(nn.Module):
    """One token of a small decoder with a static cache."""

    def __init__(self, layers=4, width=64, heads=4, room=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
            "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.heads = heads
        self.register_buffer("cache", torch.zeros(layers, 2, 1, heads, room, width // heads))
        self.register_buffer("place", torch.tensor([5]))

    def forward(self, x):
        for layer, cache in zip(self.layers, self.cache.unbind()):
            q, k, v = layer["qkv"](layer["norm"](x)).view(1, 1, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            keys, values = cache.unbind()
            keys.index_copy_(2, self.place, k)
            values.index_copy_(2, self.place, v)
            y = nn.functional.scaled_dot_product_attention(q, keys, values)
            x = x + layer["out"](y.transpose(1, 2).reshape(x.shape))
            x = x + layer["down"](nn.functional.gelu(layer["up"](x)))
        return x


def mlp():
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(64, 64), nn.ReLU())))


def cnn():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 49, 10))


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False)


class LSTM(nn.LSTM):
    def forward(self, x):
        return super().forward(x)[0]


# name, network, shape of its input, whether it trains, the least that eager : replay must be
CASES = [
    (f"{OPERATORS} small operators", Chain, (8,), False, None),
    ("MLP, batch 1, inference", mlp, (1, 64), False, 3.0),
    ("MLP, batch 1, training", mlp, (1, 64), True, 3.0),
    ("decoder, one token", Decoder, (1, 1, 64), False, 3.0),
    ("CNN, training", cnn, (4, 3, 16, 16), True, 1.0),
    ("transformer encoder, training", encoder, (2, 16, 64), True, 1.0),
    ("LSTM, training", lambda: LSTM(32, 32, 2, batch_first=True), (4, 10, 32), True, 1.0),
]


def step_of(model: nn.Module, x: torch.Tensor, trains: bool, capturable: bool):
    if not trains:
        def infer():
            with torch.no_grad():
                return model(x)
        return infer
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=capturable)

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return train


def captured(step):
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        for _ in range(3):
            step()
    torch.npu.current_stream().wait_stream(side)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = step()
    return graph, result


def reserved() -> float:
    """MB that the process has of the card, without what nothing uses."""
    torch.npu.synchronize()
    torch.npu.empty_cache()
    return torch.npu.memory_reserved() / 2**20


def slice_of(function, count: int) -> float:
    start = clock()
    for _ in range(count):
        function()
    torch.npu.synchronize()
    return (clock() - start) / count * 1e6


def measure(name, make, shape, trains, must, rounds):
    torch.manual_seed(0)
    model, x = make(), torch.randn(shape)
    second = copy.deepcopy(model).npu()
    eager = step_of(second, x.npu(), trains, True)
    before = reserved()
    for _ in range(3):
        eager()
    eagerly = reserved() - before
    first = copy.deepcopy(model).npu()
    before = reserved()
    graph, result = captured(step_of(first, x.npu(), trains, True))
    memory = f"{eagerly:.0f} / {reserved() - before:.0f}"
    graph.replay()
    same = torch.equal(result, eager())
    sides = (graph.replay, eager, step_of(model, x, trains, False))
    count = max(1, min(50, int(2e4 / slice_of(eager, 3))))
    times = [statistics.median(column) for column in zip(*([slice_of(side, count) for side in sides] for _ in range(rounds)))]
    ratio = times[1] / times[0]
    verdict = "" if must is None else "met" if ratio >= must else "MISSED"
    return (name, "yes" if same else "NO", *(f"{t:.1f}" for t in times), f"{ratio:.1f}", f"{times[2] / times[0]:.1f}",
            memory, "" if must is None else f"{must:.0f}", verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--cpu-time", action="store_true", help="of the process, for a busy machine, with one thread")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    global clock
    if options.cpu_time:
        clock = time.process_time
    print(f"threads {options.threads}, task queue level {torch.npu.get_task_queue_enable()}, µs per step")
    rows = [measure(*case, options.rounds) for case in CASES]
    print(table(rows, ("step", "bit for bit", "replay", "eager npu", "eager CPU", "eager : replay", "CPU : replay", "MB, eager / graph",
                       "must", "")))
    nanoseconds = float(rows[0][2]) / OPERATORS * 1000
    print(f"a small operator of a replay: {nanoseconds:.0f} ns, must {MOST_NANOSECONDS}, "
          f"{'met' if nanoseconds <= MOST_NANOSECONDS else 'MISSED'}")


if __name__ == "__main__":
    main()
