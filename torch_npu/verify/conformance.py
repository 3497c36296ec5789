"""Runs abi_conformance, the tests of the C ABI that the wheel brings (test/abi), on the provider in use.

A test that crashes or hangs ends the program; it is started again behind that test.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import torch_npu
from torch_npu.verify.process import ending

PROGRAM = Path(torch_npu.__path__[0]) / "lib/abi_conformance"
ABSENT = "this build has no abi_conformance: GoogleTest was not found when it was made"
# Tests of what softnpu promises and the ABI does not: CANN takes any address for a handle.
ONLY_SOFTNPU = ("Handle.",)


def environment(folder: str) -> dict[str, str]:
    """softnpu's cards are as small as the tests need: larger ones change with what other processes leave of the host's memory."""
    return {"SOFTNPU_MEMORY": "1G", **os.environ, "ASCEND_TEST_LIBRARY": str(Path(folder) / "libascendcl.so")}


def names(folder: str, is_softnpu: bool) -> list[str]:
    """Suite.test of every test; empty if the program is not there."""
    if not PROGRAM.exists():
        return []
    listed = subprocess.run([PROGRAM, "--gtest_list_tests"], env=environment(folder), capture_output=True, text=True, timeout=60)
    found, suite = [], ""
    for line in listed.stdout.splitlines():
        if line.startswith("  "):
            found.append(suite + line.split()[0])
        elif re.fullmatch(r"\w+\.(\s.*)?", line):
            suite = line.split()[0]
    return [f"abi.{name}" for name in found if is_softnpu or not name.startswith(ONLY_SOFTNPU)]


def run(wanted: list[str], folder: str, seconds: float, report: Callable[[str, dict], None]) -> None:
    """`seconds` for each test."""
    remaining = [name.removeprefix("abi.") for name in wanted]
    while remaining:
        words: list[str] = []
        current, timed_out, process = "", False, start(remaining, folder)
        begin = time.monotonic()
        for line in lines(process, seconds):
            if line is None:
                timed_out = True
                process.kill()
                break
            if found := re.match(r"\[ RUN      \] (\S+)", line):
                current, words, begin = found[1], [], time.monotonic()
            elif found := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ([\w./]+)( \(|$)", line):
                if found[2] == current:
                    report(f"abi.{current}", outcome(found[1], words, time.monotonic() - begin))
                    remaining.remove(current)
                    current = ""
            else:
                words.append(line)
        code = process.wait()
        if current:
            text = f"no answer in {seconds:.0f} s" if timed_out else f"{ending(code)}: {' '.join(words)[-300:]}"
            report(f"abi.{current}", problem("hang" if timed_out else "crash", text, time.monotonic() - begin))
            remaining.remove(current)
        elif remaining:  # it ended without running a test
            text = f"{ending(code)}: {' '.join(words)[-300:]}"
            for name in remaining:
                report(f"abi.{name}", problem("failed", text, 0.0))
            return


def start(remaining: list[str], folder: str) -> subprocess.Popen:
    command = [str(PROGRAM), f"--gtest_filter={':'.join(remaining)}", "--gtest_color=no"]
    return subprocess.Popen(command, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def lines(process: subprocess.Popen, seconds: float):
    """The lines that it prints; None if there was none for that time."""
    pending = b""
    assert process.stdout
    while True:
        if not select.select([process.stdout], [], [], seconds)[0]:
            yield None
            return
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            return
        *whole, pending = (pending + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)


def outcome(word: str, words: list[str], seconds: float) -> dict:
    if word == "OK":
        return {"status": "ok", "seconds": round(seconds, 4), "attempts": 1}
    text = re.sub(r'\(test::symbol<decltype\((\w+)\)>\("\1"\)\)', r"\1", " ".join(" ".join(words).split()))  # the macro of test/abi
    if word == "SKIPPED":
        return {"status": "skipped", "seconds": round(seconds, 4), "attempts": 0, "note": text[-200:]}
    return problem("wrong", text[:600], seconds)


def problem(status: str, text: str, seconds: float) -> dict:
    entry = {"status": status, "form": "", "arguments": "", "text": text}
    return {"status": status, "seconds": round(seconds, 4), "attempts": 1, "problems": [entry]}
