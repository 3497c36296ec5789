#!/usr/bin/env python3
"""Runs a seeded program of common operators on npu without waiting in between and prints a digest of every result, one per line.

The same program gives the same bits at every level of the task queue: test/ops/test_queue_levels.py compares them.
"""

from __future__ import annotations

import hashlib
import random
import sys

import torch
from opinfo import OPS, UNINITIALISED, place, tensors

import torch_npu  # noqa: F401

SEED = 2026
# Wait for the device, which would empty the queue, or need host arguments.
LEFT_OUT = ("unique", "nonzero", "masked_select", "item", "tensor_split", "to_sparse", "sparse", "linalg", "jiterator", "tolist", "equal",
            "allclose", "histogramdd", "bincount", "repeat_interleave", "nested", "combinations", "_unsafe_masked_index")
COUNT = 200


def names() -> list[str]:
    known = [name for name, op in OPS.items() if torch.float32 in op.supported_dtypes("cpu") and op.name not in UNINITIALISED
             and not any(part in name for part in LEFT_OUT)]
    return random.Random(SEED).sample(sorted(known), COUNT)


def digest(tensor: torch.Tensor) -> str:
    bits = tensor.detach().cpu().contiguous()
    return hashlib.sha256(bits.reshape(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def main() -> None:
    torch.manual_seed(SEED)
    state = torch.linspace(-1, 1, 64, device="npu")
    results: list[tuple[str, list[torch.Tensor]]] = []
    for name in names():
        op = OPS[name]
        sample = next(iter(op.sample_inputs("cpu", torch.float32)))
        value, args, kwargs = place((sample.input, sample.args, sample.kwargs), "npu")
        try:
            found = [t for t in tensors(op(value, *args, **kwargs)) if t.device.type == "npu" and t.layout is torch.strided]
        except Exception as error:
            results.append((f"{name} {type(error).__name__}", []))
            continue
        for t in found:  # what follows depends on the order of everything before
            if t.numel() and not t.is_complex():
                state.mul_(0.75).add_(t.detach().float().mean().nan_to_num(0, 1, -1).clamp(-1, 1))
        results.append((name, [*found, state.clone()]))
    for name, found in results:
        print(name, *map(digest, found))


if __name__ == "__main__":
    sys.exit(main())
