"""tools/client_symbols.py: what a client links and looks up, on a client made for the test."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
sys.path.insert(0, str(ROOT / "tools"))
import client_symbols  # noqa: E402

CLIENT = """
extern int aclrtSetDevice(int), aclNobodyHasThis(void), printf(const char*, ...);
const char* names[] = {"aclnnAdd", "aclnnAddGetWorkspaceSize", "aclnnTopkV2", "aclnnTopkV2GetWorkspaceSize", "HcclAllReduce",
                       "HcclAllgather", "aclnnUnheardOf", "aclnnUnheardOfGetWorkspaceSize", "dcmi_init", "acl and words", "aclnn"};
int use(void) { return aclrtSetDevice(0) + LINKED + printf("%p", names); }
"""


def made(tmp_path, linked):
    (tmp_path / "client.c").write_text(CLIENT)
    folder = tmp_path / "torch_npu/lib"
    folder.mkdir(parents=True)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DLINKED={linked}", "-o", folder / "libclient.so", tmp_path / "client.c"], check=True)
    return folder.parent


def test_names_are_found(tmp_path):
    client = client_symbols.Client(made(tmp_path, "aclNobodyHasThis()"))
    assert client.linked == {"aclrtSetDevice", "aclNobodyHasThis"}
    assert client.operators == {"aclnnAdd", "aclnnTopkV2", "aclnnUnheardOf"}
    assert client.looked_up == client.operators | {"HcclAllReduce", "dcmi_init"}  # HcclAllgather is a word of a message


@pytest.mark.skipif(not (BUILD / "torch_npu/softnpu/lib64/libopapi.so").exists(), reason="no build")
def test_a_name_that_softnpu_has_not_fails(tmp_path):
    command = [sys.executable, ROOT / "tools/client_symbols.py", made(tmp_path, "aclNobodyHasThis()"), BUILD, "--list"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("linked: 1 of 2 (50.0 %)")
    assert lines[1] == "looked up: 2 of 5 (40.0 %); 2 of 3 (66.7 %) of those in libraries that softnpu takes the place of"
    assert {"libopapi.so: aclnnTopkV2", "?: aclnnUnheardOf", "libdcmi.so: dcmi_init"} <= set(lines)
    assert "abi/symbols.txt does not have aclnnUnheardOf" in lines
    assert "softnpu has no aclNobodyHasThis, which the client links: importing it fails" in lines
