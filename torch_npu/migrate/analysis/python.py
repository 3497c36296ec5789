"""Analyses one Python source: its uses of torch, and what there is to say about them."""

from dataclasses import dataclass, field

from torch_npu.migrate import cuda_names
from torch_npu.migrate.analysis import advice, apis
from torch_npu.migrate.analysis.operators import Support
from torch_npu.migrate.analysis.uses import Imports, Use, find_uses, parse
from torch_npu.migrate.findings import Finding, Kind


@dataclass
class Analysis:
    path: str
    uses: list[Use] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    packages: dict[str, int] = field(default_factory=dict)
    error: str = ""
    lines: int = 0


def analyse_python(text: str, path: str) -> Analysis:
    """Raises nothing for a bad source: `error` says what is wrong with it."""
    lines = text.count("\n")
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        place = f"line {line}: " if (line := getattr(error, "lineno", None)) else ""  # not always known
        return Analysis(path, error=f"{place}{getattr(error, 'msg', error)}", lines=lines)
    imports = Imports(tree)
    uses = [use for use in find_uses(tree, imports) if not use.rebound or apis.is_known(use.api)]
    analysis = Analysis(path, uses, packages=imports.packages, lines=lines)
    findings = {finding for use in analysis.uses for finding in _judge(use, path)}
    for package, line in imports.packages.items():
        if package in advice.CUDA_PACKAGES:
            findings.add(Finding(path, line, line, package, advice.CUDA_PACKAGES[package], Kind.CUDA))
    analysis.findings = sorted(findings)
    return analysis


def _judge(use: Use, path: str) -> list[Finding]:
    def finding(kind: Kind, tip: str) -> Finding:
        return Finding(path, use.line, use.end_line, use.api, tip, kind)

    found = []
    for rules, kind in ((advice.PRECISION, Kind.PRECISION), (advice.PERFORMANCE, Kind.PERFORMANCE), (advice.CUDA_APIS, Kind.CUDA)):
        if use.api in rules:
            found.append(finding(kind, rules[use.api]))
    if other := advice.affinity(use.api):
        found.append(finding(Kind.AFFINITY, other))
    if not use.certain:
        return found
    if use.api.startswith("torch.cuda."):
        if cuda_names.on_npu(use.api) is None and apis.is_known(use.api):
            found.append(finding(Kind.UNSUPPORTED, cuda_names.why_not(use.api)))
    elif not apis.is_known(use.api):
        found.append(finding(Kind.UNKNOWN, "this release of torch has no such name"))
    elif apis.support_of(use.api) is Support.NONE:
        found.append(finding(Kind.UNSUPPORTED, "neither npu nor the CPU has the operator"))
    return found
