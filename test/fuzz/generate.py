"""Writes the table of the fuzz driver from abi/: every prototype of the headers and every operator of the tables.

    FUNCTION("aclrtMalloc", "aclError", "void** devPtr;size_t size;aclrtMemMallocPolicy policy")
    OPERATOR("aclnnAdd", "Tensor self;Tensor other;Scalar alpha;Tensor! out")
    LEGACY("Swish", "Tensor x;Tensor! y;float scale")
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tools"))
from codegen import aclnn, entries, tables  # noqa: E402

# Names without a prototype are typedefs of functions; by-value structures of 64 bytes travel in memory and are left out.
BY_VALUE = ("aclrtIpcEventHandle", "aclmdlRICondTaskParams")


def prototypes(header: Path):
    text = re.sub(r"//[^\n]*", "", header.read_text())
    for match in re.finditer(r"^((?:const )?\w+ ?\*? ?)(\w+)\(([^()]*)\);", text, re.M):
        parameters = [" ".join(p.split()) for p in match[3].split(",")]
        parameters = [p for p in parameters if p not in ("void", "...") and p.split()[0] not in BY_VALUE]
        yield match[2], match[1].strip(), ";".join(parameters)


def main(out: Path) -> None:
    lines = []
    for name in ("acl.h", "aclnn.h", "hccl.h"):
        lines += [f'FUNCTION("{n}", "{result}", "{p}")' for n, result, p in prototypes(root / "abi" / name)]
    for signature in aclnn.load(root / "abi").values():
        arguments = ";".join(f"{a.type}{'!' if a.written else ''} {a.name}" for a in signature.arguments)
        lines.append(f'OPERATOR("{signature.name}", "{arguments}")')
    for file in sorted((root / "softnpu/kernels/tables").glob("*.yaml")):
        for signature in entries.legacy_signatures(tables.read(file)).values():
            arguments = ";".join(f"{a.type}{'!' if a.written else ''} {a.name}" for a in signature.arguments)
            lines.append(f'LEGACY("{signature.name}", "{arguments}")')
    aclnn.write_if_changed(out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
