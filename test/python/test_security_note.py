"""SECURITYNOTE.md, a test for each statement."""

import os
import re
import socket
import sys
import threading
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu.dashboard.server import Server
from torch_npu.dashboard.snapshots import Snapshots
from torch_npu.multiprocessing import reductions

ROOT = Path(__file__).resolve().parents[2]


def test_each_statement_has_its_test():
    named = re.findall(r"\| (test_\w+) \|", (ROOT / "SECURITYNOTE.md").read_text())
    here = {name for name in globals() if name.startswith("test_")} - {"test_each_statement_has_its_test"}
    assert len(named) == len(set(named)) and set(named) == here


def test_no_socket_is_open(run):
    process = run("import os, torch\nx = torch.ones(3).npu() + 1\nx.tolist()\n"
                  "open_files = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd') "
                  "if os.path.islink(f'/proc/self/fd/{n}')]\n"
                  "sockets = {name[8:-1] for name in open_files if name.startswith('socket:')}\n"
                  "print(sockets - {line.split()[6] for line in open('/proc/net/unix').readlines()[1:]})")  # those without a network
    assert process.stdout == "set()\n", process.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_learns_nothing(run):
    torch.ones(1).npu()
    process = run("import os, socket\nos.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(20)\n"
                  f"s.connect('\\0torch_npu/' + str(os.stat('/proc/self/ns/pid').st_ino) + '/{os.getpid()}')\n"
                  "try: s.sendall(b'process stacks\\n')\nexcept OSError: pass\nprint(s.recv(1 << 16))")
    assert process.stdout == """b'{"refused": "the process belongs to another user"}\\n'\n""", process.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_dashboard_is_the_users_own(run):
    server = Server(0, Snapshots())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    address, port = server.server_address

    def answer(url, become=""):
        return run(f"import encodings.idna, http.client, os, urllib.error, urllib.request\n{become}\n"
                   f"try: print(urllib.request.urlopen({url!r}).status)\n"
                   "except urllib.error.HTTPError as error: print(error.code)\n").stdout

    try:
        assert address == "127.0.0.1" and answer(server.url) == "200\n" and answer(server.url.replace("token=", "token=x")) == "403\n"
        assert answer(server.url, "os.setgid(65534); os.setuid(65534)") == "403\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_libraries_come_from_the_package(run, tmp_path):
    (tmp_path / "libascendcl.so").write_bytes(b"not a library")
    process = run("import torch, torch_npu\ntorch.ones(3).npu().tolist()\n"
                  "paths = {line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}\n"
                  "ours = [p for p in paths if 'npu' in p or 'ascendcl' in p or 'opapi' in p]\n"
                  "print(len(ours) > 2, [p for p in ours if not p.startswith('/') or p.startswith(__import__('os').getcwd())])")
    assert process.stdout == "True []\n", process.stderr


def sent_tensor():
    tensor = torch.ones(4, device="npu")
    _, arguments = reductions.reduce_tensor(tensor)
    return tensor, list(arguments)


def test_the_list_of_sent_tensors_is_private(run):
    tensor, arguments = sent_tensor()
    about = os.stat(f"/dev/shm/{arguments[11]}")
    assert about.st_mode & 0o777 == 0o600 and about.st_uid == os.geteuid()
    torch_npu._C.decline_storage(arguments[11], arguments[12], int(arguments[7].split(b"|")[2]))
    process = run("import torch, torch_npu\nfrom torch_npu.multiprocessing import reductions\n"
                  "x = torch.ones(3).npu()\nprint(reductions.reduce_tensor(x)[1][11])")
    assert process.stdout.startswith("torch_npu-") and not os.path.exists(f"/dev/shm/{process.stdout.strip()}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused(run):
    tensor, arguments = sent_tensor()
    key, segment, message = arguments[7].split(b"|")
    size, offset, ledger, cell = arguments[8], arguments[9], arguments[11], arguments[12]
    process = run(
        "import os, tempfile\nfolder = tempfile.mkdtemp(dir='/tmp')\nos.chown(folder, 65534, 65534)\nimport torch, torch_npu\n"
        "os.setgid(65534); os.setuid(65534)\nos.environ['XDG_RUNTIME_DIR'] = folder\n"
        "try:\n"
        f"    torch_npu._C.receive_storage({key!r}, {int(segment)}, {offset}, {ledger!r}, {cell}, {int(message)}, {size}, 0)\n"
        "    print('mapped')\nexcept RuntimeError as error:\n    print('refused' if 'Permission denied' in str(error) else error)")
    torch_npu._C.decline_storage(ledger, cell, int(message))
    assert process.stdout == "refused\n", process.stderr


def test_records_are_private(run, tmp_path):
    tmp_path.chmod(0o700)
    process = run("import torch\ntorch.ones(1).npu().tolist()\nimport os\nfolder = os.environ['XDG_RUNTIME_DIR']\n"
                  "print({oct(os.stat(os.path.join(folder, n)).st_mode & 0o777) for n in os.listdir(folder)})",
                  XDG_RUNTIME_DIR=str(tmp_path))
    assert process.stdout == "{'0o700'}\n", process.stderr


def test_card_memory_is_not_host_memory(run):
    process = run("import ctypes, torch\nx = torch.ones(4).npu()\nctypes.string_at(x.data_ptr(), 4)")
    assert process.returncode != 0 and ("device memory" in process.stderr.lower() or "card" in process.stderr.lower())


def test_load_takes_weights_only(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, ("exit 0",)

    torch.save({"x": torch.ones(1).npu(), "y": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(Exception, match="[Ww]eights"):
        torch.load(tmp_path / "evil.pt")


def test_a_failed_checkpoint_leaves_the_old_one(tmp_path):
    path = tmp_path / "model.pt"
    torch_npu.utils.save_async({"x": torch.ones(2).npu()}, path).join()
    with pytest.warns(RuntimeWarning, match="was not written"):
        torch_npu.utils.save_async({"x": lambda: 0}, path).join()
        sys.stdout.flush()
    assert torch.load(path)["x"].tolist() == [1, 1] and os.listdir(tmp_path) == ["model.pt"]


def test_dumps_are_closed_to_others(run, tmp_path):
    assert run("import os, torch\nos.umask(0)\ntorch.ones(3).npu() + 1", ACL_DUMP_DATA="1").returncode == 0
    (folder,) = tmp_path.glob("npu_dump_*")
    assert folder.stat().st_mode & 0o777 == 0o750 and {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o640}
