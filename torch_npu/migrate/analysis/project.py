"""Analyses a file or folder: the coverage table on the terminal, JSON for CI, and the report files."""

import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from torch_npu.migrate import project, report
from torch_npu.migrate.analysis import advice, apis
from torch_npu.migrate.analysis.dtypes import DIFFERS, dtypes_of
from torch_npu.migrate.analysis.native import NATIVE_SUFFIXES, analyse_native, native_operators
from torch_npu.migrate.analysis.operators import Support
from torch_npu.migrate.analysis.python import Analysis, analyse_python
from torch_npu.migrate.findings import FileResult, Kind
from torch_npu.migrate.progress import Progress
from torch_npu.migrate.project import Output, Refusal, Source

_MAX_PACKAGE_FILES = 2000
_SUFFIXES = {".py", ".ipynb", *NATIVE_SUFFIXES}


def run(root: Path, out: Path | None, json_file: Path | None, fail_on: str, third_party: bool, force: bool,
        confirm: Callable[[Path], bool] | None, progress: Progress) -> int:  # fmt: skip
    """Returns the exit code: 1 if a file cannot be read, or if `fail_on` is met."""
    if not root.exists():
        raise Refusal(f"the input {root} does not exist")
    output = Output(out / f"{root.resolve().stem}_analysis", root, force, confirm) if out else None
    try:
        started = time.monotonic()
        entries = [entry for entry in project.sources(root) if entry.suffix in _SUFFIXES]
        analyses = list(analyse(progress.over(entries)))
        result = summarise(analyses, time.monotonic() - started)
        if third_party:
            result["third_party"] = read_packages(analyses)
        if output is not None:
            _write(output, root, analyses, result)
    finally:
        if output is not None:
            output.close()
    text = json.dumps(result, indent=1)
    if json_file is not None and str(json_file) == "-":
        print(text)
    else:
        if json_file is not None:
            json_file.write_text(text + "\n")
        print(table(result))
    return exit_code(result["support"], fail_on) or (1 if result["errors"] else 0)


def exit_code(counts: dict[str, int], fail_on: str) -> int:
    bad = {"unsupported": ("none",), "fallback": ("none", "fallback"), "never": ()}[fail_on]
    return 1 if any(counts.get(name, 0) for name in bad) else 0


def analyse(sources: Iterable[Source]) -> Iterable[Analysis]:
    for entry in sources:
        if entry.problem:
            yield Analysis(entry.shown, error=entry.problem)
            continue
        try:
            data = project.read(entry)
            text = project.decode(data)[0] if entry.suffix == ".py" else data.decode("utf-8", errors="replace")
        except (OSError, SyntaxError, LookupError, UnicodeError) as error:
            yield Analysis(entry.shown, error=str(error))
            continue
        if entry.suffix == ".py":
            yield analyse_python(text, entry.shown)
        else:
            yield _native(text, entry.shown)


def _native(text: str, path: str) -> Analysis:
    from torch_npu.migrate.analysis.uses import Use

    uses = [Use(name, 0, 0, True) for name in native_operators(text)]
    return Analysis(path, uses, analyse_native(text, path), lines=text.count("\n"))


def summarise(analyses: list[Analysis], seconds: float) -> dict:
    """The result as it is written to JSON."""
    certain = Counter(use.api for analysis in analyses for use in analysis.uses if use.certain)
    possible = Counter(use.api for analysis in analyses for use in analysis.uses if not use.certain)
    rows = []
    for counter, is_certain in ((certain, True), (possible, False)):
        for api, count in sorted(counter.items()):
            found = [] if api.startswith("torch.cuda.") else _operators(api)
            if not found and not is_certain:
                continue
            reachable = [op.support for op in found if op.support is not Support.NONE]
            worst = max(reachable) if reachable else (Support.NONE if found else None)
            rows.append({
                "api": api, "uses": count, "certain": is_certain, "support": str(worst) if worst is not None else "",
                "dtypes": (kinds := dtypes_of(api, worst)),
                "refused_by_hardware": {dtype: socs for dtype, socs in advice.HARDWARE.items() if dtype in kinds},
                "operators": [{"name": op.name, "support": str(op.support), "dtypes": dtypes_of(op.name, op.support)} for op in found],
            })  # fmt: skip
    lines = sum(analysis.lines for analysis in analyses)
    findings = [finding for analysis in analyses for finding in analysis.findings]
    unsupported = [finding for finding in findings if finding.kind is Kind.UNSUPPORTED]
    support = dict(Counter(row["support"] for row in rows if row["support"] and (row["certain"] or row["support"] != "none")))
    support["none"] = len({finding.api for finding in unsupported})
    return {
        "files": len(analyses),
        "lines": lines,
        "seconds": round(seconds, 3),
        "support": support,
        "apis": rows,
        "findings": [
            {"file": f.file, "line": f.line, "kind": f.kind.value, "api": f.api, "tip": f.tip} for f in findings
        ],
        "errors": [{"file": analysis.path, "error": analysis.error} for analysis in analyses if analysis.error],
    }


