"""Where the machine has none left of something: a full disk, no file descriptor, a limit of file sizes. No crash, the right reason, and
what works again afterwards."""

import subprocess
import sys

import pytest

IN_A_FULL_FOLDER = """
import ctypes, os, sys
def check(code):
    if code: raise OSError(ctypes.get_errno(), "cannot mount")
libc = ctypes.CDLL(None, use_errno=True)
folder = sys.argv[1]
uid, gid = os.getuid(), os.getgid()
try:
    check(libc.unshare(0x10020000))  # CLONE_NEWUSER | CLONE_NEWNS
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        open(f"/proc/self/{name}", "w").write(text)
    check(libc.mount(b"none", folder.encode(), b"tmpfs", 0, b"size=64k,mode=700"))
except OSError as error:
    print("cannot mount:", error)
    sys.exit(0)
with open(f"{folder}/filler", "wb", buffering=0) as file:
    try:
        while True: file.write(bytes(4096))
    except OSError: pass
os.environ["XDG_RUNTIME_DIR"] = os.environ["TMPDIR"] = folder
import torch, torch_npu
print((torch.ones(3).npu() + 1).tolist())
"""


def test_a_full_runtime_folder_is_no_crash(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir(mode=0o700)
    process = subprocess.run([sys.executable, "-c", IN_A_FULL_FOLDER, str(folder)], capture_output=True, text=True, timeout=120)
    if "cannot mount" in process.stdout:
        pytest.skip("this user may not mount a file system of its own")
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "[2.0, 2.0, 2.0]"
    assert "has no room for a file; free some, or point XDG_RUNTIME_DIR elsewhere" in process.stderr


def test_no_descriptor_left_is_said_and_over_when_there_are_some(check):
    check("""
import os, resource
x = torch.ones(2)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = os.dup(0)
os.close(used)
resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
try:
    x.npu()
    raise SystemExit("a library was loaded without a descriptor")
except RuntimeError as error:
    text = str(error)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert "no file descriptor is left" in text and "ulimit -n" in text and "Reinstall" not in text, text
assert (x.npu() + 1).tolist() == [2, 2] and torch.npu.is_available()
""")


@pytest.mark.parametrize("room", [1, 3, 8])
def test_few_descriptors_left_are_no_want_of_memory(check, room):
    """Whatever the first call gets to with them."""
    check(f"""
import os, resource
x = torch.ones(2)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = os.dup(0)
os.close(used)
resource.setrlimit(resource.RLIMIT_NOFILE, (used + {room}, hard))
try:
    text = str((x.npu() + 1).tolist())
except (RuntimeError, OSError) as error:
    text = str(error)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert text == "[2.0, 2.0]" or "descriptor" in text or "open files" in text, text
assert "Reinstall" not in text and "out of memory" not in text, text
assert (x.npu() + 1).tolist() == [2, 2]
""")


def test_a_limit_of_file_sizes_is_named(run):
    process = run("""
import resource, signal
import torch, torch_npu
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
torch.ones(2).npu()
""")
    assert process.returncode == 1 and "ulimit -f" in process.stderr and "ulimit -v" not in process.stderr, process.stderr
