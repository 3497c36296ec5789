"""Variables that are misspelt, and .cuda() without CUDA: a sentence says what was meant."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torch_npu._environment import _OF_SCRIPTS, VARIABLES

ROOT = Path(__file__).parents[2]


def run(code, **variables):
    process = subprocess.run([sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout, process.stderr


def test_misspelt_variables_are_told_once_with_the_nearest_name():
    _, told = run("import torch, torch_npu; torch.ones(1, device='npu')", SOFTNPU_MEMROY="1", TORCH_NPU_RUNTIM="", SOFTNPU_="x", NPU_X="1")
    assert told.count("Nothing reads the environment variable") == 3
    assert "variable SOFTNPU_MEMROY: did you mean SOFTNPU_MEMORY? docs/environment.md lists what there is." in told
    assert "variable TORCH_NPU_RUNTIM: did you mean TORCH_NPU_RUNTIME?" in told


def test_switches_that_are_given_words_are_told():
    variables = {"TORCH_NPU_SANITIZER": "yes", "ASCEND_LAUNCH_BLOCKING": "true", "TASK_QUEUE_ENABLE": "on"}
    _, told = run("import torch, torch_npu; torch.ones(1, device='npu')", TORCH_NPU_ERROR_ORIGIN="1", ACL_DUMP_DATA="", **variables)
    for name, text in variables.items():
        assert told.count(f"The environment variable {name} takes a number; '{text}' has no effect.") == 1
    assert told.count("takes a number") == len(variables)


def test_no_variable_that_something_reads_is_told():
    sources = [*ROOT.glob("csrc/acl/config.cpp"), *ROOT.glob("softnpu/runtime/config.cpp"), *ROOT.glob("torch_npu/**/*.py")]
    read = {name for path in sources for name in re.findall(r'"((?:TORCH_NPU|SOFTNPU)_[A-Z_]+[A-Z])"', path.read_text())}
    assert len(read) > 10 and read <= {*VARIABLES, *_OF_SCRIPTS}


@pytest.mark.parametrize("call", ["torch.ones(1).cuda()", "torch.nn.Linear(1, 1).cuda()", "torch.ones(1, device='cuda')"])
def test_cuda_without_cuda_points_to_transfer_to_npu(call):
    code = f"import torch\ntry: {call}\nexcept AssertionError as error: print(error)"
    told, _ = run(code)
    assert told.startswith("Torch not compiled with CUDA enabled") and "transfer_to_npu" in told
    told, _ = run(f"import torch, torch_npu.contrib.transfer_to_npu\nprint(({call}).__class__)")
    assert "Tensor" in told or "Linear" in told
