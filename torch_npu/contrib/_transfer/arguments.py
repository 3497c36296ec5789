"""Turns the arguments that name a CUDA device or its backends into those that name npu. Everything else passes unchanged."""

import sys

import torch

from torch_npu.contrib._transfer.environment import before_use

enabled = False  # wrappers outlive undo() where other modules hold them; then they must do nothing


def device(value):
    """A device in any form torch takes: a string, a torch.device, or a list, tuple or dict of them."""
    kind = type(value)
    if kind is str:
        if value[:4] != "cuda" or value[4:5] not in ("", ":") or not enabled:
            return value
        before_use()
        return "npu" + value[4:]
    if kind is torch.device:
        if value.type != "cuda" or not enabled:
            return value
        before_use()
        return torch.device("npu", value.index)
    if kind in (list, tuple):
        changed = kind(map(device, value))
        return changed if changed != value else value
    if kind is dict:
        changed = {key: device(item) for key, item in value.items()}
        return changed if changed != value else value
    return value


def map_location(value):
    """As device(), or a number; a dict of locations also holds for files that were written by this script, whose tensors were on npu."""
    if isinstance(value, dict):
        return {**{device(key): device(item) for key, item in value.items()},
                **{key: device(item) for key, item in value.items()}} if enabled else value  # fmt: skip
    return torch.device("npu", value) if enabled and type(value) is int else device(value)


def backend(value):
    """"nccl", or a list such as "cpu:gloo,cuda:nccl"."""
    if not enabled or not isinstance(value, str):
        return value
    parts = [part.split(":") for part in value.split(",")]
    words = {"nccl": "hccl", "cuda": "npu"}
    return ",".join(":".join(words.get(word.strip().lower(), word) for word in part) for part in parts)


def activities(value):
    """Profiler activities: CUDA is the npu's activity, or nothing where no profiler of the npu is registered."""
    from torch.profiler import ProfilerActivity, supported_activities

    if not enabled or value is None or ProfilerActivity.CUDA not in (value := list(value)):
        return value
    rest = [activity for activity in value if activity is not ProfilerActivity.CUDA]
    npu = [ProfilerActivity.PrivateUse1] if ProfilerActivity.PrivateUse1 in supported_activities() else []
    return rest + [activity for activity in npu if activity not in rest] or [ProfilerActivity.CPU]


def dispatch_key(value):
    """The dispatcher's keys "CUDA", "AutogradCUDA", "AutocastCUDA". torch and torchvision register for npu by themselves."""
    if not enabled or value not in ("CUDA", "AutogradCUDA", "AutocastCUDA"):
        return value
    frame = sys._getframe(1)
    while (caller := frame.f_globals.get("__name__", "")).startswith("torch_npu.contrib._transfer.") and frame.f_back:
        frame = frame.f_back
    return value if caller.partition(".")[0] in ("torch", "torch_npu", "torchvision") else value.replace("CUDA", "PrivateUse1")


# The rewriting of a parameter follows from its name.
BY_NAME = {"map_location": map_location, "backend": backend, "activities": activities, "dispatch_key": dispatch_key}
