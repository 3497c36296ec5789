"""Where do the ranks of a job hang: `python -m torch_npu.hang [PID ...] [--json]`.

For each process, without stopping or disturbing it: what its main thread does, what its npu runs, which collective it waits in, the Python
stacks of all threads; then which rank has not come to the collective that the others wait in. Without PIDs: all processes of the user
that use an npu.
"""

import argparse
import json
import os
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor

from torch_npu import _inspection

_PATIENCE = 1.0  # seconds: a collective that is younger is no hang
_BETWEEN = 0.5  # seconds between the two looks at streams
_PARTS = ("process", "queue", "streams", "groups", "stacks")
_FOLDERS = (sysconfig.get_paths()["stdlib"] + os.sep, os.sep + os.path.join("site-packages", "torch") + os.sep,
            os.path.dirname(os.path.abspath(__file__)) + os.sep)  # whose frames are not the user's


def look(pid: int) -> dict:
    """All that a process says; `moves` is whether its streams did anything between two looks."""
    report = _inspection.ask(pid, *_PARTS)
    time.sleep(_BETWEEN)
    later = _inspection.ask(pid, "streams")["streams"]
    report["moves"] = None if later is None else done(later) != done(report["streams"])
    return report


def done(streams: list[dict] | None) -> dict:
    """Of each stream, how many tasks have ended: what differs between two looks at a process that moves."""
    return {(stream["device"], stream["stream"]): stream["done"] for stream in streams or []}


def place(report: dict) -> str:
    """The innermost line of the user's in the main thread; of a library's if there is none."""
    for thread in (report.get("stacks") or {}).get("threads", []):
        if thread["main"]:
            users = [frame for frame in thread["frames"] if not frame[0].startswith("<") and not any(part in frame[0] for part in _FOLDERS)]
            file, line, name = (users or thread["frames"])[0]
            return f"{os.path.basename(file)}:{line} in {name}"
    return "unknown"


def rank_of(report: dict) -> int | None:
    if report["process"]["rank"] is not None:
        return report["process"]["rank"]
    groups = report["groups"] or []
    return max(groups, key=lambda group: len(group["ranks"]))["rank"] if groups else None


def _ranks(ranks: list[int]) -> str:
    words = [str(rank) for rank in sorted(ranks)]
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def verdicts(reports: list[dict]) -> list[str]:
    return findings(reports) or [f"No collective, send or receive has waited for more than {_PATIENCE:g} s."]


def findings(reports: list[dict]) -> list[str]:
    """Sentences, one for each thing that is waited for or has failed."""
    found: dict[tuple, dict[int, tuple[dict, dict]]] = {}
    for report in reports:
        for group in report["groups"] or []:
            found.setdefault((group["place"], group["name"], tuple(group["ranks"])), {})[group["rank"]] = (report, group)
    sentences = []
    for (_, name, ranks), members in found.items():
        whole = len(ranks) == max(len(key[2]) for key in found)
        sentences += _of_group(ranks, members, "" if whole else f" (group {name})")
    return sentences


def waits_long(report: dict) -> bool:
    return any(wait["seconds"] >= _PATIENCE for group in report["groups"] or [] for wait in group["waits"])


def _of_group(ranks: tuple, members: dict, suffix: str) -> list[str]:
    sentences = []
    waits = {}  # of each rank: its collectives that do not end
    for rank, (_, group) in sorted(members.items()):
        if group["failure"]:
            sentences.append(f"A collective of rank {rank} failed{suffix}: {group['failure'].splitlines()[0]}")
        old = [wait for wait in group["waits"] if wait["seconds"] >= _PATIENCE]
        waits[rank] = [wait for wait in old if wait["collective"]]
        for wait in old:
            if not wait["collective"]:
                sentences.append(_transfer(rank, wait, members, suffix))
    numbers = [wait["number"] for each in waits.values() for wait in each]
    if numbers:
        sentences.append(_collective(min(numbers), ranks, members, waits, suffix))
    return sentences


def _transfer(rank: int, wait: dict, members: dict, suffix: str) -> str:
    peer = wait["peer"]
    whom = "" if peer is None else f" {'from' if wait['title'] == 'recv' else 'to'} rank {peer}"
    there = f" Rank {peer} is at {place(members[peer][0])}." if peer in members else ""
    what = f"for a communicator for {wait['title']}" if wait["connecting"] else f"in {wait['title']}{whom} (#{wait['number']})"
    return f"Rank {rank} waits {what}{suffix} since {wait['seconds']:.0f} s.{there}"


