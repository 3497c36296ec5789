"""Packages of others, as PyPI has them, on this torch_npu: python3 test/packages/sweep.py [NAME...]   (ci/sweep.sh packages)

Each gets a virtual environment in build/packages that sees the running Python's torch and torch_npu, and runs its script here on
one software card. Prints a table: package, version, what ran or the reason why it did not.
"""

import os
import re
import site
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build/packages"
# name on PyPI: (script, what pip is asked for besides, what is replaced by an empty module because its wheels on PyPI need CUDA)
PACKAGES = {
    "mmengine": ("run_mmengine.py", [], []),
    "llamafactory": ("run_llamafactory.py", [], ["torchaudio"]),
    "ms-swift": ("run_swift.py", [], []),
    "lm-eval": ("run_lm_eval.py", ["transformers", "accelerate"], []),
    "verl": ("run_verl.py", [], []),
    "veomni": ("run_veomni.py", ["transformers", "accelerate", "diffusers==0.37.0"], []),
    "mindstudio-probe": ("run_msprobe.py", [], []),
}


def prepare(name: str) -> Path:
    """The environment's Python. A torch other than the running one is never installed: a constraint says so."""
    _, besides, unusable = PACKAGES[name]
    folder = FOLDER / name
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return python
    venv.create(folder, with_pip=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (packages / "zz_running_python.pth").write_text("\n".join(lines) + "\n")
    pins = [f"{pinned}=={version(pinned)}" for pinned in ("torch", "torchvision")]
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--prefer-binary", "-c", str(folder / "constraints.txt"), name, *besides]
    subprocess.run(install, check=True, capture_output=True, text=True)
    for module in unusable:
        subprocess.run([*pip, "uninstall", "-y", module], check=True, capture_output=True, text=True)
        (packages / f"{module}.py").touch()
    (folder / "complete").touch()
    return python


def run(name: str) -> tuple[bool, str]:
    try:
        python = prepare(name)
        environment = {
            **os.environ, "SOFTNPU_DEVICES": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
            "PATH": os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
        }  # fmt: skip
        done = subprocess.run([python, HERE / PACKAGES[name][0]], env=environment, cwd="/", capture_output=True, text=True, timeout=1800)
    except subprocess.CalledProcessError as error:
        return False, last_line(error.stderr)
    except subprocess.TimeoutExpired:
        return False, "no end after 30 minutes"
    if found := re.search(r"^ok: (.*)", done.stdout, re.MULTILINE):
        return True, found.group(1)
    (FOLDER / f"{name}.log").write_text(done.stdout + done.stderr)
    return False, last_line(done.stderr) + f" (build/packages/{name}.log)"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:300]


def main() -> None:
    names = sys.argv[1:] or list(PACKAGES)
    if unknown := set(names) - PACKAGES.keys():
        sys.exit(f"unknown package {', '.join(sorted(unknown))}; there are: {', '.join(PACKAGES)}")
    failed = 0
    for name in names:
        ok, text = run(name)
        failed += not ok
        print(f"{name:18} {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
