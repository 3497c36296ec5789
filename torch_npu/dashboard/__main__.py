"""python -m torch_npu.dashboard [--port N] | --json"""

import argparse
import errno
import json
import os
import re
import signal
import sys
import time

from torch_npu.dashboard.server import Server
from torch_npu.dashboard.snapshots import BETWEEN, Snapshots


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    about = "Cards and processes of this machine on a page, for this user."
    parser = argparse.ArgumentParser(prog="python -m torch_npu.dashboard", description=about)
    parser.add_argument("--port", type=_port, default=0, help="the port on 127.0.0.1; without it a free one")
    parser.add_argument("--json", action="store_true", help="print what the page shows, once, as JSON")
    options = parser.parse_args(arguments)
    snapshots = Snapshots()
    if options.json:
        snapshots.take()
        time.sleep(BETWEEN)
        print(json.dumps(snapshots.take(), indent=2))
        return 0
    try:
        server = Server(options.port, snapshots)
    except OSError as error:
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be had ({os.strerror(error.errno or 0)})"
        print(f"Port {options.port} {why}: give another one with --port, or leave it out for a free one.", file=sys.stderr)
        return 1
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in the background without it
    try:
        print(server.url)
        print("Open this address in a browser of this machine. Whoever has it sees this user's processes. Ctrl+C ends it.", flush=True)
        server.serve_forever(poll_interval=0.1)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
