"""Writes what was found: CSV files under the names users of the tool know, a log, and one HTML page."""

import csv
from pathlib import Path

from torch_npu.migrate import html
from torch_npu.migrate.findings import FileResult, Kind

FOLDER = "transplant_result_file"
LOG = "msFmkTranspltlog.txt"
HEADER = ("File", "Start Line", "End Line", "OP", "Tips")


def cell(value: object) -> object:
    """A cell of a CSV file. A text that a spreadsheet would take for a formula gets an apostrophe, which it does not show."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def write(folder: Path, results: list[FileResult], title: str, log: list[str]) -> None:
    """All report files of a run. They end read-only: they describe the run, and no later state."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in Kind:
        _write_csv(folder / f"{kind.value}.csv", kind, results)
    errors = [f"ERROR {result.path}: {result.error}" for result in results if result.error]
    (folder / LOG).write_text("\n".join([*log, *errors]) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(html.page(title, results, log), encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o440)


def _write_csv(path: Path, kind: Kind, results: list[FileResult]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for result in results:
            for finding in result.findings:
                if finding.kind is kind:
                    writer.writerow(map(cell, (finding.file, finding.line, finding.end_line, finding.api, finding.tip)))