def _operators(api: str):
    if api.startswith("aten::"):
        from torch_npu.migrate.analysis.operators import operator

        return [operator(api)]
    return apis.operators_of(api)


def _common_limits() -> str:
    names = {dtype: advice.HARDWARE[dtype].replace("every Ascend chip", "all Ascend chips") for dtype in ("float64", "bfloat16")}
    return "; ".join(f"{socs} refuse {dtype}" for dtype, socs in names.items())


def table(result: dict) -> str:
    """What a person reads: APIs that do not simply run on npu, then counts."""
    lines = []
    for row in result["apis"]:
        if row["support"] in ("fallback", "none") and row["certain"]:
            lines.append(f"{row['support']:<10} {row['api']}")
        if row["certain"] and (different := [dtype for dtype, how in row["dtypes"].items() if how == DIFFERS]):
            lines.append(f"{DIFFERS:<10} {row['api']}: not as on the CPU in {', '.join(different)}")
    told = (Kind.UNSUPPORTED.value, Kind.UNKNOWN.value, Kind.CUDA.value)
    for finding in result["findings"]:
        if finding["kind"] in told:
            lines.append(f"{finding['kind']:<15} {finding['file']}:{finding['line']} {finding['api']}: {finding['tip']}")
    float64 = sum(finding["kind"] == Kind.PRECISION.value for finding in result["findings"])
    lines += [f"warning: {float64} places touch precision (float64, TF32), see api_precision_advice"] if float64 else []
    if any(row["certain"] and "float64" in row["refused_by_hardware"] for row in result["apis"]):
        lines.append(f"note: dtypes are what softnpu takes; {_common_limits()}, see refused_by_hardware in the JSON")
    lines += [f"error      {error['file']}: {error['error']}" for error in result["errors"]]
    for name, found in result.get("third_party", {}).items():
        missing = f", not supported: {', '.join(found['unsupported'])}" if found["unsupported"] else ""
        kernels = f", CUDA code in {', '.join(found['kernels'])}" if found["kernels"] else ""
        lines.append(f"package    {name}: {found['files']} files, {found['cuda']} uses of torch.cuda{kernels}{missing}")
    counts = ", ".join(f"{result['support'].get(str(kind), 0)} {kind}" for kind in Support)
    lines.append(f"{result['files']} files, {result['lines']} lines in {result['seconds']:.1f} s; torch APIs: {counts}")
    return "\n".join(lines)


def read_packages(analyses: list[Analysis]) -> dict[str, dict]:
    """Reads the sources of the installed packages that the project imports, without importing them."""
    from importlib.machinery import PathFinder

    own = {Path(analysis.path).parts[0].removesuffix(".py") for analysis in analyses}
    others = own | set(sys.stdlib_module_names) | {"torch", "torch_npu"}
    names = sorted({name for analysis in analyses for name in analysis.packages} - others)
    found = {}
    for name in names:
        spec = PathFinder.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            continue
        root = Path(list(spec.submodule_search_locations)[0])
        entries = [entry for entry in project.sources(root) if entry.suffix in {".py", *NATIVE_SUFFIXES}][:_MAX_PACKAGE_FILES]
        read = list(analyse(entries))
        uses = Counter(use.api for analysis in read for use in analysis.uses if use.certain)
        findings = [finding for analysis in read for finding in analysis.findings]
        missing = sorted({finding.api for finding in findings if finding.kind is Kind.UNSUPPORTED})
        found[name] = {
            "files": len(read),
            "cuda": sum(count for api, count in uses.items() if api.startswith("torch.cuda")),
            "kernels": sorted({f.file for f in findings if f.kind is Kind.CUDA and Path(f.file).suffix in NATIVE_SUFFIXES}),
            "unsupported": missing,
        }
    return found


def _write(output: Output, root: Path, analyses: list[Analysis], result: dict) -> None:
    tree = output.work / "tree"
    results = [FileResult(analysis.path, findings=analysis.findings, error=analysis.error) for analysis in analyses]
    log = table(result).splitlines()
    report.write(tree, results, f"{root.name}: what npu supports", log)
    (tree / "analysis.json").write_text(json.dumps(result, indent=1) + "\n")
    _write_support(tree / "api_support.csv", result)
    output.commit(tree)


def _write_support(path: Path, result: dict) -> None:
    """Every API with its support, and the dtypes of the APIs and operators that the sweep knows."""
    names = sorted({dtype for row in result["apis"] for part in (row, *row["operators"]) for dtype in part["dtypes"]})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("API", "Operator", "Uses", "Support", *names))
        for row in result["apis"]:
            writer.writerow((report.cell(row["api"]), "", row["uses"], row["support"], *(row["dtypes"].get(name, "") for name in names)))
            for part in row["operators"]:
                writer.writerow((row["api"], part["name"], "", part["support"], *(part["dtypes"].get(name, "") for name in names)))
