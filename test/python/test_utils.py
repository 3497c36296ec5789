"""torch_npu.npu.utils and torch_npu.utils."""

import torch
import torch_npu
import torch_npu.npu.utils as npu_utils


def test_names_are_those_of_torch_npu():
    for name in npu_utils.__all__:
        if name != "get_cann_version":
            assert getattr(npu_utils, name) is getattr(torch.npu, name)


def test_version():
    assert npu_utils.get_cann_version() == torch_npu.utils.get_cann_version("CANN") == torch.version.cann


def test_fallbacks_are_counted_and_announced_once(check):
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3): torch.ones(2, 2, device="npu").to_sparse()
counts = torch_npu.utils.fallback_counts()
assert counts, counts
assert all(count % 3 == 0 for count in counts.values()), counts
assert len(caught) == len(counts) and "runs on the CPU" in str(caught[0].message), caught
torch_npu.utils.reset_fallback_counts()
assert torch_npu.utils.fallback_counts() == {}
"""
    check(code, TORCH_NPU_FALLBACK_CPU_DISABLE="0")


def test_collect_env(run):
    process = run("import runpy; runpy.run_module('torch_npu.utils.collect_env', run_name='__main__')", SOFTNPU_DEVICES="2")
    assert process.returncode == 0, process.stderr
    report = dict(line.split(": ", 1) for line in process.stdout.splitlines())
    assert report["torch"] == torch.__version__
    assert torch.npu.get_device_name() in report["npu:1"]
    assert report["SOFTNPU_DEVICES"] == "2"
