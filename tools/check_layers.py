#!/usr/bin/env python3
"""Checks the direction of dependencies: in the sources and, with a build folder as argument, in the libraries."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# folder: the folders it may include besides itself. abi/ is open to all; csrc/ and softnpu/ never meet.
MAY_INCLUDE = {
    "abi": [],
    "csrc/acl": [],
    "csrc/runtime": ["csrc/acl"],
    "csrc/memory": ["csrc/acl", "csrc/runtime"],
    "csrc/graph": ["csrc/acl", "csrc/runtime", "csrc/memory", "csrc/profiler"],
    "csrc/interface": ["csrc/acl", "csrc/runtime", "csrc/memory"],
    "csrc/profiler": ["csrc/acl", "csrc/runtime"],
    "csrc/dump": ["csrc/acl", "csrc/runtime"],
    "csrc/aclnn": ["csrc/acl", "csrc/runtime", "csrc/memory", "csrc/profiler", "csrc/dump"],
    "csrc/ops": ["csrc/acl", "csrc/runtime", "csrc/memory", "csrc/aclnn", "csrc/ops/checks"],
    "csrc/ops/checks": [],
    "csrc/ops/families": ["csrc/acl", "csrc/runtime", "csrc/memory", "csrc/profiler", "csrc/aclnn", "csrc/ops", "csrc/ops/checks"],
    "csrc/ops/layouts": ["csrc/acl", "csrc/runtime", "csrc/aclnn", "csrc/ops", "csrc/ops/families"],
    "csrc/autocast": ["csrc/acl", "csrc/runtime"],
    "csrc/distributed": ["csrc/acl", "csrc/runtime", "csrc/profiler"],
    "csrc/python": ["csrc/acl", "csrc/runtime", "csrc/memory", "csrc/ops", "csrc/ops/families", "csrc/autocast", "csrc/distributed",
                    "csrc/graph", "csrc/profiler", "csrc/dump", "csrc/aclnn"],
    "softnpu/runtime": [],
    "softnpu/kernels/engine": ["softnpu/runtime"],
    "softnpu/kernels/families": ["softnpu/runtime", "softnpu/kernels/engine"],
    "softnpu/comm": ["softnpu/runtime"],
    "softnpu/entry": ["softnpu/runtime", "softnpu/comm"],
    "softnpu/shims": [],
}
TORCH = re.compile(r"(ATen|c10|torch|caffe2|torchgen)/")
PYTHON = re.compile(r"Python\.h|pybind11/|torch/(extension\.h|csrc/([A-Z]\w*\.h|utils/(pybind|python|device_lazy)))")
# pattern: (what it is, the only files or folders that may contain it)
CONFINED = {
    r"\bgetenv\s*\(|\bget_env\s*\(|\benviron\b":
        ("an environment read", ["csrc/acl/config.cpp", "softnpu/runtime/config.cpp"]),
    r"\bdlopen\s*\(":
        ("a dlopen", ["csrc/acl/library.cpp", "softnpu"]),
    r"\.cpu\(\)|\bkCPU\b":
        ("CPU tensor work", ["csrc/ops/families/copy.cpp", "csrc/ops/fallback.cpp", "csrc/ops/layouts/fallback.cpp",
                              "csrc/distributed/host_values.cpp", "csrc/python", "softnpu"]),
}


def included_folder(source, name):
    """The repository folder that an include of `source` reaches, None for the system's and torch's."""
    side = ROOT / source.relative_to(ROOT).parts[0]
    for base in (source.parent, side, ROOT / "abi"):
        if (base / name).is_file():
            return (base / name).resolve().parent.relative_to(ROOT).as_posix()
    return None


def check_file(source):
    folder = source.parent.relative_to(ROOT).as_posix()
    path = source.relative_to(ROOT).as_posix()
    if folder not in MAY_INCLUDE:
        yield f"{path}: folder {folder} is not in the table of tools/check_layers.py"
        return
    text = source.read_text()
    for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.MULTILINE):
        target = included_folder(source, name)
        if target and target not in ("abi", folder, *MAY_INCLUDE[folder]):
            yield f"{path}: {folder} must not include {target} ({name})"
        if TORCH.match(name) and not folder.startswith("softnpu/kernels/") and not folder.startswith("csrc/"):
            yield f"{path}: only csrc and softnpu/kernels may include torch ({name})"
        if PYTHON.match(name) and folder != "csrc/python":
            yield f"{path}: only csrc/python may include Python ({name})"
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    for pattern, (what, homes) in CONFINED.items():
        if re.search(pattern, code) and not any(path == home or path.startswith(home + "/") for home in homes):
            yield f"{path}: {what} belongs in {', '.join(homes)}"


def check_libraries(build):
    """libsoftnpu.so stays free of torch; only libopapi.so may need it. The adapter links no library of CANN's."""
    for library in sorted(build.glob("torch_npu/**/*.so")):
        dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
        for needed in re.findall(r"NEEDED.*\[(\S+)\]", dynamic):
            softnpu = "softnpu" in library.relative_to(build).parts
            if softnpu and library.name != "libopapi.so" and re.match(r"libtorch|libc10", needed):
                yield f"{library.name}: must not need {needed}"
            if not softnpu and re.match(r"lib(ascendcl|softnpu|opapi|nnopbase|hccl|acl_)", needed):
                yield f"{library.name}: must not need {needed}, the provider is chosen at run time"


def main():
    sources = [path for side in ("abi", "csrc", "softnpu") for path in sorted((ROOT / side).rglob("*"))
               if path.suffix in (".h", ".cpp")]
    problems = [problem for source in sources for problem in check_file(source)]
    if len(sys.argv) > 1:
        problems += check_libraries(Path(sys.argv[1]))
    print("\n".join(problems) or f"layers: {len(sources)} files respect the table")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
