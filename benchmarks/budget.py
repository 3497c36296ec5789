"""The budget table: every row is a ratio from one interleaved run. Run: python benchmarks/budget.py [--json FILE]

Rows: host time of small operators (npu : cpu), with a final synchronise, torch.empty, .item(), at each level of the task queue;
import time added, copies against memcpy, training steps of small networks. Rows that wait are wall time, the other host times the
calling thread's CPU time. Nothing is asserted; a figure over its "must" is marked.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
from slices import interleaved, table

import torch_npu  # noqa: F401  (works without autoload too)

WAITS = ("z = x + y, then synchronize", "x.sum().item()")


def must(name: str, level: int) -> float:
    return {"z = x + y": 1.3 if level == 0 else 1.5, "z = x + y, then synchronize": 2.0, "torch.empty(16)": 1.2,
            "x.sum().item()": 4.0}.get(name, math.inf)


def small_operators() -> list[tuple[str, float, float]]:
    pairs: dict[str, dict] = {}
    for device in ("cpu", "npu"):
        x, y = torch.randn(16, device=device), torch.randn(16, device=device)
        matrix = torch.randn(4, 4, device=device)
        sync = torch.npu.synchronize if device == "npu" else (lambda: None)

        def synced(x=x, y=y, sync=sync):
            z = x + y
            sync()
            return z

        pairs[device] = {
            "z = x + y": lambda x=x, y=y: x + y,
            "x.add_(y)": lambda x=x, y=y: x.add_(y),
            "x * 2.0": lambda x=x: x * 2.0,
            "torch.relu(x)": lambda x=x: torch.relu(x),
            "a @ a, 4 x 4": lambda a=matrix: a @ a,
            "z = x + y, then synchronize": synced,
            "torch.empty(16)": lambda device=device: torch.empty(16, device=device),
            "x.sum().item()": lambda x=x: x.sum().item(),
        }
    rows, level = [], torch.npu.get_task_queue_enable()
    for name in pairs["cpu"]:
        clock = time.perf_counter_ns if name in WAITS else time.thread_time_ns
        times = interleaved({device: pairs[device][name] for device in pairs}, clock=clock)
        rows.append((f"host: {name} (TASK_QUEUE_ENABLE={level})", times["npu"] / times["cpu"], must(name, level)))
    return rows


def queue_levels() -> list[tuple[str, float, float]]:
    """The small operators again at the other levels of the task queue, each in a process of its own."""
    rows = []
    for level in sorted({"0", "1", "2"} - {str(torch.npu.get_task_queue_enable())}):
        command = [sys.executable, __file__, "--only-operators", "--json", "/dev/stdout", "--threads", str(torch.get_num_threads())]
        output = subprocess.run(command, env=dict(os.environ, TASK_QUEUE_ENABLE=level), check=True, capture_output=True, text=True).stdout
        rows += [(row["row"], row["ratio"], row["must"] or math.inf) for row in json.loads(output[output.index("["):])]
    return rows


def copies(megabytes: int = 256) -> list[tuple[str, float, float]]:
    """Bandwidth relative to a plain memcpy of the same size (higher is better; listed as memcpy time : copy time)."""
    host = torch.ones(megabytes << 20, dtype=torch.uint8)
    other = torch.empty_like(host)
    device = host.npu()
    spare = torch.empty_like(device)

    def synced(copy):
        def run():
            copy()
            torch.npu.synchronize()
        return run

    times = interleaved({
        "memcpy": lambda: other.copy_(host),
        "host to device": synced(lambda: device.copy_(host)),
        "device to host": synced(lambda: other.copy_(device)),
        "device to device": synced(lambda: spare.copy_(device)),
    }, slices=25, calls=1, clock=time.perf_counter_ns)
    least = 0.95 if torch.get_num_threads() == 1 else 0.9
    return [(f"copy {megabytes} MB, {name}: memcpy time / copy time", times["memcpy"] / times[name], least)
            for name in times if name != "memcpy"]


def import_time(repeats: int = 5) -> list[tuple[str, float, float]]:
    def once(autoload: str) -> float:
        environment = dict(os.environ, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch"], env=environment, check=True)
        return time.perf_counter() - start

    samples = [(once("0"), once("1")) for _ in range(repeats)]
    plain = statistics.median(s[0] for s in samples)
    return [("import time added : torch's own", (statistics.median(s[1] for s in samples) - plain) / plain, 0.3)]


def networks() -> dict[str, tuple]:
    nn = torch.nn
    return {
        "MLP": (lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)), (64, 64)),
        "CNN": (lambda: nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 64, 10)), (32, 1, 16, 16)),
        "wide MLP": (lambda: nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)), (128, 512)),
    }


def training() -> list[tuple[str, float, float]]:
    ratios = []
    for name, (build, shape) in networks().items():
        steps = {}
        for device in ("cpu", "npu"):
            torch.manual_seed(0)
            model = build().to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
            x, target = torch.randn(shape).to(device), torch.randint(0, 10, (shape[0],)).to(device)

            def step(model=model, optimizer=optimizer, x=x, target=target):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), target).backward()
                optimizer.step()
                return None

            steps[device] = step
        times = interleaved(steps, slices=25, calls=4, clock=time.perf_counter_ns)
        ratios.append((f"training step, {name}", times["npu"] / times["cpu"], math.inf))
    mean = math.exp(statistics.mean(math.log(r[1]) for r in ratios))
    return [*ratios, ("training step, geometric mean", mean, 1.1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the rows to this file as well")
    parser.add_argument("--only-operators", action="store_true", help="only the host time of small operators")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads on both sides")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = small_operators()
    if not options.only_operators:
        rows += [*queue_levels(), *copies(), *import_time(), *training()]
    shown = []
    for name, value, must in rows:
        floor = name.startswith("copy")
        missed = value < must if floor else value > must
        limit = "" if must == math.inf else f"{'>=' if floor else '<='} {must}"
        shown.append((name, f"{value:.2f}", limit, "MISSED" if missed else ""))
    print(table(shown, ("npu : cpu", "ratio", "must", "")))
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"row": n, "ratio": v, "must": None if m == math.inf else m} for n, v, m in rows], file, indent=1)


if __name__ == "__main__":
    main()
