"""The frozen scripts of scripts/, written for CUDA: run unmodified under transfer_to_npu, and converted, with the same losses."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.distributed

SCRIPTS = Path(__file__).parent / "scripts"
APEX = Path(__file__).resolve().parents[2] / "apex"  # its own distribution, beside the package


def has_kernel(operator, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)


def needs(condition, what):
    return pytest.mark.skipif(not condition, reason=what)


HCCL = needs("hccl" in torch.distributed.Backend.backend_list, "the distributed backend hccl is not registered")
LSTM = needs(has_kernel("aten::_thnn_fused_lstm_cell", "PrivateUse1"), "aten::_thnn_fused_lstm_cell has no npu kernel")
GRU = needs(has_kernel("aten::_thnn_fused_gru_cell", "PrivateUse1"), "aten::_thnn_fused_gru_cell has no npu kernel")
NORM = needs(has_kernel("aten::native_layer_norm_backward", "PrivateUse1"), "aten::native_layer_norm_backward has no npu kernel")
AUTOCAST = needs(has_kernel("aten::linear", "AutocastPrivateUse1"), "autocast is not registered for npu")
WITH_APEX = needs(APEX.is_dir() or importlib.util.find_spec("apex"), "apex is not here")

COMMANDS = [
    "mnist.py",
    "dcgan.py",
    "vae.py",
    "word_language_model.py --cuda --model Transformer",
    pytest.param("word_language_model.py --cuda", marks=LSTM),
    pytest.param("word_language_model.py --cuda --model GRU", marks=GRU),
    "profile_training.py",
    pytest.param("amp_recipe.py", marks=AUTOCAST),
    pytest.param("apex_amp.py --opt-level O1", marks=[WITH_APEX, AUTOCAST]),
    pytest.param("apex_amp.py --opt-level O2", marks=WITH_APEX),
    pytest.param("apex_amp.py --opt-level O2 --loss-scale 128", marks=WITH_APEX),
    pytest.param("imagenet_ddp.py", marks=HCCL),
    pytest.param("fsdp2.py", marks=[HCCL, NORM]),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_same_losses_unmodified_and_converted(train, convert, free_port, command):
    name, *arguments = command.split()
    if name in ("imagenet_ddp.py", "fsdp2.py"):
        arguments += ["--port", free_port]
    unmodified = train(SCRIPTS / name, *arguments, transfer=True, path=[APEX])
    converted = train(convert(SCRIPTS / name), *arguments, path=[APEX])
    assert len(unmodified) > 1 and unmodified == converted


@pytest.mark.parametrize("command", ["mnist.py --no-cuda", "vae.py --no-cuda", "word_language_model.py --model Transformer"])
def test_losses_are_those_of_the_cpu(train, command):
    name, *arguments = command.split()
    on_npu = [word for word in arguments if word != "--no-cuda"] + (["--cuda"] if "language" in name else [])
    expected = train(SCRIPTS / name, *arguments, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert train(SCRIPTS / name, *on_npu, transfer=True) == pytest.approx(expected, rel=2e-3)
