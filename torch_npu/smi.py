"""npu-smi for softnpu: its cards, their memory and all of the user's processes on them, in the table that people know.

    npu-smi info [--json] | npu-smi info -l | npu-smi info -t usages|memory|proc-mem -i N [--json]
    npu-smi watch [-d SECONDS] [-n TIMES]

Where Ascend cards are in use the driver's own npu-smi is run instead. Temperature, power and cores' load are N/A: there is no such thing.
"""

import argparse
import fcntl
import json
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

_DRIVERS = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/bin/npu-smi")
_RECORD = struct.Struct("<QqQ64Q")  # softnpu/runtime/records.h: magic, process, bytes on their way, bytes of each card
_MAGIC = 0x31656375_75706E73
_MB = 1 << 20
_WIDE, _NA = 96, "N/A"


def record_folder() -> Path:
    """Where softnpu's processes say what they use (softnpu/runtime/config.cpp)."""
    folder, suffix = os.environ.get("XDG_RUNTIME_DIR"), f".{_pool()}" if _pool() else ""
    return Path(folder, f"softnpu{suffix}") if folder else Path(os.environ.get("TMPDIR") or "/tmp", f"softnpu-{os.geteuid()}{suffix}")


def _pool() -> str:
    return os.environ.get("SOFTNPU_POOL", "")


def processes(folder: Path) -> list[dict]:
    """The user's living processes: pid, name, bytes of each card. A record whose lock can be had is of a process that has ended."""
    found = []
    for path in sorted(folder.glob("use-*")):
        try:
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    continue
                except BlockingIOError:
                    content = file.read(_RECORD.size)
        except OSError:
            continue
        if len(content) != _RECORD.size:
            continue
        magic, pid, _, *used = _RECORD.unpack(content)
        if magic == _MAGIC:
            found.append({"pid": pid, "name": _name(pid), "used": used})
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return _NA


def cards() -> list[dict]:
    """All cards with the processes on them; this one does not count."""
    from torch_npu import npu

    others = [process for process in processes(record_folder()) if process["pid"] != os.getpid()]
    found = []
    for index in range(npu.device_count()):
        free, total = npu.mem_get_info(index)
        here = [{"pid": process["pid"], "name": process["name"], "memory_mb": process["used"][index] / _MB}
                for process in others if process["used"][index]]
        found.append({"id": index, "name": npu.get_device_name(index), "health": "OK", "total_mb": total / _MB, "free_mb": free / _MB,
                      "used_mb": sum(process["memory_mb"] for process in here), "processes": here})
    return found


def table(found: list[dict]) -> str:
    import torch_npu

    def line(*columns: tuple[str, int]) -> str:
        return "|" + "|".join(f" {text:<{width - 1}.{width - 1}}" for text, width in columns) + "|"

    pool = f"    Pool: {_pool()}" if _pool() else ""
    rule, double = ("+" + "+".join(mark * width for width in (27, 15, 52)) + "+" for mark in "-=")
    lines = ["+" + "-" * _WIDE + "+", line((f"npu-smi (softnpu)                Version: {torch_npu.__version__}{pool}", _WIDE)), rule,
             line(("NPU   Name", 27), ("Health", 15), ("Power(W)    Temp(C)           Hugepages-Usage(page)", 52)),
             line(("Chip", 27), ("Bus-Id", 15), ("AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)", 52)), double]
    for card in found:
        usage = f"{card['used_mb']:.0f} / {card['total_mb']:.0f}"
        name = card["name"].removeprefix("Ascend")
        lines += [line((f"{card['id']:<5} {name}", 27), (card["health"], 15), (f"{_NA:<11} {_NA:<17} {_NA}", 52)),
                  line(("0", 27), (_NA, 15), (f"{_NA:<11} {'0    / 0':<17} {usage}", 52)), double]
    lines += [rule, line(("NPU     Chip", 27), ("Process id", 15), ("Process name             | Process memory(MB)", 52)), double]
    for card in found:
        for process in card["processes"]:
            lines.append(line((f"{card['id']:<7} 0", 27), (str(process["pid"]), 15),
                              (f"{process['name']:<24.24} | {process['memory_mb']:.0f}", 52)))
        if not card["processes"]:
            lines.append(line((f"No running processes found in NPU {card['id']}", _WIDE)))
        lines.append(double)
    return "\n".join(lines)


