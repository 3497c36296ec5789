#!/usr/bin/env python3
"""Prints how many hand-written lines of C++ and YAML an operator that runs natively on npu costs.

Lines are those of csrc/aclnn, csrc/ops, softnpu/kernels and the operator tables of abi/, without blank lines and comments. Operators
are the overloads of ATen that have an npu kernel in the installed torch_npu.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

import torch_npu  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "operators of the adapter (csrc/aclnn, csrc/ops)": ["csrc/aclnn/*", "csrc/ops/**/*.cpp", "csrc/ops/**/*.h", "csrc/ops/**/*.yaml"],
    "kernels of softnpu (softnpu/kernels)": ["softnpu/kernels/**/*.cpp", "softnpu/kernels/**/*.h", "softnpu/kernels/**/*.yaml"],
    "signatures (abi)": ["abi/aclnn.yaml", "abi/extension.yaml"],
}


def code_lines(path: Path) -> int:
    text = path.read_text()
    if path.suffix != ".yaml":
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    comment = "#" if path.suffix == ".yaml" else "//"
    return sum(1 for line in map(str.strip, text.splitlines()) if line and not line.startswith(comment))


def native_operators() -> list[str]:
    names = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    return sorted(name for name in set(names) if name.startswith("aten::"))


def main() -> None:
    total = 0
    for part, patterns in PARTS.items():
        lines = sum(code_lines(path) for pattern in patterns for path in ROOT.glob(pattern))
        print(f"{lines:6d}  {part}")
        total += lines
    count = len(native_operators())
    print(f"{total:6d}  lines for {count} operators: {total / count:.1f} lines per operator")


if __name__ == "__main__":
    main()
