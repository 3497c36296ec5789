"""Converts a file or a folder: every Python source is rewritten, everything else copied, and a report written beside it."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from torch_npu.migrate import project, report
from torch_npu.migrate.analysis.uses import depth, parse
from torch_npu.migrate.findings import FileResult, Kind
from torch_npu.migrate.options import Options
from torch_npu.migrate.progress import Progress
from torch_npu.migrate.project import Output, Refusal, Source

_MAX_DEPTH = 300
_PYTHON_2 = re.compile(rb"^[ \t]*(?:print[ \t]+[^(=\s]|except[ \t]+\w[\w.]*[ \t]*,[ \t]*\w+[ \t]*:|exec[ \t]+['\"])", re.MULTILINE)
_NO_LIBCST = 'conversion needs libcst, which is not installed; cure: pip install "torch_npu[migrate]"'


def run(source: Path, out: Path, options: Options, force: bool = False, confirm: Callable[[Path], bool] | None = None,
        progress: Progress | None = None) -> int:  # fmt: skip
    """Converts `source` to `out` (a file, or the folder in which <name>_msft is made). Returns the exit code.

    A file that cannot be converted is copied as it is and named in the report, and the exit code is 1; the rest is done.
    """
    if importlib.util.find_spec("libcst") is None:
        raise Refusal(_NO_LIBCST)
    if not source.exists():
        raise Refusal(f"the input {source} does not exist")
    if source.is_file() and source.suffix != ".py":
        raise Refusal(f"the input {source} is no Python source; cure: give a .py file or a folder")
    if options.distributed and not (source / options.main_file if source.is_dir() else source).is_file():
        raise Refusal(f"the main file {options.main_file} does not exist below {source}; cure: name it with `distributed -m`")
    if source.is_dir():
        final = out / f"{source.resolve().name}_msft{'_multi' if options.distributed else ''}"
    else:
        final = out / source.name if out.is_dir() else out
    output = Output(final, source, force, confirm)
    try:
        return _convert(source, output, options, progress or Progress())
    finally:
        output.close()


def _convert(source: Path, output: Output, options: Options, progress: Progress) -> int:
    started, results = time.monotonic(), []
    tree = output.work / "tree"
    tree.mkdir()
    for entry in progress.over(project.sources(source)):
        is_main = options.distributed and (not source.is_dir() or Path(entry.path) == Path(options.main_file))
        results.append(_convert_file(entry, tree, options, is_main))
    lines = sum(result.before.count("\n") for result in results)
    log = [
        f"input {source}",
        f"output {output.final}",
        f"{len(results)} files, {lines} lines, {sum(result.changed for result in results)} files changed, "
        f"{time.monotonic() - started:.1f} s",
    ]
    title = f"{source.name} from CUDA to npu"
    if source.is_dir():
        if options.distributed:
            _write_run_script(tree, options.main_file)
        folder = output.final / report.FOLDER
        report.write(tree / report.FOLDER, results, title, log)
        output.commit(tree)
    else:
        folder = output.final.parent / f"{output.final.stem}_{report.FOLDER}"
        report.write(output.work / "report", results, title, log)
        if folder.exists():
            shutil.rmtree(folder)
        output.commit(tree / source.name)
        (output.work / "report").replace(folder)
        if options.distributed:
            _write_run_script(output.final.parent, output.final.name)
    print(f"reports: {folder}")
    counts = Counter(finding.kind for result in results for finding in result.findings)
    print("; ".join([log[-1], *(f"{counts[kind]} {kind.value}" for kind in Kind if counts[kind])]))
    if counts[Kind.UNSUPPORTED]:
        print(f"warning: {counts[Kind.UNSUPPORTED]} uses of APIs that npu does not have were left as they are, see "
              f"{folder / Kind.UNSUPPORTED.value}.csv")  # fmt: skip
    if counts[Kind.PRECISION]:
        print(f"warning: {counts[Kind.PRECISION]} places touch precision (float64, TF32), see {Kind.PRECISION.value}.csv")
    failed = [result for result in results if result.error and result.path.endswith((".py", ".ipynb"))]
    for result in failed:
        print(f"{result.path}: {result.error}", file=sys.stderr)
    return 1 if failed else 0


def _convert_file(entry: Source, tree: Path, options: Options, is_main: bool) -> FileResult:
    target = tree / entry.path
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.problem:
        if not entry.absolute.is_symlink() and entry.absolute.is_file():
            shutil.copy2(entry.absolute, target)
        return FileResult(entry.shown, error=entry.problem)
    try:
        if entry.suffix == ".py":
            source = project.read(entry)
            result = _convert_python(source, entry.shown, options, is_main)
            target.write_bytes(source if result.error else result.data)
            shutil.copymode(entry.absolute, target)
        else:
            shutil.copy2(entry.absolute, target)
            result = _scan_other(entry)
    except OSError as error:
        return FileResult(entry.shown, error=f"cannot be read: {error.strerror}")
    return result


def _convert_python(source: bytes, path: str, options: Options, is_main: bool) -> FileResult:
    from torch_npu.migrate.analysis import analyse_python
    from torch_npu.migrate.converter import convert_source

    if problem := _problem(source):
        return FileResult(path, error=problem)
    try:
        result = convert_source(source, path, options, is_main)
    except Exception as error:  # whatever a source does to the parser, the other files are converted
        return FileResult(path, error=str(error).partition("\n")[0] or type(error).__name__)
    analysed = analyse_python(result.before, path)
    # What the converter has changed or refused is its own affair.
    known = {(finding.line, finding.kind) for finding in result.findings}
    extra = [finding for finding in analysed.findings if (finding.line, finding.kind) not in known]
    result.findings = sorted([*result.findings, *extra])
    return result


def _problem(source: bytes) -> str:
    """Why a source is not to be converted. libcst's parser crashes on sources that nest too deeply, so Python's comes first."""
    try:
        tree = parse(project.decode(source)[0])
    except UnicodeDecodeError as error:
        return f"not text in the encoding it declares ({error.encoding}): byte {error.start}"
    except SyntaxError as error:
        if _PYTHON_2.search(source):
            return f"line {error.lineno}: Python 2 source; cure: convert it to Python 3 first (2to3)"
        place = f"line {error.lineno}: " if error.lineno else ""
        return f"{place}syntax error: {error.msg}"
    except LookupError as error:
        return f"its coding line names no encoding of text: {error}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"syntax error: {str(error) or type(error).__name__}"
    return "" if depth(tree) <= _MAX_DEPTH else f"nests deeper than {_MAX_DEPTH} levels: copied as it is"


def _scan_other(entry: Source) -> FileResult:
    from torch_npu.migrate.analysis import NATIVE_SUFFIXES, analyse_native

    if entry.suffix not in NATIVE_SUFFIXES:
        return FileResult(entry.shown)
    text = project.read(entry).decode("utf-8", errors="replace")
    return FileResult(entry.shown, text, text, analyse_native(text, entry.shown))


def _write_run_script(folder: Path, main: str) -> None:
    from torch_npu.migrate.distributed import RUN_SCRIPT

    script = folder / "run_distributed_npu.sh"
    script.write_bytes(os.fsencode(RUN_SCRIPT.format(main=shlex.quote(os.path.join(".", main)))))
    script.chmod(0o755)