def _pairs(rows: dict) -> str:
    return "\n".join(f"\t{name:<30} : {value}" for name, value in rows.items())


def _listed(found: list[dict]) -> str:
    parts = [_pairs({"Total Count": len(found)})]
    parts += [_pairs({"NPU ID": card["id"], "Product Name": card["name"], "Serial Number": _NA, "Chip Count": 1}) for card in found]
    return "\n\n".join(parts)


def _details(kind: str, card: dict) -> str:
    head = {"NPU ID": card["id"], "Chip Count": 1}
    rate = f"{100 * card['used_mb'] / card['total_mb']:.0f}" if card["total_mb"] else _NA
    if kind == "proc-mem":
        rows = [f"\tProcess id:{process['pid']:<12} Process name:{process['name']:<24} Process memory(MB):{process['memory_mb']:.0f}"
                for process in card["processes"]]
        return "\n".join([_pairs(head | {"Chip ID": 0}), *(rows or [f"\tNo running processes found in NPU {card['id']}"])])
    capacity = {"HBM Capacity(MB)": f"{card['total_mb']:.0f}"}
    if kind == "memory":
        return _pairs(head | {"DDR Capacity(MB)": 0} | capacity | {"HBM Clock Speed(MHz)": _NA, "Chip ID": 0})
    return _pairs(head | capacity | {"HBM Usage Rate(%)": rate, "Aicore Usage Rate(%)": _NA, "Aicpu Usage Rate(%)": _NA,
                                     "Ctrlcpu Usage Rate(%)": _NA, "HBM Bandwidth Usage Rate(%)": _NA, "Chip ID": 0})


def _watch(seconds: float, times: int | None) -> None:
    """The table again and again; on a terminal in the same place."""
    shown = 0
    try:
        while True:
            text = table(cards())
            print(f"\x1b[H\x1b[2J{text}" if sys.stdout.isatty() else text, flush=True)
            shown += 1
            if shown == times:
                return
            time.sleep(seconds)
    except KeyboardInterrupt:
        return


def _positive(kind: type) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not 0 < value < 1e6:
            raise ValueError(text)
        return value

    number.__name__ = "positive number"  # for argparse's message
    return number


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="npu-smi", description="Cards of softnpu, their memory and processes.")
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="cards and processes")
    info.add_argument("-l", action="store_true", dest="list", help="list the cards")
    info.add_argument("-t", dest="type", choices=["usages", "memory", "proc-mem"], help="one thing of a card")
    info.add_argument("-i", dest="id", type=int, help="the card")
    info.add_argument("--json", action="store_true", help="print JSON")
    watch = commands.add_parser("watch", help="the table, until it is interrupted")
    watch.add_argument("-d", dest="seconds", type=_positive(float), default=1.0, help="seconds from one to the next (1)")
    watch.add_argument("-n", dest="times", type=_positive(int), help="how many; without it there is no end")

    import torch_npu
    from torch_npu import _C

    if not _C.why_unavailable() and not torch_npu.is_softnpu():
        driver = next((path for path in _DRIVERS if os.access(path, os.X_OK) and not os.path.samefile(path, sys.argv[0])), None)
        if driver:
            os.execv(driver, [driver, *arguments])
        print("npu-smi: CANN is in use here, and its driver's npu-smi is not installed.", file=sys.stderr)
        return 1
    options = parser.parse_args(arguments)
    if reason := _C.why_unavailable():
        print(f"npu-smi: {reason.strip().splitlines()[0]}", file=sys.stderr)
        return 1
    if options.command == "watch":
        _watch(options.seconds, options.times)
        return 0
    if (options.type is None) != (options.id is None):
        parser.error("-t and -i belong together: npu-smi info -t usages -i 0")
    found = cards()
    if not found:
        try:
            torch_npu.npu.init()  # says why
        except RuntimeError as error:
            print(f"npu-smi: {str(error).strip().splitlines()[0]}", file=sys.stderr)
            return 1
    if options.id is not None:
        if not 0 <= options.id < len(found):
            parser.error(f"there is no NPU {options.id}: there are {len(found)}, from 0")
        found = [found[options.id]]
    if options.json:
        print(json.dumps(found, indent=2))
    elif options.list:
        print(_listed(found))
    else:
        print(_details(options.type, found[0]) if options.type else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
