"""Is this installation all right: `python -m torch_npu.doctor [--json]`. Each finding says what to do; code 1 when one stops the npu.

It looks at versions, the runtime and why it was chosen, what that lacks, device nodes and rights, libraries that are loaded twice,
variables, and computes something. `python -m torch_npu.verify` then compares whole cards with the CPU.
"""

import argparse
import glob
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

_SERIES = "2.13"  # of torch
_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_CONTAINER = ("--ipc=host --device=/dev/davinci0 --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc "
              "-v /usr/local/Ascend/driver:/usr/local/Ascend/driver")
# What is off when functions of the runtime are missing, by how their names begin.
_FEATURES = {
    "aclmdlRI": "graphs", "aclrtIpcMem": "tensors of other processes", "aclrtReserveMem": "expandable segments",
    "aclrtReleaseMem": "expandable segments", "aclrtMapMem": "expandable segments", "aclrtUnmapMem": "expandable segments",
    "aclrtMallocPhysical": "expandable segments", "aclrtFreePhysical": "expandable segments", "aclrtDeviceGetUuid": "uuids of cards",
    "aclrtGetDeviceUtilizationRate": "torch.npu.utilization()", "aclrtDeviceTaskAbort": "stop_device()",
    "aclrtDeviceCanAccessPeer": "copies between cards without the host", "aclrtSynchronize": "time limits of waiting",
    "aclsysGet": "the version of CANN", "aclrtResetEvent": "events that graphs share",
}


@dataclass
class Finding:
    topic: str
    state: str  # ok, note, bad
    text: str
    cure: str = ""


def findings() -> Iterator[Finding]:
    """All of them, in the order in which one depends on the other. What a check runs into is a finding too."""
    for topic, check in _CHECKS.items():
        try:
            yield from (Finding(topic, *rest) for rest in check())
        except Exception as error:  # a doctor does not fall ill
            yield Finding(topic, "bad", f"{type(error).__name__}: {_said(error)}")


def _said(error: Exception) -> str:
    """The first line; of the card's errors those below too, which say what it is about, but for the one for log searches."""
    import torch

    lines = [line for line in str(error).strip().splitlines() if not line.startswith("[ERROR]")]
    return " ".join(lines if isinstance(error, torch.AcceleratorError) else lines[:1])


def _versions():
    import torch

    import torch_npu

    yield "ok", f"torch_npu {torch_npu.__version__}, torch {torch.__version__}, Python {platform.python_version()} on {platform.platform()}"
    if not torch.__version__.startswith(_SERIES + "."):
        yield "bad", f"torch_npu {torch_npu.__version__} is made for torch {_SERIES}", f"pip install torch=={_SERIES}.0"
    if torch.version.cuda:
        yield "note", f"torch is built for CUDA {torch.version.cuda}", "the CPU build is smaller and does all that the npu needs"


def _runtime():
    import torch_npu
    from torch_npu import _C

    if reason := _C.why_unavailable():
        yield "bad", reason.strip().splitlines()[0], "source CANN's set_env.sh, or unset ASCEND_HOME_PATH and TORCH_NPU_RUNTIME for softnpu"
        return
    soft = torch_npu.is_softnpu()
    forced = os.environ.get("TORCH_NPU_RUNTIME")
    home = os.environ.get("ASCEND_HOME_PATH") or os.environ.get("ASCEND_TOOLKIT_HOME")
    why = f"TORCH_NPU_RUNTIME={forced}" if forced else f"ASCEND_HOME_PATH is {home}" if home else "no CANN is in the environment"
    yield "ok", f"{'softnpu, the software NPU' if soft else 'CANN'} in {_C.runtime_path()}, because {why}"
    missing = _C.missing_functions()
    if missing:
        off = sorted({_FEATURES.get(next((start for start in _FEATURES if name.startswith(start)), ""), name) for name in missing})
        yield "note", f"it lacks {len(missing)} functions, which turns off: {', '.join(off)}", "a newer CANN has them" if not soft else ""
    if soft and glob.glob("/dev/davinci[0-9]*"):
        yield "note", "this machine has Ascend cards, but softnpu is used", "source CANN's set_env.sh before the program"


