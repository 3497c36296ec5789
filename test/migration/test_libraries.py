"""transformers, accelerate and peft, as they are on PyPI: under transfer_to_npu they see an npu and no CUDA."""

import os
import subprocess
import sys

import pytest

import torch_npu

REQUIREMENTS = """
    transformers accelerate peft tokenizers huggingface_hub safetensors regex requests psutil tqdm packaging filelock hf-xet httpx
    httpx2 httpcore httpcore2 truststore anyio certifi h11 idna typer click rich shellingham
""".split()  # without what they depend on: that would be another torch

CODE = """
import torch
from torch_npu.contrib import transfer_to_npu
import accelerate.utils, peft.utils, transformers.utils
assert torch.cuda.is_available() and torch.ones(1).cuda().is_npu
assert transformers.utils.is_torch_npu_available() and not transformers.utils.is_torch_cuda_available()
assert accelerate.utils.is_npu_available() and not accelerate.utils.is_cuda_available()
assert peft.utils.infer_device() == "npu"
from accelerate import Accelerator
from transformers import BertConfig, BertForSequenceClassification
accelerator = Accelerator()
config = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
model = accelerator.prepare(BertForSequenceClassification(config))
loss = model(input_ids=torch.randint(0, 32, (2, 5)).cuda(), labels=torch.tensor([0, 1]).cuda()).loss
accelerator.backward(loss)
print(accelerator.device, loss.device)
"""


@pytest.mark.sweep
def test_libraries_see_npu(tmp_path):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), *REQUIREMENTS]
    installed = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if installed.returncode != 0:
        pytest.skip(f"PyPI cannot be reached: {installed.stderr[-200:]}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(torch_npu.__path__[0]), str(tmp_path)])}
    environment.pop("TORCH_NPU_FALLBACK_CPU_DISABLE", None)
    process = subprocess.run([sys.executable, "-c", "import torch_npu\n" + CODE], env=environment, cwd=tmp_path,
                             capture_output=True, text=True, timeout=300)  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    assert process.stdout.split() == ["npu", "npu:0"]
