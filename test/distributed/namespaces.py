"""Two network namespaces joined by a cable: processes in them are, for sockets, on two hosts. Needs root and `ip`."""

import contextlib
import os
import subprocess

ADDRESSES = ("10.213.77.1", "10.213.77.2")


class Unavailable(Exception):
    """This machine gives no network namespaces to this user."""


def _ip(*arguments):
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(getattr(error, "stderr", None) or str(error)) from error


@contextlib.contextmanager
def two_hosts():
    """Gives `inside` and `environment` of a World whose even ranks are on one host and whose odd ranks on the other."""
    names = [f"npu-{os.getpid()}-{i}" for i in range(2)]
    cables = [f"npu{os.getpid()}{end}" for end in "ab"]
    with contextlib.ExitStack() as stack:
        for name in names:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", cables[0], "netns", names[0], "type", "veth", "peer", "name", cables[1], "netns", names[1])
        for name, cable, address in zip(names, cables, ADDRESSES):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", cable)
            _ip("-n", name, "link", "set", cable, "name", "npu0")
            _ip("-n", name, "link", "set", "npu0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        environment = {"MASTER_ADDR": ADDRESSES[0], "GLOO_SOCKET_IFNAME": "npu0"}
        yield {"inside": lambda rank: ["ip", "netns", "exec", names[rank % 2]], "environment": environment}
