"""What a communicator is told, byte for byte where the official client was seen to set it (recordings of both on softnpu)."""

import json
import os
import struct
import subprocess
import sys

import pytest
from world import free_port

PROGRAM = """
import sys, json, torch, torch.distributed as dist, torch_npu
options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
options.hccl_config = json.loads(sys.argv[1])
dist.init_process_group("hccl", pg_options=options)
dist.all_reduce(torch.ones(4).npu())
torch.npu.synchronize()
dist.destroy_process_group()
"""
# name -> (offset, format); version 10 of the structure
FIELDS = {"size": (0, "Q"), "version": (12, "I"), "buffer": (24, "I"), "deterministic": (28, "I"), "expansion": (288, "I"),
          "class": (292, "I"), "level": (296, "I"), "rank": (300, "I"), "job": (304, "Q"), "switch": (312, "B")}
UNSET = 0xFFFFFFFF


@pytest.fixture
def told(tmp_path):
    def run(options, host="127.0.0.1", **environment):
        file, port = tmp_path / "calls", free_port()
        environment = {**os.environ, "MASTER_ADDR": host, "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1",
                       "SOFTNPU_RECORD": str(file), **environment}
        command = [sys.executable, "-c", PROGRAM, json.dumps(options)]
        process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert process.returncode == 0, process.stderr
        calls = [json.loads(line) for line in file.read_text().splitlines()]
        call = next(call for call in calls if call.get("f") == "HcclCommInitRootInfoConfig")
        content = bytes.fromhex(next(value for _, value in call["a"] if isinstance(value, str) and len(value) > 100))
        found = {name: struct.unpack_from("<" + code, content, offset)[0] for name, (offset, code) in FIELDS.items()}
        return {**found, "group": content[160:288].split(b"\0")[0].decode()}, port

    return run


def test_without_options_it_is_what_the_official_client_sends(told):
    found, port = told({})
    assert found == {"size": 2240, "version": 10, "buffer": 200, "deterministic": UNSET, "expansion": 0, "class": UNSET, "level": UNSET,
                     "rank": 0, "job": port << 32 | 0x7F000001, "switch": 0, "group": ""}


@pytest.mark.parametrize(("options", "environment", "expected"), [
    ({"hccl_buffer_size": 64}, {}, {"buffer": 64}), ({"hccl_op_expansion_mode": 3}, {}, {"expansion": 3}),
    ({"group_name": "abc"}, {}, {"group": "abc"}),
    ({"qos_traffic_class": 4, "qos_service_level": 2}, {}, {"class": 4, "level": 2}), ({"hccl_world_rank_id": 5}, {}, {"rank": 5}),
    ({}, {"HCCL_BUFFSIZE": "77"}, {"buffer": 77}), ({}, {"HCCL_DETERMINISTIC": "true"}, {"deterministic": 1})])
def test_options_and_environment_reach_their_fields(told, options, environment, expected):
    found, _ = told(options, **environment)
    assert {name: found[name] for name in expected} == expected


def test_a_host_s_name_is_no_address(told):
    found, port = told({}, host="localhost")
    assert found["job"] == port << 32
