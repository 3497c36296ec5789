"""The server of the page: who may ask, and what is answered.

Note [Dashboard]
It listens on 127.0.0.1 and nowhere else. A machine has other users, and a browser has other pages, so each request needs the token, which
only the printed address has, and a Host header that names this machine, which a page of another site that had its name changed to
127.0.0.1 has not. A connection of another user is refused even with the token. The token stays in the page's address, which no Referer
repeats, and is a header of the page's requests: a cookie would be sent to every port of 127.0.0.1. No request changes anything.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import secrets
import socket
import socketserver
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from torch_npu import _inspection
from torch_npu.dashboard.snapshots import Snapshots

_PAGE = Path(__file__).with_name("page.html")
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?", re.IGNORECASE)  # any port: an SSH tunnel has its own


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, snapshots: Snapshots):
        super().__init__(("127.0.0.1", port), _Answer)
        self.snapshots = snapshots
        self.page = _PAGE.read_bytes()
        self.policy = _policy(self.page.decode())
        self.token = secrets.token_urlsafe(24)

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would ask for the host's name, perhaps over the network
        self.server_name, self.server_port = self.server_address[:2]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def handle_error(self, request, client_address):
        """A browser that goes away is no error."""


def _policy(page: str) -> str:
    """Lets the page's own script and style run, and nothing else."""
    def hashes(tag: str) -> str:
        texts = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts)

    return (f"default-src 'none'; script-src {hashes('script')}; style-src {hashes('style')}; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


class _Answer(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds, with a connection that says nothing
    server_version, sys_version = "torch_npu", ""

    def do_GET(self):
        address = urlsplit(self.path)
        query = parse_qs(address.query)
        if refusal := self._refusal(query):
            self._send(403, refusal)
        elif address.path == "/":
            self._send(200, self.server.page, "text/html")
        elif address.path == "/data":
            self._send_json(200, self.server.snapshots.take())
        elif address.path == "/stacks":
            self._send_stacks(query.get("pid", [""])[0])
        else:
            self._send(404, "There is no such page: / has the dashboard, /data what it shows.")

    def _refusal(self, query: dict[str, list[str]]) -> str | None:
        if not _HOST.fullmatch(self.headers.get("Host", "")):
            return "The dashboard answers under 127.0.0.1 and localhost only: open the address that it printed."
        user = _user_of(self.client_address, self.server.server_address)
        if user not in (None, 0, os.geteuid()):
            return "The dashboard belongs to another user: start your own with `python -m torch_npu.dashboard`."
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            given = query.get("token", [""])[0]
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.server.token.encode()):
            return "The dashboard's token is missing or wrong: open the whole address that `python -m torch_npu.dashboard` printed."
        return None

    def _send_stacks(self, pid: str) -> None:
        if not re.fullmatch(r"[1-9][0-9]{0,9}", pid):
            return self._send(400, "pid must be the number of a process.")
        try:
            self._send_json(200, _inspection.ask(int(pid), "stacks"))
        except _inspection.CannotAsk as why:
            self._send_json(200, {"refused": str(why)})

    def _send_json(self, code: int, value: dict) -> None:
        self._send(code, json.dumps(value).encode(), "application/json")

    def _send(self, code: int, content: bytes | str, kind: str = "text/plain") -> None:
        data = f"{content}\n".encode() if isinstance(content, str) else content
        self.send_response(code)
        for name, value in {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(data)), "Cache-Control": "no-store",
                            "Content-Security-Policy": self.server.policy, "X-Content-Type-Options": "nosniff",
                            "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def send_error(self, code, message=None, explain=None):
        """What is no GET, or no HTTP."""
        self.close_connection = True
        self._send(int(code), message or self.responses.get(code, ("",))[0])

    def log_message(self, format, *arguments):
        """The terminal has the address, and addresses have the token."""


def _user_of(client: tuple, server: tuple) -> int | None:
    """Whose the other end of a connection is, as the kernel lists it; None if it does not say."""
    def listed(address: tuple) -> str:
        return f"{struct.unpack('=I', socket.inet_aton(address[0]))[0]:08X}:{address[1]:04X}"

    try:
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return None
    for columns in map(str.split, lines):
        if columns[1:3] == [listed(client), listed(server)]:
            return int(columns[7])
    return None