def _collective(number: int, ranks: tuple, members: dict, waits: dict, suffix: str) -> str:
    titles = {rank: wait["title"] for rank, each in waits.items() for wait in each if wait["number"] == number}
    seconds = max(wait["seconds"] for each in waits.values() for wait in each if wait["number"] == number)
    waiting = list(titles)
    what = f"{titles[waiting[0]]} #{number}{suffix}"
    late = [rank for rank, (_, group) in sorted(members.items()) if rank not in titles and group["called"] < number]
    absent = [rank for rank in ranks if rank not in members]
    since = f"{_ranks(waiting)} wait{'s' if len(waiting) == 1 else ''} in it since {seconds:.0f} s."
    unseen = ""
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        unseen = f" {_capital(_ranks(absent))} {verb} not among these processes: ended, or on another machine."
    if late:
        at = "".join(f" Rank {rank} is at {place(members[rank][0])}." for rank in late)
        return _capital(f"{_ranks(late)} {'has' if len(late) == 1 else 'have'} not called {what}; {since}{at}{unseen}")
    if len(set(titles.values())) > 1:
        calls = ", ".join(f"rank {rank} {title}" for rank, title in sorted(titles.items()))
        return f"The ranks call different collectives as #{number}{suffix}: {calls}; they wait since {seconds:.0f} s."
    if absent:
        return _capital(since.replace("in it", f"in {what}")) + unseen
    kernels = sorted({(rank, name) for rank in members for name in running(members[rank][0])
                      if name not in titles.values() and not name.startswith("Hccl")})
    before = "; ".join(f"rank {rank} runs {name}" for rank, name in kernels)
    return f"All ranks have called {what}, which has not ended since {seconds:.0f} s{': ' + before if before else ''}."


def running(report: dict) -> list[str]:
    """What its streams run."""
    return [stream["running"] for stream in report["streams"] or [] if stream["running"]]


def queued(report: dict) -> int:
    """Launches that wait in the task queue, and tasks in the streams."""
    return report["queue"]["waiting"] + sum(stream["queued"] for stream in report["streams"] or [])


def in_order(reports: list[dict]) -> list[dict]:
    return sorted(reports, key=lambda report: (rank_of(report) is None, rank_of(report) or 0, report["process"]["pid"]))


def table(reports: list[dict]) -> str:
    rows = [("rank", "pid", "npu", "main thread at", "queue", "running", "moves", "waits for")]
    for report in reports:
        waits = [f"{wait['title']} #{wait['number']}, {wait['seconds']:.1f} s"
                 for group in report["groups"] or [] for wait in group["waits"]]
        runs = ", ".join(running(report)) if report["streams"] is not None else "unknown"
        moves = {True: "yes", False: "no", None: "unknown"}[report["moves"]]
        rank = rank_of(report)
        cards = ",".join(map(str, report["process"]["cards"]))
        rows.append(("-" if rank is None else str(rank), str(report["process"]["pid"]), cards or "-", place(report), str(queued(report)),
                     runs or "-", moves, "; ".join(waits) or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def stacks(report: dict) -> str:
    rank = rank_of(report)
    whose = f"process {report['process']['pid']}" + ("" if rank is None else f", rank {rank}")
    if not report["stacks"]:
        return f"{whose}: no Python stacks"
    held = "; a thread keeps Python's lock" if report["stacks"]["lock"] == "held" else ""
    lines = [f"{whose}{held}"]
    for thread in report["stacks"]["threads"]:
        lines.append(f"  {thread['name']} (most recent call first):")
        lines += [f'    File "{file}", line {line} in {name}' for file, line, name in thread["frames"]]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_npu.hang", description="Where the ranks of a job hang.")
    parser.add_argument("pids", nargs="*", type=int, metavar="PID", help="the processes; without any: all of the user's that use an npu")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    pids = list(dict.fromkeys(options.pids)) or [pid for pid in _inspection.processes() if pid != os.getpid()]
    if not pids:
        print("No process of this user uses an npu.", file=sys.stderr)
        return 1
    reports, refusals = [], []
    with ThreadPoolExecutor(len(pids)) as pool:
        for answer in [pool.submit(look, pid) for pid in pids]:
            try:
                reports.append(answer.result())
            except _inspection.CannotAsk as why:
                refusals.append(str(why))
    reports = in_order(reports)
    if options.json:
        print(json.dumps({"processes": reports, "verdicts": verdicts(reports) if reports else [], "refusals": refusals}, indent=2))
        return 1 if refusals else 0
    if reports:
        print("\n\n".join([table(reports), "\n".join(verdicts(reports)), *map(stacks, reports)]))
    for sentence in refusals:
        print(sentence, file=sys.stderr)
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
