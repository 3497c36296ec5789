"""Runs abi_conformance (test/abi of the sources: return codes, order on streams, events, memory, graphs) on a library of CANN's names.

A test that crashes or hangs ends the program; it is started again behind that test.
"""

import os
import re
import select
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from softnpu import place

SECONDS = 60.0  # without a word from the program
ONLY_SOFTNPU = "Handle."  # tests of what softnpu promises and the ABI does not: CANN takes any address for a handle


@dataclass
class Test:
    name: str
    status: str = "no answer"  # ok, failed, skipped, crash, hang
    words: list[str] = field(default_factory=list)


class Unusable(RuntimeError):
    """The program or the library cannot be used at all, with the reason."""


def provider(library: Path) -> str:
    return "softnpu" if (library.resolve().parent / "libsoftnpu.so").exists() else "CANN"


def environment(library: Path) -> dict[str, str]:
    """softnpu's cards are as small as the tests need: larger ones change with what other processes leave of the host's memory."""
    return {"SOFTNPU_MEMORY": "1G", **os.environ, "ASCEND_TEST_LIBRARY": str(library)}


def _program() -> Path:
    program = place.conformance_program()
    if not program.exists():
        raise Unusable(f"{program} is missing: GoogleTest was not found when softnpu was built (apt-get install libgtest-dev)")
    return program


def names(library: Path) -> list[str]:
    listed = subprocess.run([_program(), "--gtest_list_tests"], env=environment(library), capture_output=True, text=True)
    if listed.returncode:
        raise Unusable(f"{library} cannot be used: {(listed.stderr or listed.stdout).strip() or f'status {listed.returncode}'}")
    found, suite = [], ""
    for line in listed.stdout.splitlines():
        if line.startswith("  "):
            found.append(suite + line.split()[0])
        elif re.fullmatch(r"[\w/]+\.(\s.*)?", line):
            suite = line.split()[0]
    return [name for name in found if provider(library) == "softnpu" or not name.startswith(ONLY_SOFTNPU)]


def run(library: Path, wanted: list[str], seconds: float = SECONDS) -> Iterator[Test]:
    remaining = list(wanted)
    while remaining:
        before = len(remaining)
        for test in _run_once(library, remaining, seconds):
            remaining.remove(test.name)
            yield test
        if len(remaining) == before:
            raise Unusable(f"{_program()} ended without running a test")


def _run_once(library: Path, wanted: list[str], seconds: float) -> Iterator[Test]:
    command = [str(_program()), "--gtest_filter=" + ":".join(wanted), "--gtest_color=no"]
    current: Test | None = None
    with subprocess.Popen(command, env=environment(library), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in _lines(process, seconds):
            if found := re.match(r"\[ RUN      \] (\S+)", line):
                current = Test(found[1])
            elif current and (found := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] (\S+?)(?:,| \(|$)", line)) and found[2] == current.name:
                current.status = found[1].lower()
                yield current
                current = None
            elif current:
                current.words.append(line)
        hung = process.poll() is None and current is not None and bool(_kill_if_silent(process))
    if current:
        current.status = "hang" if hung else "crash"
        current.words.append(f"no word for {seconds:.0f} s" if hung else f"the program ended with status {process.returncode}")
        yield current


def _kill_if_silent(process: subprocess.Popen) -> bool:
    try:
        process.wait(1)  # it closed its output because it ends
        return False
    except subprocess.TimeoutExpired:
        process.kill()
        return True


def _lines(process: subprocess.Popen, seconds: float) -> Iterator[str]:
    """Until the program ends, or says nothing for that time."""
    assert process.stdout
    pending = b""
    while select.select([process.stdout], [], [], seconds)[0] and (data := os.read(process.stdout.fileno(), 1 << 16)):
        *whole, pending = (pending + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if pending:
        yield pending.decode(errors="replace")


def text(library: Path, tests: list[Test]) -> str:
    """The report: what to send back."""
    counts = {status: sum(test.status == status for test in tests) for status in ("ok", "failed", "crash", "hang", "skipped")}
    result = [f"{provider(library)}: {library}", ", ".join(f"{count} {status}" for status, count in counts.items())]
    for test in tests:
        if test.status != "ok":
            result.append(f"{test.name}: {test.status}")
            # The macro of test/abi that calls a function of the library is of no interest to the reader.
            result += ["    " + re.sub(r'\(test::symbol<decltype\((\w+)\)>\("\1"\)\)', r"\1", line) for line in test.words]
    return "\n".join(result)