def _nodes():
    import torch_npu
    from torch_npu import _C

    cards = sorted(glob.glob("/dev/davinci[0-9]*"))
    if _C.why_unavailable() or torch_npu.is_softnpu():
        yield "ok", f"not needed by softnpu; {len(cards)} cards of hardware are here"
        return
    absent = [node for node in _NODES if not os.path.exists(node)] + ([] if cards else ["/dev/davinci0"])
    if absent:
        inside = os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
        cure = f"start the container with {_CONTAINER}" if inside else "install the driver, or ask who administers the machine"
        yield "bad", f"there is no {', '.join(absent)}", cure
    closed = [node for node in (*_NODES, *cards) if os.path.exists(node) and not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        yield "bad", f"no right to read and write {', '.join(closed)}", "add the user to the group HwHiAiUser, then log in again"
    if not absent and not closed:
        yield "ok", f"{len(cards)} cards, and they may be opened"


def _libraries():
    import torch  # noqa: F401  (its libraries are what is looked at)

    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if ".so" in line and "/" in line}
    openmp = sorted(file for file in files if re.search(r"lib(gomp|iomp5|omp)[-.\w]*\.so", file))
    if len(openmp) > 1:
        yield "note", f"two OpenMP runtimes are loaded: {', '.join(openmp)}", "their thread teams fight for the cores: import torch first"
    standard = sorted(file for file in files if re.search(r"libstdc\+\+\.so", file))
    if len(standard) > 1:
        yield "note", f"two libstdc++ are loaded: {', '.join(standard)}", "remove the older one from LD_LIBRARY_PATH"
    if not (len(openmp) > 1 or len(standard) > 1):
        yield "ok", f"one OpenMP ({os.path.basename(openmp[0]) if openmp else 'none'}), one libstdc++"


def _variables():
    from torch_npu._environment import not_numbers, unknown

    found = False
    for name, near in unknown():
        found = True
        yield "note", f"nothing reads {name}", f"did you mean {near}?" if near else "unset it"
    for name in not_numbers():
        found = True
        yield "note", f"{name} takes a number, so {os.environ[name]!r} has no effect", "set a number, or unset it"
    if "GOMP_CPU_AFFINITY" in os.environ:
        found = True
        yield "note", f"GOMP_CPU_AFFINITY={os.environ['GOMP_CPU_AFFINITY']} binds all threads of OpenMP to these cores", "unset it"
    if not found:
        yield "ok", "none that does nothing"


def _computes():
    import torch

    from torch_npu import _C, npu

    if not npu.is_available():
        if not _C.why_unavailable():
            npu.init()  # says why
        yield "bad", "there is no card", "see what stands above"
        return
    torch.manual_seed(0)
    left, right = torch.randn(64, 32), torch.randn(32, 16)
    result = (left.npu() @ right.npu()).relu().cpu()
    if not torch.allclose(result, (left @ right).relu(), rtol=1e-2, atol=1e-2):
        yield "bad", "a product on npu:0 is not that of the CPU", "run python -m torch_npu.verify"
        return
    free, total = npu.mem_get_info()
    yield "ok", f"npu:0 of {npu.device_count()} ({npu.get_device_name()}) computes; {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free"


_CHECKS: dict[str, Callable] = {"versions": _versions, "runtime": _runtime, "device nodes": _nodes, "libraries": _libraries,
                                "variables": _variables, "self-test": _computes}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.doctor", description="Is this installation of torch_npu all right?")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    found = list(findings())
    healthy = all(finding.state != "bad" for finding in found)
    if options.json:
        print(json.dumps({"healthy": healthy, "findings": [asdict(finding) for finding in found]}, indent=2))
    else:
        for finding in found:
            print(f"[{finding.state:>4}] {finding.topic}: {finding.text}")
            if finding.cure:
                print(f"       -> {finding.cure}")
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())
