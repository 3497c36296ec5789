"""Packages of others, as PyPI has them, on this torch_npu: python3 test/packages/sweep.py [NAME...]   (ci/sweep.sh packages)

Each gets a virtual environment in build/packages that sees the running Python's torch and torch_npu, and runs its script here on
software cards. Prints a table: package, version, what ran or the reason why it did not. Without build/packages it takes the
newest releases.
"""

import os
import re
import site
import subprocess
import sys
import venv
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build/packages"
LIMIT = 900  # seconds for a script
# name on PyPI: (script, what pip is asked for besides, what is replaced by an empty module because its wheels on PyPI need CUDA)
PACKAGES = {
    "mmengine": ("run_mmengine.py", [], []),
    "llamafactory": ("run_llamafactory.py", [], ["torchaudio"]),
    "ms-swift": ("run_swift.py", [], []),
    "lm-eval": ("run_lm_eval.py", ["transformers", "accelerate"], []),
    "verl": ("run_verl.py", [], []),
    # Its models are generated from this transformers.
    "veomni": ("run_veomni.py", ["transformers==5.9.0", "accelerate", "diffusers==0.37.0"], []),
    "mindstudio-probe": ("run_msprobe.py", [], []),
    "msprof-analyze": ("run_msprof_analyze.py", [], []),
}


def prepare(name: str) -> Path:
    """The environment's Python. A torch other than the running one is never installed: a constraint says so."""
    _, besides, unusable = PACKAGES[name]
    folder = FOLDER / name
    python, complete = folder / "bin/python", folder / "complete"
    running = {found.name: found.version for found in distributions()}
    pins = [f"{pinned}=={running[pinned]}" for pinned in ("torch", "torchvision") if pinned in running]
    recipe = repr([site.getsitepackages(), pins, besides, unusable])
    if complete.exists() and complete.read_text() == recipe:
        return python
    venv.create(folder, with_pip=True, clear=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (packages / "zz_running_python.pth").write_text("\n".join(lines) + "\n")
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--prefer-binary", "--no-compile", "-c", str(folder / "constraints.txt"), name, *besides]
    subprocess.run(install, check=True, capture_output=True, text=True)
    for module in unusable:
        subprocess.run([*pip, "uninstall", "-y", module], check=True, capture_output=True, text=True)
        (packages / f"{module}.py").touch()
    complete.write_text(recipe)
    return python


def run(name: str) -> tuple[bool, str]:
    log = FOLDER / f"{name}.log"
    try:
        python = prepare(name)
    except subprocess.CalledProcessError as error:
        log.write_text(error.stdout + error.stderr)
        return False, f"pip: {last_line(error.stderr)} ({log})"
    # Kernels of so few elements take one thread: two would wait for each other on a machine that has other work.
    environment = {**os.environ, "SOFTNPU_DEVICES": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = ["timeout", str(LIMIT), python, HERE / PACKAGES[name][0]]  # which ends the processes of the script, too
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)
    log.write_text(done.stdout + done.stderr)
    if done.returncode == 0 and (found := re.search(r"^ok: (.*)", done.stdout, re.MULTILINE)):
        return True, found.group(1)
    reason = f"no end after {LIMIT} seconds" if done.returncode == 124 else last_line(done.stderr)
    return False, f"{reason} ({log})"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:300]


def main() -> None:
    names = sys.argv[1:] or list(PACKAGES)
    if unknown := set(names) - PACKAGES.keys():
        sys.exit(f"unknown package {', '.join(sorted(unknown))}; there are: {', '.join(PACKAGES)}")
    if find_spec("torch_npu") is None:
        sys.exit(f"{sys.executable} has no torch_npu; install it there, or call this script with the Python that has it")
    failed = 0
    for name in names:
        ok, text = run(name)
        failed += not ok
        print(f"{name:18} {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
