"""Records what one client calls:  python record.py PYTHON FILE [--types float32,float16] [--level N] [--cache] [NAME...]

PYTHON has this project's torch_npu or the official one, whose environment must find softnpu's libraries (ci/calls.sh sets it).
FILE gets the lines of SOFTNPU_RECORD. A program that crashes or hangs ends its process; the next one goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 120  # seconds for one program
LIST = """
import json, torch
from torch.testing._internal.common_methods_invocations import op_db
names = {f"{o.name}.{o.variant_test_name}".rstrip("."): o for o in op_db}
print(json.dumps({t: sorted(n for n, o in names.items() if getattr(torch, t) in o.dtypes) for t in %r}))
"""


def names_of(python: str, types: list[str]) -> list[str]:
    sys.path.insert(0, str(HERE))
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    listed = subprocess.run([python, "-c", LIST % types], env=environment, cwd="/", check=True, capture_output=True, text=True).stdout
    found = json.loads(listed.splitlines()[-1])
    models = "mlp cnn gpt llama vit mlp:amp cnn:amp gpt:amp llama:amp vit:amp".split()
    return [f"model:{name}" for name in models] + [f"op:{name}:{dtype}" for dtype in types for name in found[dtype]]


def run(python: str, environment: dict[str, str], names: list[str], first: int) -> tuple[int, int]:
    """Gives the number of the program that ran last and the exit code."""
    command = [python, str(HERE / "programs.py"), str(first), *names]
    child = subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines: queue.Queue = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    at = first
    while True:
        try:
            line = lines.get(timeout=PATIENCE)
        except queue.Empty:
            child.kill()
            continue
        if not line:
            return at, child.wait()
        if line.strip().isdigit():
            at = int(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("python")
    parser.add_argument("file", type=Path)
    parser.add_argument("--types", default="float32")
    parser.add_argument("--level", default="0", help="of the task queue")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    names = options.names or names_of(options.python, options.types.split(","))
    options.file.unlink(missing_ok=True)
    environment = {**os.environ, "SOFTNPU_RECORD": str(options.file.resolve()), "TASK_QUEUE_ENABLE": options.level, "OMP_NUM_THREADS": "1",
                   "TORCH_NPU_FALLBACK_CPU_DISABLE": "0"}
    first, ended = 0, []
    while first < len(names):
        at, code = run(options.python, environment, names, first)
        if at >= len(names):
            break
        if code != 3:
            ended.append(f"{names[at]} ({code})")
        first = at + 1
    print(f"{options.file.name}: {len(names)} programs, {len(ended)} ended their process: {', '.join(ended) or 'none'}")


if __name__ == "__main__":
    main()
