"""What a communicator is told, byte for byte where the official client was seen to set it (recordings of both on softnpu)."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from world import free_port

sys.path.append(str(Path(__file__).resolve().parents[1] / "cann_like"))
import folder  # noqa: E402

PROGRAM = """
import sys, json, torch, torch.distributed as dist, torch_npu
options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
options.hccl_config = json.loads(sys.argv[1])
dist.init_process_group("hccl", pg_options=options)
dist.all_reduce(torch.ones(4).npu())
for name in sys.argv[2:]:
    try:
        dist.all_reduce(torch.ones(4, dtype=getattr(torch, name)).npu())
    except TypeError as error:
        print(error)
torch.npu.synchronize()
dist.destroy_process_group()
"""
# name -> (offset, format); version 10 of the structure
FIELDS = {"size": (0, "Q"), "version": (12, "I"), "buffer": (24, "I"), "deterministic": (28, "I"), "expansion": (288, "I"),
          "class": (292, "I"), "level": (296, "I"), "rank": (300, "I"), "job": (304, "Q"), "switch": (312, "B"), "patience": (316, "i")}
UNSET = 0xFFFFFFFF


@pytest.fixture
def told(tmp_path):
    def run(options, host="127.0.0.1", types=(), **environment):
        file, port = tmp_path / "calls", free_port()
        environment = {**os.environ, "MASTER_ADDR": host, "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1",
                       "SOFTNPU_RECORD": str(file), **environment}
        command = [sys.executable, "-c", PROGRAM, json.dumps(options), *types]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert process.returncode == 0, process.stderr
        calls = [json.loads(line) for line in file.read_text().splitlines()]
        call = next(call for call in calls if call.get("f") == "HcclCommInitRootInfoConfig")
        content = bytes.fromhex(next(value for _, value in call["a"] if isinstance(value, str) and len(value) > 100))
        found = {name: struct.unpack_from("<" + code, content, offset)[0] for name, (offset, code) in FIELDS.items()}
        return {**found, "group": content[160:288].split(b"\0")[0].decode(), "refused": process.stdout.splitlines()}, port

    return run


def test_without_options_it_is_what_the_official_client_sends(told):
    found, port = told({}, types=["float64", "uint16"])
    assert found == {"size": 2240, "version": 10, "buffer": 200, "deterministic": UNSET, "expansion": 0, "class": UNSET, "level": UNSET,
                     "rank": 0, "job": port << 32 | 0x7F000001, "switch": 0, "patience": 1800, "group": "", "refused": []}


@pytest.mark.parametrize(("options", "environment", "expected"), [
    ({"hccl_buffer_size": 64}, {}, {"buffer": 64}), ({"group_name": "abc"}, {}, {"group": "abc"}),
    ({"hccl_op_expansion_mode": 3, "hccl_exec_timeout": 9}, {}, {"expansion": 3, "patience": 9}),
    ({"qos_traffic_class": 4, "qos_service_level": 2}, {}, {"class": 4, "level": 2}), ({"hccl_world_rank_id": 5}, {}, {"rank": 5}),
    ({}, {"HCCL_BUFFSIZE": "77"}, {"buffer": 77}), ({}, {"HCCL_DETERMINISTIC": "true"}, {"deterministic": 1})])
def test_options_and_environment_reach_their_fields(told, options, environment, expected):
    found, _ = told(options, **environment)
    assert {name: found[name] for name in expected} == expected


def test_cann_is_told_what_the_official_client_tells_it(told, tmp_path):
    """The group's limit is softnpu's alone, whose words name the rank that is late. HCCL does not reduce every type that softnpu does."""
    types = ["float64", "complex128", "uint16", "uint32", "uint64", "complex64", "bool", "uint8", "int16", "bfloat16"]
    found, _ = told({}, types=types, **folder.make(tmp_path / "cann"))
    assert found["patience"] == -1
    assert found["refused"] == [
        f"HCCL cannot reduce tensors of type {name}: "
        "it takes int8, int16, int32, int64, float16, float32 and bfloat16. Convert them first."
        for name in ("Double", "Double", "UInt16", "UInt32", "UInt64")]  # complex numbers come as their parts


def test_a_host_s_name_is_no_address(told):
    found, port = told({}, host="localhost")
    assert found["job"] == port << 32
