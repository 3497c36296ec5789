"""torch_npu.npu.utils and torch_npu.utils."""

import torch

import torch_npu
import torch_npu.npu.utils as npu_utils
from torch_npu.npu import overflow


def test_names_are_those_of_torch_npu():
    for name in npu_utils.__all__:
        if name != "get_cann_version" and name not in overflow.__all__:
            assert getattr(npu_utils, name) is getattr(torch.npu, name)


def test_version():
    assert npu_utils.get_cann_version() == torch_npu.utils.get_cann_version("CANN") == torch.version.cann


def test_fallbacks_are_counted_and_announced_once(run):
    code = """
import torch, torch_npu
x = torch.ones(2, dtype=torch.int32, device="npu")
for _ in range(3): y = torch.ops.aten._test_optional_intlist(x, [1, 2])
assert y.is_npu and y.tolist() == [2, 3]
assert torch_npu.utils.fallback_counts() == {"aten::_test_optional_intlist": 3}, torch_npu.utils.fallback_counts()
torch_npu.utils.reset_fallback_counts()
assert torch_npu.utils.fallback_counts() == {}
"""
    process = run(code, TORCH_NPU_FALLBACK_CPU_DISABLE="0")
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("'aten::_test_optional_intlist' runs on the CPU") == 1


def test_collect_env(run):
    process = run("import runpy; runpy.run_module('torch_npu.utils.collect_env', run_name='__main__')", SOFTNPU_DEVICES="2")
    assert process.returncode == 0, process.stderr
    report = dict(line.split(": ", 1) for line in process.stdout.splitlines())
    assert report["torch"] == torch.__version__
    assert torch.npu.get_device_name() in report["npu:1"]
    assert report["SOFTNPU_DEVICES"] == "2"


def test_op_support_says_how_operators_run():
    support = torch_npu.utils.op_support()
    assert support["aten::add.Tensor"] == "native"
    assert support["aten::digamma.out"] == "extension"
    assert support["aten::zeros_like"] == "composite"
    assert support["aten::_test_optional_intlist"] == "fallback"
    assert set(support.values()) <= {"native", "extension", "composite", "fallback", "unsupported"}
