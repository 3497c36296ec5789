"""The official torch-npu wheel on softnpu, as docs/ci.md says it: python3 test/softnpu_dist/alone.py [--keep] [NAME...]

It is ci/sweep.sh alone.

In build/alone: a fresh virtual environment by the two pip commands of the page, in which the programs of this folder run; then each
recipe's shell lines, as they stand, in an environment and a project of their own. Prints a table. --keep: environments that are there are
used again. Needs the network (or a package index) for torch, the official wheel and transformers.
"""

import os
import subprocess
import sys
import time
import venv
from pathlib import Path

import ci_page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build/alone"
WHEELS = ROOT / "dist"
LIMIT = 1200  # seconds for a step
# program: what pip is asked for besides, the words between `softnpu run` and the program
PROGRAMS = {
    "verification": ([], ["--", "python"]),
    "trainer": (["transformers", "accelerate"], ["--cards", "1", "--", "python"]),
    "ddp": ([], ["--cards", "2", "--", "torchrun", "--nproc_per_node", "2"]),
    "profiler": ([], ["--", "python"]),
    "graph": ([], ["--", "python"]),
    "attention": ([], ["--", "python"]),
    "quant_matmul": ([], ["--", "python"]),
}


class Failed(RuntimeError):
    pass


def environment(folder: Path) -> dict[str, str]:
    """That of a shell with the virtual environment active, and without what the caller's shell knows of a CANN or a checkout."""
    left_out = ("ASCEND_", "SOFTNPU_", "TORCH_NPU_", "TASK_QUEUE_", "PYTHON", "LD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    cards = FOLDER / "cards"  # their memory is not shared with what else runs here
    cards.mkdir(mode=0o700, exist_ok=True)
    return {**kept, "XDG_RUNTIME_DIR": str(cards), "VIRTUAL_ENV": str(folder),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "WHEELS": str(WHEELS),
            "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "HF_HUB_OFFLINE": "1", "SOFTNPU_MEMORY": "2G"}


def shell(script: str, folder: Path, where: Path) -> str:
    """What it prints; as GitHub and GitLab run a script: bash, ended by the first line that fails."""
    command = ["timeout", str(LIMIT), "bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=where, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise Failed(f"status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def prepare(name: str, keep: bool) -> tuple[Path, bool]:
    """A virtual environment, and whether it is a used one."""
    folder = FOLDER / name
    used = keep and (folder / "complete").exists()
    if not used:
        venv.create(folder, with_pip=True, clear=True)
    return folder, used


def programs(names: list[str], keep: bool):
    folder, used = prepare("programs", keep)
    install, verify = ci_page.guide()[:2], ci_page.guide()[2:]
    if not used:
        yield "two pip commands", lambda: shell("\n".join(install), folder, FOLDER) or "installed"
        (folder / "complete").touch()
    yield "the page's first line", lambda: shell("\n".join(verify), folder, FOLDER)
    yield "softnpu info", lambda: shell("softnpu info", folder, FOLDER)
    yield "softnpu conformance", lambda: shell("softnpu conformance", folder, FOLDER).splitlines()[1]
    for name in names:
        besides, words = PROGRAMS[name]
        script = f"softnpu run {' '.join(words)} {HERE / 'programs' / name}.py"
        if besides and not used:
            script = f"pip install {' '.join(besides)}\n{script}"
        yield name, lambda script=script: shell(script, folder, FOLDER)
    yield "softnpu trace", lambda: shell(f"softnpu trace -- python {HERE / 'programs/attention.py'}", folder, FOLDER)


def recipe(wanted: ci_page.Recipe, keep: bool) -> str:
    folder, _ = prepare(wanted.name, keep)
    project = FOLDER / f"{wanted.name}-project"
    for name, text in ci_page.files().items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    printed = "".join(shell(script, folder, project) for script in wanted.scripts)
    (folder / "complete").touch()
    return next(line for line in reversed(printed.splitlines()) if " passed" in line)


def steps(names: list[str], keep: bool):
    """Pairs of a name and a function that returns what to show. A step begins when it is called, not when it is listed."""
    chosen = [name for name in names if name in PROGRAMS]
    if chosen or not names:
        yield from programs(chosen or list(PROGRAMS), keep)
    for found in ci_page.recipes():
        if not names or found.name in names:
            yield f"recipe: {found.name}", lambda found=found: recipe(found, keep)


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "--keep"]
    known = [*PROGRAMS, *(found.name for found in ci_page.recipes())]
    if unknown := set(names) - set(known):
        sys.exit(f"unknown {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    if not list(WHEELS.glob("softnpu-*.whl")):
        sys.exit("dist/ holds no wheel of softnpu; cure: bash ci/build.sh --softnpu")
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = []
    for name, step in steps(names, "--keep" in sys.argv):
        start = time.perf_counter()
        try:
            text, result = step(), "ok"
        except Failed as error:
            text, result = str(error), "FAIL"
            failed.append(name)
        lines = text.strip().splitlines() or [""]
        shown = lines if result == "FAIL" or name.startswith(("softnpu", "the page")) else lines[-1:]
        print(f"{name:24} {result:5} {time.perf_counter() - start:6.1f} s  {shown[0]}", flush=True)
        for line in shown[1:]:
            print(f"    {line}", flush=True)
    print(f"FAILED: {', '.join(failed)}" if failed else "all of it works")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
