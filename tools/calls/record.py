"""Records what one client calls:  python record.py PYTHON FILE [--types float32,float16] [--kinds op,custom] [--level N] [NAME...]

PYTHON has this project's torch_npu or the official one, whose environment must find softnpu's libraries (ci/calls.sh sets it).
FILE gets the lines of SOFTNPU_RECORD. A program that crashes or hangs ends its process; the next one goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 120  # seconds for one program


def names_of(python: str, kinds: str, types: str) -> list[str]:
    command = [python, str(HERE / "programs.py"), "--list", kinds, types]
    return json.loads(subprocess.run(command, cwd="/", check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


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
    parser.add_argument("--types", default="float32", help="of operators, with commas; all")
    parser.add_argument("--kinds", default="model,op", help="of programs, with commas, as programs.py names them; all")
    parser.add_argument("--level", default="0", help="of the task queue")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    names = options.names or names_of(options.python, options.kinds, options.types)
    options.file.unlink(missing_ok=True)
    environment = {**os.environ, "SOFTNPU_RECORD": str(options.file.resolve()), "TASK_QUEUE_ENABLE": options.level, "OMP_NUM_THREADS": "1",
                   "PYTHONHASHSEED": "0",  # some samples are made from sets: both clients get the same ones
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
