"""Looking at tensors from inside of a model. The names speak of graphs, in which the official plugin prints and saves; here nothing is
captured, and both happen at once."""

import os
import threading
from datetime import datetime

import torch

_saved: dict[str, int] = {}  # how often a file was written
_lock = threading.Lock()


def print_npugraph_tensor(input, *, tensor_name=None):
    """`name=values, shape=..., dtype=...`"""
    values = input.detach().cpu()
    name = "" if tensor_name is None else f"{tensor_name}="
    print(f"{name}{values}, shape={tuple(values.shape)}, dtype={values.dtype}", flush=True)


def save_npugraph_tensor(input, *, save_path=None, overwrite=False):
    """Saves a CPU tensor as torch.save does: PATH_device_0_0.pt, and one more each time unless `overwrite`, which leaves out the count."""
    torch.save(input.detach().cpu(), _file(save_path, input.device, overwrite))


def save_npugraph_tensor_tensor_list(input, *, save_path=None, overwrite=False):
    if not input:
        raise ValueError("save_npugraph_tensor: the list of tensors is empty")
    if len({t.device for t in input}) > 1:
        raise ValueError("save_npugraph_tensor: the tensors must be on one device")
    torch.save([t.detach().cpu() for t in input], _file(save_path, input[0].device, overwrite))


def _file(save_path, device, overwrite):
    if save_path is None:
        save_path = f"tensor_{datetime.now():%Y%m%d_%H%M%S_%f}.pt"
    directory, name = os.path.split(save_path)
    stem, suffix = os.path.splitext(name)
    if not stem:
        raise ValueError(f"save_npugraph_tensor: save_path must name a file, got {save_path!r}")
    stem += "" if device.index is None else f"_device_{device.index}"
    if not overwrite:
        with _lock:
            count = _saved.get(f"{directory}/{stem}{suffix}", 0)
            _saved[f"{directory}/{stem}{suffix}"] = count + 1
        stem += f"_{count}"
    return os.path.join(directory, stem + (suffix or ".pt"))
