"""Asking running processes what they do, and Python's part of the answer. Note [Inspection] in csrc/runtime/inspection.h."""

import json
import os
import pwd
import re
import socket
import struct
import sys
import threading
from pathlib import Path

_ANSWER = 1 << 26  # bytes


def stacks() -> str:
    """Of all threads of this process, the innermost call first, as JSON. Called on a thread that is made for it."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main, own = threading.main_thread().ident, threading.get_ident()
    threads = []
    for ident, innermost in sys._current_frames().items():
        frames, frame = [], innermost if ident != own else None
        while frame is not None:
            frames.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
            frame = frame.f_back
        if frames:
            threads.append({"name": names.get(ident, str(ident)), "main": ident == main, "frames": frames})
    return json.dumps({"threads": threads, "lock": "free"})


class CannotAsk(Exception):
    """Why a process does not answer, in one sentence."""


def ask(pid: int, *parts: str, seconds: float = 10.0) -> dict:
    """What the process says of each part."""
    _check_process(pid)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with connection:
        connection.settimeout(seconds)
        try:
            connection.connect(f"\0torch_npu/{_namespace('self')}/{pid}")
        except OSError:
            raise CannotAsk(_why_silent(pid)) from None
        answering, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if answering != pid or user != _user(pid):
            raise CannotAsk(f"Process {pid} cannot be asked: process {answering} has taken its socket.")
        try:
            connection.sendall(" ".join(parts).encode() + b"\n")
            text = bytearray()
            while chunk := connection.recv(1 << 16):
                text += chunk
                if len(text) > _ANSWER:
                    raise CannotAsk(f"Process {pid} answers without an end.")
        except OSError:
            raise CannotAsk(_why_late(pid, seconds)) from None
    answer: dict = {}
    for line in text.decode(errors="replace").splitlines():
        answer |= json.loads(line)
    if "refused" in answer:
        raise CannotAsk(f"Process {pid} does not answer: {answer['refused']}.")
    if missing := [part for part in parts if part not in answer]:
        raise CannotAsk(f"Process {pid} broke off before it answered {missing[0]}: it has ended.")
    if (answer.get("stacks") or {}).get("dumped") is not None:
        answer["stacks"] = {"threads": _threads_of_dump(answer["stacks"]["dumped"]), "lock": "held"}
    return answer


def processes() -> list[int]:
    """Those of the user that can be asked."""
    try:
        table = Path("/proc/net/unix").read_text()
    except OSError:
        return []
    pids = {int(pid) for pid in re.findall(rf"@torch_npu/{_namespace('self')}/(\d+)$", table, re.MULTILINE)}
    return sorted(pid for pid in pids if _user(pid) == os.geteuid())


def _check_process(pid: int) -> None:
    user = _user(pid)
    if user is None:
        raise CannotAsk(f"There is no process {pid}.")
    if os.geteuid() not in (0, user):
        raise CannotAsk(f"Process {pid} belongs to another user ({_user_name(user)}): only that user or root may ask it.")
    if _state(pid) == "Z":
        raise CannotAsk(f"Process {pid} has ended.")
    if any(_namespace(str(pid), kind) not in (None, _namespace("self", kind)) for kind in ("pid", "net")):
        raise CannotAsk(f"Process {pid} lives in another container (PID or network namespace): run this in there.")


def _user(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _user_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"number {user}"


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"


def _namespace(pid: str, kind: str = "pid") -> int | None:
    try:
        return os.stat(f"/proc/{pid}/ns/{kind}").st_ino
    except OSError:
        return None


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def _why_silent(pid: int) -> str:
    try:
        loaded = "libtorch_npu.so" in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return f"Process {pid} ({_name(pid)}) does not answer, and the system does not let anybody look at it."
    if loaded:
        return f"Process {pid} ({_name(pid)}) has loaded torch_npu, but has not used an npu, so nothing of it can wait for one."
    return f"Process {pid} ({_name(pid)}) has not loaded torch_npu."


def _why_late(pid: int, seconds: float) -> str:
    if _state(pid) in "Tt":
        return f"Process {pid} does not answer: it is stopped, by a signal or a debugger; `kill -CONT {pid}` lets it go on."
    return f"Process {pid} did not answer within {seconds:g} s."


def _threads_of_dump(text: str) -> list[dict]:
    """Of faulthandler's text, in which the main thread comes last."""
    threads = []
    for block in re.split(r"^(?=(?:Current thread|Thread) 0x)", text, flags=re.MULTILINE):
        frames = [[file, int(line), name] for file, line, name in re.findall(r'^  File "(.*)", line (\d+) in (.*)$', block, re.MULTILINE)]
        if frames:
            threads.append({"name": block.partition(" (")[0], "main": False, "frames": frames})
    if threads:
        threads[-1] |= {"name": "MainThread", "main": True}
    return threads
