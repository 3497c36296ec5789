#!/usr/bin/env python3
"""Copies chains of views on npu, compares them with the CPU's and prints the launches of each as JSON: {name: count}.

test/ops/test_view_chains.py runs it with and without COMBINED_ENABLE, which changes nothing.
"""

from __future__ import annotations

import json
from itertools import product

import torch
from counters import Counted

import torch_npu  # noqa: F401

BASE = torch.arange(6 * 8 * 10, dtype=torch.float32).reshape(6, 8, 10)
CHAINS = {
    "contiguous": lambda t: t,
    "outer rows": lambda t: t[2:5],
    "slice": lambda t: t[:, ::2],
    "two slices": lambda t: t[:, 1:7:2, 3:],
    "select": lambda t: t.select(2, 3),
    "permute": lambda t: t.permute(2, 0, 1),
    "permute, outer rows": lambda t: t.permute(2, 0, 1)[:, 1:4],
    "expand": lambda t: t.unsqueeze(1).expand(6, 5, 8, 10),
    "windows": lambda t: t.flatten().unfold(0, 7, 2),
    "permute, slice": lambda t: t.permute(2, 0, 1)[:, ::2],
    "slice, permute": lambda t: t[..., 1:6].permute(1, 2, 0),
    "transpose, select": lambda t: t.transpose(0, 1).select(2, 5),
    "select, expand": lambda t: t.select(1, 2).expand(4, 6, 10),
    "expand, slice": lambda t: t.unsqueeze(0).expand(4, 6, 8, 10)[..., ::3],
    "transpose, expand": lambda t: t.transpose(0, 2).unsqueeze(2).expand(10, 8, 3, 6),
    "windows, transpose": lambda t: t.flatten().unfold(0, 7, 2).t(),
    "slice, permute, expand": lambda t: t[:, :3].permute(2, 1, 0).unsqueeze(1).expand(10, 2, 3, 6),
    "select, transpose, expand, slice": lambda t: t.select(1, 0).t().unsqueeze(0).expand(3, 10, 6)[:, ::2],
}
DTYPES = (torch.float32, torch.uint8, torch.bfloat16, torch.int64, torch.complex128, torch.float8_e4m3fn)


def launches(copy) -> tuple[torch.Tensor, int]:
    torch.npu.synchronize()
    with Counted() as count:
        result = copy()
        torch.npu.synchronize()
    return result, count.tasks


def check(name: str, result: torch.Tensor, expected: torch.Tensor) -> None:
    bits = lambda t: t.cpu().contiguous().view(torch.uint8)  # noqa: E731, float8 cannot be compared
    assert torch.equal(bits(result), bits(expected)), f"{name} differs from the CPU's"


def main() -> None:
    counts = {}
    for (name, chain), dtype in product(CHAINS.items(), DTYPES):
        host, card = (BASE % 251).to(dtype), (BASE % 251).to(dtype).npu()
        expected = chain(host).clone(memory_format=torch.contiguous_format)
        target = torch.empty_like(expected, device="npu")
        result, count = launches(lambda: target.copy_(chain(card)))  # noqa: B023
        check(name, result, expected)
        assert counts.setdefault(name, count) == count, f"{name} of {dtype} takes {count} launches, {counts[name]} of other types"
        check(f"{name} to the host", chain(card).cpu(), expected)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        check(f"{name} with a cast", chain(card).to(wide), expected.to(wide))
        turned = torch.empty(expected.shape[::-1], dtype=dtype, device="npu").permute(*reversed(range(expected.dim())))
        check(f"{name} into a permuted tensor", turned.copy_(chain(card)), expected)
        if torch.npu.device_count() > 1:
            check(f"{name} to another card", chain(card).to("npu:1"), expected)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
