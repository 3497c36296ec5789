"""The command line: python -m torch_npu.verify [--quick] [--only PATTERN] [--out FILE], or --compare A B, or --list.

Exit code 0: nothing is wrong (or nothing differs), 1: something is, or the checks could not run.
"""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
import time
from pathlib import Path

from torch_npu.verify import compare, report
from torch_npu.verify.outcome import BAD

_WHAT = """Compares the cards of this machine with the CPU: functions of the C ABI, operators, training steps, collectives.
Writes one report, which holds nothing private."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m torch_npu.verify", description=_WHAT)
    made.add_argument("--out", type=Path, default=Path("torch_npu_verify.txt"), metavar="FILE", help="the report (%(default)s)")
    made.add_argument("--quick", action="store_true", help="fewer types and networks: half a minute instead of minutes")
    made.add_argument("--only", action="append", default=[], metavar="PATTERN", help="checks whose names contain or match it")
    made.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS", help="for one check, behind which it hangs (%(default).0f)")
    made.add_argument("--minutes", type=float, default=10.0, help="for all checks; the rest is not run then (%(default).0f)")
    made.add_argument("--list", action="store_true", help="print the names of all checks")
    made.add_argument("--compare", nargs=2, type=Path, metavar=("A", "B"), help="print what differs between two reports")
    return made


class Progress:
    """One line on a terminal; in a file a line for each problem."""

    def __init__(self, count: int):
        self.count, self.done, self.bad = count, 0, 0
        self.is_terminal = sys.stderr.isatty()

    def __call__(self, name: str, check: dict) -> None:
        self.done += 1
        is_bad = check["status"] in BAD
        self.bad += is_bad
        clear = "\r\x1b[K" if self.is_terminal else ""
        if is_bad:
            print(f"{clear}{check['status'].upper()} {name}: {check['problems'][-1]['text'][:150]}", file=sys.stderr)
        if self.is_terminal:
            print(f"{clear}{self.done}/{self.count}, {self.bad} bad, {name}", end="", file=sys.stderr, flush=True)
        elif self.done % 100 == 0 or self.done == self.count:
            print(f"{self.done} of {self.count} checks, {self.bad} bad", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr)


def verify(options: argparse.Namespace) -> int:
    import torch_npu
    from torch_npu import _C
    from torch_npu.verify import checks, conformance, machine
    from torch_npu.verify.supervisor import TIME_IS_UP, Supervisor

    if reason := _C.why_unavailable():
        raise report.ReportError(f"no NPU can be used: {reason}")
    folder, is_softnpu = _C.runtime_path(), torch_npu.is_softnpu()
    names = [*(conformance.names(folder, is_softnpu) or ["abi.conformance"]), *checks.functions(options.quick)]
    names = checks.matching(names, options.only)
    if options.list:
        print(*names, sep="\n")
        return 0
    if options.timeout <= 0 or options.minutes <= 0:
        raise report.ReportError("--timeout and --minutes must be more than 0")
    report.require_writable(options.out)
    found: dict[str, dict] = {}
    progress = Progress(len(names))

    def note(name: str, check: dict) -> None:
        found[name] = machine.clean_all(check)
        progress(name, found[name])

    supervisor = Supervisor(options.quick, options.timeout, note)
    try:
        description = supervisor.describe_machine()
    except OSError as error:  # of which TimeoutError and ChildProcessError are kinds
        raise report.ReportError(f"the first card does not open: {error}") from None
    print(f"{description['provider']} {description['CANN']}, {description['SoC']}: {len(names)} checks", file=sys.stderr)
    start, ended = time.monotonic(), ""
    of_abi = [name for name in names if name.startswith("abi.")]
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        if of_abi == ["abi.conformance"]:
            note("abi.conformance", {"status": "skipped", "seconds": 0.0, "attempts": 0, "note": conformance.ABSENT})
        else:
            conformance.run(of_abi, folder, options.timeout, note)
        supervisor.run([name for name in names if name not in of_abi], start + 60 * options.minutes)
    except KeyboardInterrupt:
        ended = "interrupted"
    progress.end()
    if any(check.get("note") == TIME_IS_UP for check in found.values()):
        ended = f"{options.minutes:g} minutes were up"
    result = report.make(description, found, quick=options.quick, date=datetime.date.today().isoformat(), ended=ended,
                         seconds=round(time.monotonic() - start, 1))
    report.write(result, options.out)
    print(report.text(result), end="")
    print(f"\nThe report is {options.out}")
    return 1 if ended or report.bad(result) else 0


def main() -> int:
    options = parser().parse_args()
    try:
        if options.compare:
            lines, differ = compare.differences(*map(report.read, options.compare))
            print("\n".join(lines) or "The two reports agree.")
            return int(differ)
        return verify(options)
    except ValueError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
