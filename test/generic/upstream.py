"""torch's own test files, unedited, on npu: python test/generic/upstream.py [--tests FOLDER] [FILE...]

The wheel of torch has no tests, Debian's source package of it has those of an earlier version; they are fetched by name, or taken from
FOLDER. The device-generic classes of each file of upstream.yaml are instantiated for npu (suffix PRIVATEUSE1) by torch, and run with
the CPU fallback forbidden. What fails on npu is run on the CPU: if it fails there too, the file is too old for this torch, and the test is
counted as such. Every other failure must stand in upstream.yaml with its reason; a reason that nothing needs is shown, unless it begins
with "by chance". Ends with code 1 if there is one of either.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import yaml
from upstream_run import neutral

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "pytorch"
SUITE = "trixie"
ARCHIVE = "pytorch_2.6.0+dfsg.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"
SILENCE = 600  # seconds without a line after which a process is ended


def fetch(folder: Path) -> Path:
    """The tests of Debian's source package, unpacked below folder."""
    unpacked = folder / "pytorch"
    if (unpacked / "test").is_dir():
        return unpacked / "test"
    unpacked.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as apt:  # lists and settings of our own: the machine's stay as they are
        sources = Path(apt, "sources.list")
        sources.write_text("deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                           f"http://deb.debian.org/debian {SUITE} main\n")
        Path(apt, "lists/partial").mkdir(parents=True)
        Path(apt, "cache/archives/partial").mkdir(parents=True)
        apt_get = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
                   "-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache"]
        subprocess.run([*apt_get, "update"], check=True, stdout=sys.stderr)
        subprocess.run([*apt_get, "source", "--download-only", PACKAGE], check=True, cwd=apt, stdout=sys.stderr)
        archive = Path(apt, ARCHIVE)
        if hashlib.sha256(archive.read_bytes()).hexdigest() != SHA256:
            sys.exit(f"{ARCHIVE} is not the file that upstream.yaml was written for: change SHA256 here and look at what fails")
        subprocess.run(["tar", "-xf", archive, "-C", unpacked, "--strip-components=1", "--wildcards", "*/test/*"], check=True)
    return unpacked / "test"


def run(file: Path, device: str, report: Path, *options: str) -> dict[str, dict]:
    """Outcomes by the tests' names. A process that ends or is silent costs the test that it was at; another goes on after it."""
    report.unlink(missing_ok=True)
    environment = os.environ | {"TORCH_NPU_FALLBACK_CPU_DISABLE": "1", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    while True:
        process = subprocess.Popen([sys.executable, HERE / "upstream_run.py", file, device, report, *options], env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        why = ""
        size = -1
        while True:
            try:
                _, errors = process.communicate(timeout=SILENCE)
                why = why or f"process ended with {process.returncode}: {errors.strip()[-300:]}"
                break
            except subprocess.TimeoutExpired:
                if size == (size := report.stat().st_size if report.exists() else 0):
                    why = f"nothing for {SILENCE} s"
                    process.kill()
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        if lines and "end" in lines[-1]:
            break
        if not lines or "start" not in lines[-1]:  # not in a test
            lines.append({"id": f"{file.stem}", "outcome": "failed", "detail": why, "seconds": 0})
            break
        with report.open("a") as handle:
            print(json.dumps({"id": lines[-1]["start"], "outcome": "failed", "detail": why, "seconds": 0}), file=handle)
    return {line["id"]: line for line in lines if "id" in line}


def row_of(name: str, count: Counter) -> str:
    return f"{name:32} " + " ".join(f"{count[kind]:8}" for kind in ("passed", "skipped", "CPU too", "expected", "open"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, help="the folder test/ of a source of torch")
    parser.add_argument("--out", type=Path, default=ROOT / "build/sweep/upstream")
    parser.add_argument("--share", type=int, help="every N-th test, for all files")
    parser.add_argument("files", nargs="*", help="files of upstream.yaml, without .py")
    options = parser.parse_args()
    settings = yaml.safe_load((HERE / "upstream.yaml").read_text())
    unknown = set(options.files) - set(settings["files"])
    if unknown:
        parser.error(f"not in upstream.yaml: {', '.join(sorted(unknown))}")
    tests = options.tests or fetch(ROOT / "build/upstream")
    options.out.mkdir(parents=True, exist_ok=True)
    expected = settings["expected"] or {}
    used: set[str] = set()
    total: Counter = Counter()
    open_ones = []
    print(f"{'file':32} {'passed':>8} {'skipped':>8} {'CPU too':>8} {'expected':>8} {'failed':>8} {'s':>6}")
    for name in options.files or settings["files"]:
        share = options.share or settings["files"][name]
        report = options.out / f"{name.replace('/', '.')}.jsonl"
        found = run(tests / f"{name}.py", "npu", report, "--share", str(share))
        failed = {neutral(test): line for test, line in found.items() if line["outcome"] == "failed"}
        twins = {}
        if failed:
            only = report.with_suffix(".failed.json")
            only.write_text(json.dumps(sorted(failed)))
            twins = run(tests / f"{name}.py", "cpu", report.with_suffix(".cpu.jsonl"), "--only", str(only))
        old = {neutral(test) for test, line in twins.items() if line["outcome"] == "failed"}
        count = Counter(line["outcome"] for line in found.values())
        for test, line in failed.items():
            full = f"{name}::{test}"
            row = next((pattern for pattern in expected if fnmatch.fnmatchcase(full, pattern)), None)
            kind = "CPU too" if test in old else "expected" if row else "open"
            used |= {row} if row and kind == "expected" else set()
            count[kind] += 1
            if kind == "open":
                open_ones.append(f"{full}: {line['detail'].splitlines()[0] if line['detail'] else ''}")
        seconds = sum(line["seconds"] for line in found.values())
        print(row_of(name, count), f"{seconds:6.0f}", f" (every {share}th)" if share > 1 else "", flush=True)
        total += count
    print(row_of("all", total))
    whole = not options.share
    ran = set(options.files or settings["files"])
    stale = [pattern for pattern, reason in expected.items()
             if whole and pattern.partition("::")[0] in ran and pattern not in used and not reason.startswith("by chance")]
    for title, lines in (("failed", open_ones), ("stale in upstream.yaml", stale)):
        for line in lines:
            print(f"{title}: {line}")
    return bool(open_ones or stale)


if __name__ == "__main__":
    sys.exit(main())
