"""Runs the checks of this folder with the official torch_npu wheel on softnpu; ci/official.sh sets up the environment.

Usage: python run.py [--long] [--mode MODE] [NAME...]. A check is a function `check_*` of a module here, or one of its cases (rows.py);
NAME picks modules or functions. Every mode of MODES, or one, runs them in a process of its own; a module with a line `IN_MODES = (...)`
runs in those only, one with `APART = True`, which changes torch for good, in a process of its own. LONG names modules that take long:
--long, the sweep (ci/sweep.sh official), runs those. A check that fails ends its process, because the official client is unusable after
a failed task, and a new process takes the remaining ones.
"""

import argparse
import ast
import importlib
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODULES = ("wheel", "schemas", "defaults", "device", "copies", "operators", "custom_ops", "randomness", "streams", "graphs", "memory",
           "training", "overflow", "profiling", "distributed", "recovery", "sharing", "allocator", "views", "formats", "recurrent", "amp",
           "autograd", "cards", "optimisers", "contrib")
LONG = ("transfer", "compiled", "profiles", "loading", "ranks", "four_ranks", "environment")
# name -> environment. The client's task queue at its three levels, and softnpu with all work on worker threads and with
# scratch memory for every operator.
MODES = {
    "queue 1": {"TASK_QUEUE_ENABLE": "1"},
    "queue 0": {"TASK_QUEUE_ENABLE": "0"},
    "queue 2": {"TASK_QUEUE_ENABLE": "2"},
    "async": {"SOFTNPU_ASYNC": "1", "SOFTNPU_WORKSPACE": "all"},
}
MEMORY = "1G"  # of softnpu: little, so that running out of it is quick
TIMEOUT = 300  # seconds for one check


class Module:
    """What a module's text says, which need not be imported for it."""

    def __init__(self, name):
        text = (Path(__file__).parent / f"{name}.py").read_text()
        self.functions = [f"{name}.{found}" for found in re.findall(r"^def (check_\w+)", text, re.MULTILINE)]
        constants = dict(re.findall(r"^(IN_MODES|APART) = (.*)$", text, re.MULTILINE))
        self.modes = ast.literal_eval(constants.get("IN_MODES", repr(tuple(MODES))))
        self.apart = "APART" in constants


def chosen_functions(names, chosen, mode):
    """Lists of functions, one for each process of a mode."""
    together, apart = [], []
    for name in names:
        module = Module(name)
        found = [f for f in module.functions if not chosen or {name, f, f.partition(".")[2]} & set(chosen)]
        if mode in module.modes and found:
            apart.append(found) if module.apart else together.extend(found)
    return [*([together] if together else []), *apart]


def run_here(functions, done):
    """The child: lines {"start": check}, {"name": check, ...} on stdout, until the first that fails."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what is printed is no answer
    for name in functions:
        module, _, function = name.partition(".")
        try:
            check = getattr(importlib.import_module(module), function)
            runs = {f"{name}[{case}]": run for case, run in check.cases.items()} if hasattr(check, "cases") else {name: check}
        except BaseException:
            runs = {name: ImportError(traceback.format_exc())}
        for each in [each for each in runs if each not in done]:
            print(json.dumps({"start": each}), file=output)
            start, error = time.perf_counter(), ""
            try:
                if isinstance(runs[each], ImportError):
                    raise runs[each]
                runs[each]()
            except BaseException:
                error = traceback.format_exc()
            print(json.dumps({"name": each, "error": error, "seconds": time.perf_counter() - start}), file=output)
            if error:
                output.flush()
                os._exit(1)


def run_mode(functions, environment):
    """Yields (check, error, seconds). Cards' memory is shared by who has the same runtime folder: each mode has its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SOFTNPU_MEMORY": MEMORY, "XDG_RUNTIME_DIR": folder, **environment}
        done = set()
        while True:
            at = len(done)
            ended = yield from run_process(functions, environment, done, folder)
            if ended or len(done) == at:
                break


def run_process(functions, environment, done, folder):
    """One child in `folder`, where the client leaves files when memory runs out; adds to `done`. True if it came to the end of its list."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen([sys.executable, Path(__file__).resolve(), "--here"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=log, text=True, env=environment, cwd=folder)
        child.stdin.write(json.dumps([functions, sorted(done)]))
        child.stdin.close()
        lines: queue.Queue = queue.Queue()
        reader = threading.Thread(target=lambda: [*map(lines.put, child.stdout), lines.put("")], daemon=True)
        reader.start()
        running, failed = "", False
        while True:
            try:
                line = lines.get(timeout=TIMEOUT)
            except queue.Empty:
                child.kill()
                continue
            if not line:
                break
            news = json.loads(line)
            running = news.get("start", "")
            if "name" in news:
                done.add(news["name"])
                failed = bool(news["error"])
                yield news["name"], news["error"], news["seconds"]
        status = child.wait()
        if running or (status and not failed):  # a crash, a hang, or an end with an error
            log.seek(0)
            done.add(running)
            yield running or "exit", f"the process ended with status {status}\n{log.read()[-2000:]}", 0.0
        return not failed and not running


def main():
    if sys.argv[1:] == ["--here"]:
        return run_here(*json.load(sys.stdin))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    long, chosen, wanted = options.long, options.names, [options.mode] if options.mode else list(MODES)
    modules = [*MODULES, *LONG] if chosen else LONG if long else MODULES
    results, errors, seconds = {}, [], Counter()

    def run(mode):
        start = time.perf_counter()
        for functions in chosen_functions(modules, chosen, mode):
            for name, error, took in run_mode(functions, MODES[mode]):
                results[name, mode] = not error
                seconds[name.partition(".")[0]] += took
                if error:
                    errors.append(f"---- {name}, {mode}\n{error}")
        print(f"{mode}: {time.perf_counter() - start:.0f} s", file=sys.stderr)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(run, wanted))
    print("\n".join(errors))
    print(f"{'module':14}{'checks':>8}{'seconds':>9}  " + "  ".join(f"{mode:>8}" for mode in wanted))
    for module in dict.fromkeys(name.partition(".")[0] for name, _ in results):
        of = {key: passed for key, passed in results.items() if key[0].partition(".")[0] == module}
        cells = []
        for mode in wanted:
            states = [passed for (_, m), passed in of.items() if m == mode]
            cells.append(f"{'' if not states else 'ok' if all(states) else f'{states.count(False)} FAILED':>8}")
        print(f"{module:14}{len({name for name, _ in of}):>8}{seconds[module]:>9.1f}  " + "  ".join(cells))
    passed = sum(results.values())
    print(f"{len({name for name, _ in results})} checks; {len(results)} runs of them in {len({m for _, m in results})} modes: "
          f"{passed} passed, {len(results) - passed} failed")
    return int(passed < len(results) or not results)


if __name__ == "__main__":
    sys.exit(main())
