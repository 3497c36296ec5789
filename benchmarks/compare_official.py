"""Host time per operation, this plugin against the official torch_npu wheel: same softnpu, thread count and queue level.

Run: python benchmarks/compare_official.py [--official PYTHON] [--levels 0 1 2] [--json FILE]. PYTHON is the interpreter of an
environment with the official wheel; `bash ci/official.sh` makes one in build/official. A row is measured at each level of the
task queue (TASK_QUEUE_ENABLE), which is the same on both sides: defaults differ, and a level against another one says nothing.
Each side runs in a process of its own for each level and answers one short slice at a time, in turn, so that all see the same
noise; a figure is the median over the slices. Nothing is asserted. Rows that wait for the device are wall time, others the
calling thread's CPU time; the JSON holds both.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from slices import table

HERE = Path(__file__).resolve().parent
WAITING = ("synchronize", ".item()", "to the device", ".cpu()")


def softnpu_folder() -> Path:
    if prefix := os.environ.get("SOFTNPU_PREFIX"):
        return Path(prefix)
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("torch_npu is not installed here; run bash ci/install.sh or set SOFTNPU_PREFIX")
    return Path(spec.submodule_search_locations[0]) / "softnpu"


def environment(side: str, softnpu: Path, threads: int, level: str = "0") -> dict[str, str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith("ASCEND_") and k != "TORCH_NPU_RUNTIME"}
    base |= {"OMP_NUM_THREADS": str(threads), "SOFTNPU_THREADS": str(threads), "TASK_QUEUE_ENABLE": level}
    if side == "official":
        base.pop("PYTHONPATH", None)  # it may lead to this plugin
        libraries = f"{softnpu}/lib64:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        return base | {"ASCEND_HOME_PATH": str(softnpu), "ASCEND_OPP_PATH": f"{softnpu}/opp", "LD_LIBRARY_PATH": libraries}
    if side == "cpu":
        return base | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return base | {"TORCH_NPU_RUNTIME": "soft"}


class Worker:
    def __init__(self, side: str, python: str, softnpu: Path, threads: int, level: str):
        self.process = subprocess.Popen([python, str(HERE / "compare_worker.py"), side, str(threads)], text=True, cwd="/",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env=environment(side, softnpu, threads, level))
        self.side = side
        self.rows = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the worker '{self.side}' ended with status {self.process.wait()}")
        return json.loads(line)

    def slice(self, row: str, calls: int) -> dict[str, float]:
        self.process.stdin.write(json.dumps({"row": row, "calls": calls}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


Key = tuple[str, str]  # side, level; the CPU has the level ""


def measure(workers: dict[Key, Worker], levels: list[str], slices: int) -> list[dict]:
    """[{"row", "level", "clock", side: µs, side + "_cpu", side + "_wall"}], medians."""
    results = []
    for row in workers["ours", levels[0]].rows:
        keys = [key for key, worker in workers.items() if row in worker.rows]
        calls = {key: pick_calls(workers[key], row) for key in keys}
        samples: dict[Key, list[dict[str, float]]] = {key: [] for key in keys}
        for _ in range(slices):
            for key in keys:
                samples[key].append(workers[key].slice(row, calls[key]))
        clock = "wall" if any(word in row for word in WAITING) else "cpu"
        for level in levels:
            result: dict = {"row": row, "level": level, "clock": clock}
            for side, at in keys:
                if at not in ("", level):
                    continue
                for kind in ("cpu", "wall"):
                    result[f"{side}_{kind}"] = statistics.median(sample[kind] for sample in samples[side, at]) / 1000
                result[side] = result[f"{side}_{clock}"]
            results.append(result)
        print(f"{row}: {len(keys) * slices} slices", file=sys.stderr)
    return results


def pick_calls(worker: Worker, row: str) -> int:
    """So many that a slice takes about two milliseconds: longer than the clock's steps, shorter than a time slice."""
    worker.slice(row, 50)
    return max(5, min(500, int(2e6 / worker.slice(row, 50)["wall"])))


def import_seconds(pythons: dict[str, str], softnpu: Path, threads: int, turns: int) -> dict[str, float]:
    """CPU seconds of a process that imports torch and the plugin, and of one that imports torch alone."""
    samples: dict[str, list[float]] = {side: [] for side in pythons}
    for _ in range(turns):
        for side, python in pythons.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([python, "-c", "import torch" if side == "cpu" else "import torch, torch_npu"], check=True, cwd="/",
                           stderr=subprocess.DEVNULL, env=environment(side, softnpu, threads))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            samples[side].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {side: statistics.median(values) for side, values in samples.items()}


def import_rows(seconds: dict[str, float]) -> list[dict]:
    whole = {"row": "import torch, torch_npu (ms)", "level": "", "clock": "cpu", **{side: s * 1000 for side, s in seconds.items()}}
    added = {"row": "  of it the plugin (ms)", "level": "", "clock": "cpu",
             **{side: (s - seconds["cpu"]) * 1000 for side, s in seconds.items() if side != "cpu"}}
    return [whole, added]


def line(result: dict) -> tuple:
    def ratio(side: str) -> str:
        return f"{result['ours'] / result[side]:.2f}" if result.get(side) else ""

    figures = (f"{result[side]:.2f}" if side in result else "" for side in ("ours", "official", "cpu"))
    return result["row"], result["level"], result["clock"], *figures, ratio("official"), ratio("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--official", default=str(HERE.parent / "build/official/bin/python"), help="Python of the official environment")
    parser.add_argument("--levels", nargs="+", choices=("0", "1", "2"), default=["0", "1", "2"], help="of the task queue, on both sides")
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--imports", type=int, default=5, help="imports of each side")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="also write the results here")
    options = parser.parse_args()
    if not Path(options.official).exists():
        sys.exit(f"{options.official} does not exist; run bash ci/official.sh or give --official")

    softnpu = softnpu_folder()
    pythons = {"ours": sys.executable, "official": str(Path(options.official).absolute()), "cpu": sys.executable}
    keys = [(side, level) for level in options.levels for side in ("ours", "official")] + [("cpu", "")]
    workers = {(side, level): Worker(side, pythons[side], softnpu, options.threads, level or "0") for side, level in keys}
    results = measure(workers, options.levels, options.slices)
    for worker in workers.values():
        worker.close()
    results += import_rows(import_seconds(pythons, softnpu, options.threads, options.imports))

    header = ("µs per operation", "level", "clock", "ours", "official", "cpu", "ours : official", "ours : cpu")
    print(table([line(result) for result in results], header))
    if options.json:
        options.json.write_text(json.dumps({"threads": options.threads, "slices": options.slices, "rows": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
