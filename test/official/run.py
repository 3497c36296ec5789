"""Runs the checks of this folder with the official torch_npu wheel on softnpu; ci/official.sh sets up the environment.

Usage: python run.py [NAME...]. A check is a function `check_*` of a module here; NAME picks modules or checks. Every mode
of MODES runs them in a process of its own. A check that fails ends its process, because the official client is unusable
after a failed task, and a new process takes the remaining ones.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODULES = ("wheel", "schemas", "defaults", "device", "copies", "operators", "custom_ops", "randomness", "streams", "graphs", "memory",
           "training", "overflow", "profiling", "distributed", "recovery", "sharing")
# name -> environment. The client's task queue at its three levels, and softnpu with all work on worker threads and with
# scratch memory for every operator.
MODES = {
    "queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "queue 2": {"TASK_QUEUE_ENABLE": "2"},
    "async": {"SOFTNPU_ASYNC": "1", "SOFTNPU_WORKSPACE": "all"},
}
MEMORY = "1G"  # of softnpu: little, so that running out of it is quick
TIMEOUT = 300  # seconds for one process


def find_checks(chosen):
    names = []
    for module in MODULES:
        text = (Path(__file__).parent / f"{module}.py").read_text()
        found = [line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def check_")]
        names += [f"{module}.{name}" for name in found if not chosen or {module, name} & set(chosen)]
    return names


def run_here(names):
    """The child: one JSON line on stdout after each check, until the first that fails."""
    for name in names:
        module, _, function = name.partition(".")
        start, error = time.perf_counter(), ""
        try:
            getattr(importlib.import_module(module), function)()
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"name": name, "error": error, "seconds": time.perf_counter() - start}), flush=True)
        if error:
            os._exit(1)


def run_mode(names, environment):
    """Yields (name, error, seconds) for all names. Cards' memory is shared by who has the same runtime folder: each mode has its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SOFTNPU_MEMORY": MEMORY, "XDG_RUNTIME_DIR": folder, **environment}
        yield from run_processes(names, environment)


def run_processes(names, environment):
    while names:
        child = subprocess.Popen([sys.executable, __file__, "--here", *names], stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.PIPE, env=environment)
        try:
            output, log = child.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            child.kill()
            output, log = child.communicate()
            log += f"\nno end after {TIMEOUT} s"
        lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"name"')]
        for line in lines:
            yield line["name"], line["error"], line["seconds"]
        names = names[len(lines):]
        if names and not (lines and lines[-1]["error"]):
            yield names[0], f"the process ended with status {child.returncode}\n{log[-2000:]}", 0.0
            names = names[1:]
        elif not names and child.returncode not in (0, 1):
            yield "exit", f"the process ended with status {child.returncode}\n{log[-2000:]}", 0.0


def main():
    if sys.argv[1:2] == ["--here"]:
        return run_here(sys.argv[2:])
    names = find_checks(sys.argv[1:])
    width = max(map(len, names))
    results, errors = {}, []

    def run(mode):
        start = time.perf_counter()
        for name, error, _ in run_mode(names, MODES[mode]):
            results[name, mode] = not error
            if error:
                errors.append(f"---- {name}, {mode}\n{error}")
        print(f"{mode}: {time.perf_counter() - start:.0f} s", file=sys.stderr)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(run, MODES))
    print("\n".join(errors))
    print(f"{'check':{width}}  " + "  ".join(MODES))
    for name in dict.fromkeys(name for name, _ in results):
        marks = ({True: "ok", False: "FAILED", None: ""}[results.get((name, mode))] for mode in MODES)
        print(f"{name:{width}}  " + "  ".join(f"{mark:{len(mode)}}" for mark, mode in zip(marks, MODES)))
    passed = sum(results.values())
    print(f"{passed} passed, {len(results) - passed} failed")
    return int(passed < len(results) or not results)


if __name__ == "__main__":
    sys.exit(main())
