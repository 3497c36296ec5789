"""torch_npu._apply_patches, which programs call to give torch functions of torch_npu under torch's own names."""

import torch


def apply_patches(patches) -> None:
    """Sets attributes of torch: [["profiler.profile", torch_npu.profiler.profile]] sets torch.profiler.profile.

    torch_npu itself calls it with nothing: what is set is the caller's choice, for the whole process.
    """
    for path, value in patches:
        *parts, name = path.split(".")
        owner = torch
        for part in parts:
            owner = getattr(owner, part)
        setattr(owner, name, value)
