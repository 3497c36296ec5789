"""Scans C++ and CUDA sources: kernels, CUDA library calls, and the operators that are called from C++."""

import re

from torch_npu.migrate.analysis import operators
from torch_npu.migrate.analysis.operators import Support
from torch_npu.migrate.edits import line_of
from torch_npu.migrate.findings import Finding, Kind
from torch_npu.migrate.project import NATIVE_SUFFIXES as NATIVE_SUFFIXES

_PATTERNS = [
    (re.compile(r"\b__global__\s+(?:\w+[\s*&]+){0,16}?(\w+)\s*\("),
     "a CUDA kernel: write it with torch operators, or as an operator of npu"),
    (re.compile(r"\b(\w+)\s*<<<"), "launches a CUDA kernel"),
    (re.compile(r"\b(cuda[A-Z]\w+|cublas\w+|cudnn[A-Z]\w*|cufft\w+|curand\w+|cusparse\w+|nccl[A-Z]\w+|thrust::\w+|cub::\w+)"),
     "a CUDA library: npu's is the CANN C ABI"),
    (re.compile(r"\b(at::cuda::\w+|c10::cuda::\w+|AT_CUDA_\w+|C10_CUDA_\w+|CHECK_CUDA)\b"),
     "torch's CUDA part: use c10's guards of any device"),
    (re.compile(r"\b(torch::kCUDA|at::kCUDA|DeviceType::CUDA|is_cuda\(\))"), "asks for CUDA: c10::DeviceType::PrivateUse1 is npu"),
]  # fmt: skip
_OPERATOR = re.compile(r"\b(?:at|torch)::(\w+)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def analyse_native(text: str, path: str) -> list[Finding]:
    """What of a C++ or CUDA source does not run on npu as it stands."""
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    findings = []
    for pattern, tip in _PATTERNS:
        findings += [_finding(text, path, match, match.group(1), tip, Kind.CUDA) for match in pattern.finditer(text)]
    for match in _OPERATOR.finditer(text):
        name = f"aten::{match.group(1)}"
        if operators.exists(name) and (support := operators.operator(name).support) is Support.NONE:
            findings.append(_finding(text, path, match, name, f"support: {support}", Kind.UNSUPPORTED))
    return sorted(set(findings))


def native_operators(text: str) -> list[str]:
    """The operators that a C++ source calls as at::name() or torch::name()."""
    return [name for match in _OPERATOR.finditer(_COMMENT.sub(" ", text)) if operators.exists(name := f"aten::{match.group(1)}")]


def _finding(text: str, path: str, match: re.Match, api: str, tip: str, kind: Kind) -> Finding:
    line = line_of(text, match.start())
    return Finding(path, line, line, api, tip, kind)
