"""How CUDA's names are said on npu: the rules of the converter, and the table of docs/cuda_to_npu.md."""

import functools
import inspect

import torch

from torch_npu import npu
from torch_npu.contrib._transfer import table

# Functions outside torch.cuda that mean CUDA without saying so: name -> (name on npu, argument to add or "").
CALLS: dict[str, tuple[str, str]] = {
    "torch.amp.GradScaler": ("torch.amp.GradScaler", 'device="npu"'),
    "torch.amp.grad_scaler.GradScaler": ("torch.amp.grad_scaler.GradScaler", 'device="npu"'),
    "torch.is_autocast_enabled": ("torch.is_autocast_enabled", '"npu"'),
    "torch.get_autocast_gpu_dtype": ("torch.get_autocast_dtype", '"npu"'),
    "torch.distributed.is_nccl_available": ("torch.distributed.is_backend_available", '"hccl"'),
}
DEVICE_PARAMETER = {"torch.amp.GradScaler": "device", "torch.amp.grad_scaler.GradScaler": "device"}

ATTRIBUTES = {
    "torch.profiler.ProfilerActivity.CUDA": "PrivateUse1",
    "torch.autograd.ProfilerActivity.CUDA": "PrivateUse1",
    "torch.distributed.Backend.NCCL": None,
}

REMOVED_IMPORTS = ("amp_C",)  # CUDA extension of apex; what needs it finds the Python way by itself


def on_npu(name: str) -> str | None:
    """The npu's name for one of torch.cuda ("torch.cuda.Stream"), or None if it has none."""
    if name == "torch.cuda":
        return "torch.npu"
    if name in table.RENAMED:
        other = table.RENAMED[name]
        return f"torch.npu.{other}" if hasattr(npu, other) else None
    owner: object = npu
    for part in name.split(".")[2:]:
        owner = getattr(owner, part, None)
        if owner is None:
            return None
    return "torch.npu" + name.removeprefix("torch.cuda")


def why_not(name: str) -> str:
    """What to do about a name of torch.cuda that npu does not have."""
    for prefix in (name, name.rpartition(".")[0]):
        if prefix in table.REFUSED:
            return table.REFUSED[prefix]
    return "npu has no such function; remove the call, or run it only where torch.cuda.is_available()"


_WORDS = {
    "nccl": "hccl",
    "NCCL": "HCCL",
    "CUDA_VISIBLE_DEVICES": "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING": "ASCEND_LAUNCH_BLOCKING",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
}
# Keys of torch's dispatcher, where a function for a script's own operator is registered.
DISPATCH_KEYS = {"CUDA": "PrivateUse1", "AutogradCUDA": "AutogradPrivateUse1", "AutocastCUDA": "AutocastPrivateUse1"}
REGISTERING = ("impl", "Library")


def string_on_npu(text: str) -> str | None:
    """A device, backend, tensor type or environment variable in a string, said for npu; None for any other text."""
    if text == "cuda" or text.startswith("cuda:"):
        return ",".join(_pair_on_npu(part) for part in text.split(","))
    if text in _WORDS:
        return _WORDS[text]
    if "cuda:nccl" in text.split(","):
        return ",".join(_pair_on_npu(part) for part in text.split(","))
    if text.startswith("torch.cuda.") and text.endswith(("Tensor", "Storage")):
        return "torch.npu." + text.removeprefix("torch.cuda.")
    return None


def _pair_on_npu(text: str) -> str:
    words = {"cuda": "npu", "nccl": "hccl"}
    return ":".join(words.get(word, word) for word in text.split(":"))


_SUBMODULES = ("amp", "nvtx")


def markdown_table() -> str:
    """CUDA name, npu name, difference, for every public name of torch.cuda and the rules above."""
    rows = []
    names = [name for name in torch.cuda.__all__ if not inspect.ismodule(vars(torch.cuda).get(name))]
    names += [f"{module}.{name}" for module in _SUBMODULES for name in getattr(torch.cuda, module).__all__]
    for name in sorted(names):
        ours = on_npu(f"torch.cuda.{name}")
        rows.append((f"torch.cuda.{name}", ours, _difference(name) if ours else why_not(f"torch.cuda.{name}")))
    rows += [(name, f"{ours}({argument})" if argument else ours, "") for name, (ours, argument) in CALLS.items()]
    rows += OTHER_ROWS
    lines = ["| CUDA | npu | difference |", "| --- | --- | --- |"]
    lines += [f"| `{cuda}` | {f'`{npu}`' if npu else '–'} | {text} |" for cuda, npu, text in rows]
    return "\n".join(lines) + "\n"


def _difference(name: str) -> str:
    """What a user notices: a remark, and the parameters and methods that npu's object lacks."""
    ours = on_npu(f"torch.cuda.{name}") or ""
    cuda, npu = (functools.reduce(getattr, text.split("."), torch) for text in (f"cuda.{name}", ours.removeprefix("torch.")))
    parts = [DIFFERENCES[name]] if name in DIFFERENCES else []
    missing = [word for word in _words(cuda) if word not in _words(npu)]
    if missing and not name.endswith("Tensor"):  # those make tensors, and are none themselves
        what = "attribute" if inspect.isclass(cuda) else "parameter"
        parts.append(f"no {what} " + ", ".join(f"`{word}`" for word in missing))
    return "; ".join(parts)


def _words(value: object) -> list[str]:
    """The public attributes of a class, the parameters of a function. A function that takes anything lacks nothing."""
    if inspect.isclass(value):
        return [name for name in dir(value) if not name.startswith("_")]
    try:
        parameters = inspect.signature(value).parameters if callable(value) else {}
    except ValueError:
        return []
    return [name for name in parameters if name not in ("args", "kwargs")]


DIFFERENCES = {
    "get_device_capability": "None, unless TORCH_NPU_DEVICE_CAPABILITY is set: an npu has no compute capability",
    "get_device_properties": "no `major` and `minor`",
    "device_count": "counts the cards of ASCEND_RT_VISIBLE_DEVICES",
    "is_bf16_supported": "asks the SoC",
}

OTHER_ROWS = [
    ("tensor.cuda()", "tensor.npu()", "also `module.cuda()`, `storage.cuda()`"),
    ("tensor.is_cuda", "tensor.is_npu", ""),
    ('device="cuda:0"', 'device="npu:0"', "an integer device means npu already"),
    ('torch.set_default_tensor_type("torch.cuda.FloatTensor")', 'torch.set_default_device("npu")',
     "and `torch.set_default_dtype`; torch's C++ knows no tensor type of npu as a default"),
    ('torch.autocast("cuda")', 'torch.autocast("npu")', ""),
    ('init_process_group("nccl")', 'init_process_group("hccl")', ""),
    ("torch.profiler.ProfilerActivity.CUDA", "torch.profiler.ProfilerActivity.PrivateUse1", "launches and asynchronous copies"),
    ("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "DataParallel is refused on several cards"),
    ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "environment variable"),
]
