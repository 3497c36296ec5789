"""Packages of others, as PyPI has them, on this torch_npu: python3 test/packages/sweep.py [--newest] [NAME...]   (ci/sweep.sh packages)

Each gets a virtual environment in build/packages that sees the running Python's torch and torch_npu, and runs its script on
software cards. Prints a table: package, version, what ran or the reason why it did not. The versions are those of docs/ecosystem.md;
--newest asks for the newest releases instead.
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
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build/packages"
LIMIT = 900  # seconds for a script
# What vllm's wheel requires for CUDA, and a torch that has it.
FOR_CUDA = r"torch|torchaudio|torchvision|torchcodec|PyNv|flashinfer|tilelang|nv|apache-tvm|fastsafe|instantten|quack|tokenspeed|humming"


class Package(NamedTuple):
    version: str
    script: str  # from this folder, with its arguments
    besides: tuple[str, ...] = ()  # what pip is asked for besides
    unusable: tuple[str, ...] = ()  # replaced by an empty module, because the wheels on PyPI need CUDA
    bare: tuple[str, ...] = ()  # installed without what they require, like the package itself; their requirements follow, but for
    left_out: str = ""  # those that match this
    cards: int = 1
    variables: tuple[str, ...] = ()  # of pip's environment, for a package that is built on the spot; it finds the running torch


LIBRARIES = "../models/libraries.py"
PACKAGES = {
    "transformers": Package("5.23.0", "run_transformers.py", ("accelerate==1.15.0",)),
    "accelerate": Package("1.15.0", f"{LIBRARIES} accelerate accelerate_scripts", ("torchdata",), cards=2),
    "peft": Package("0.21.2", f"{LIBRARIES} peft"),
    "safetensors": Package("0.8.0", f"{LIBRARIES} safetensors", cards=2),
    "lightning": Package("2.6.6", f"{LIBRARIES} lightning"),
    "diffusers": Package("0.42.1", f"{LIBRARIES} diffusers"),
    "trl": Package("1.16.0", "run_trl.py"),
    "deepspeed": Package("0.19.8", "run_deepspeed.py", variables=("DS_ACCELERATOR=cpu", "DS_BUILD_OPS=0")),
    "ray": Package("2.60.0", "run_ray.py"),
    "timm": Package("1.0.31", "run_timm.py"),
    "open_clip_torch": Package("3.3.0", "run_open_clip.py"),
    "torch_geometric": Package("2.8.1", "run_torch_geometric.py"),
    "sentence-transformers": Package("6.2.0", "run_sentence_transformers.py", ("datasets", "accelerate==1.15.0")),
    "ultralytics": Package("8.4.190", "run_ultralytics.py"),
    "mmengine": Package("0.10.7", "run_mmengine.py"),
    "llamafactory": Package("0.9.5", "run_llamafactory.py", unusable=("torchaudio",)),
    "ms-swift": Package("4.6.0", "run_swift.py"),
    "lm-eval": Package("0.4.13", "run_lm_eval.py", ("transformers==5.23.0", "accelerate==1.15.0")),
    "verl": Package("0.9.1", "run_verl.py"),
    # Its models are generated from this transformers.
    "veomni": Package("0.1.12", "run_veomni.py", ("transformers==5.9.0", "accelerate", "diffusers==0.37.0")),
    "mindstudio-probe": Package("26.2.0", "run_msprobe.py"),
    "msprof-analyze": Package("26.2.0", "run_msprof_analyze.py"),
    "vllm-ascend": Package(
        "0.30.0rc2", "run_vllm_ascend.py", ("transformers==5.14.1", "decorator", "msgpack", "quart", "scipy", "pandas"),
        bare=("vllm==0.30.0",), left_out=FOR_CUDA, variables=("COMPILE_CUSTOM_KERNELS=0", "SOC_VERSION=ascend910b1"),
    ),
}  # fmt: skip


def prepare(name: str, newest: bool) -> Path:
    """The environment's Python. A torch other than the running one is never installed: a constraint says so."""
    package = PACKAGES[name]
    folder = FOLDER / name
    python, complete = folder / "bin/python", folder / "complete"
    running = {found.name: found.version for found in distributions()}
    pins = [f"{pinned}=={running[pinned]}" for pinned in ("torch", "torchvision") if pinned in running]
    recipe = repr([site.getsitepackages(), pins, package, newest])
    if complete.exists() and complete.read_text() == recipe:
        return python
    venv.create(folder, with_pip=True, clear=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    lines = [f"import site; site.addsitedir({path!r})" for path in site.getsitepackages()]
    (packages / "zz_running_python.pth").write_text("\n".join(lines) + "\n")
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
    variables = {**os.environ, **dict(variable.split("=") for variable in package.variables)}

    def pip(*arguments: str) -> None:
        command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
        subprocess.run(command, env=variables, check=True, capture_output=True, text=True)

    options = ["install", "--prefer-binary", "--no-compile", "-c", str(folder / "constraints.txt")]
    asked = [name if newest else f"{name}=={package.version}", *package.besides]
    if package.variables:
        pip(*options, "setuptools<81", "setuptools-scm", "wheel")
        options.append("--no-build-isolation")
    if package.bare:
        pip(*options, "--no-deps", asked.pop(0), *package.bare)
        asked += [requirement for bare in package.bare for requirement in requirements(packages, bare.partition("=")[0])
                  if not re.match(package.left_out, requirement)]  # fmt: skip
    pip(*options, *asked)
    for module in package.unusable:
        pip("uninstall", "-y", module)
        (packages / f"{module}.py").touch()
    complete.write_text(recipe)
    return python


def requirements(packages: Path, name: str) -> list[str]:
    (found,) = distributions(name=name, path=[str(packages)])
    return found.requires or []


def run(name: str, newest: bool) -> tuple[bool, str]:
    log = FOLDER / f"{name}.log"
    try:
        python = prepare(name, newest)
    except subprocess.CalledProcessError as error:
        log.write_text(error.stdout + error.stderr)
        return False, f"pip: {last_line(error.stderr)} ({log})"
    # Kernels of so few elements take one thread: two would wait for each other on a machine that has other work.
    environment = {**os.environ, "SOFTNPU_DEVICES": str(PACKAGES[name].cards), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                   "TORCH_NPU_FALLBACK_CPU_DISABLE": "1", "SOFTNPU_STRICT": "1"}  # fmt: skip
    script, *arguments = PACKAGES[name].script.split()
    command = ["timeout", str(LIMIT), python, HERE / script, *arguments]  # which ends the processes of the script, too
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)
    log.write_text(done.stdout + done.stderr)
    if done.returncode == 0 and (found := re.findall(r"^ok: (.*)", done.stdout, re.MULTILINE)):
        return True, "; ".join(found)
    failed = "; ".join(re.findall(r"^FAIL: (.*)", done.stdout, re.MULTILINE))
    reason = f"no end after {LIMIT} seconds" if done.returncode == 124 else failed or last_line(done.stderr)
    return False, f"{reason} ({log})"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")[:300]


def main() -> None:
    newest = "--newest" in sys.argv
    names = [word for word in sys.argv[1:] if word != "--newest"] or list(PACKAGES)
    if unknown := set(names) - PACKAGES.keys():
        sys.exit(f"unknown package {', '.join(sorted(unknown))}; there are: {', '.join(PACKAGES)}")
    if find_spec("torch_npu") is None:
        sys.exit(f"{sys.executable} has no torch_npu; install it there, or call this script with the Python that has it")
    failed = 0
    for name in names:
        ok, text = run(name, newest)
        failed += not ok
        print(f"{name:21} {'ok  ' if ok else 'FAIL'} {text}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
