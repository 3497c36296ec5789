"""Copies of chains of views: one launch, whatever COMBINED_ENABLE says."""

import json
import math
import os
import subprocess
import sys

import counters
import pytest
import torch
import view_chains

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")


@pytest.mark.parametrize("combined", [None, "1", "0"])
def test_launches_of_a_chain(combined):
    environment = {name: value for name, value in os.environ.items() if name != "COMBINED_ENABLE"}
    environment |= {"COMBINED_ENABLE": combined} if combined else {}
    process = subprocess.run([sys.executable, view_chains.__file__], env=environment, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == dict.fromkeys(view_chains.CHAINS, 1)


VIEWS = {
    "permute": lambda t: t.permute(*reversed(range(t.dim()))), "transpose": lambda t: t.transpose(0, -1), "slice": lambda t: t[::2],
    "select": lambda t: t.select(-1, 1), "narrow": lambda t: t.narrow(0, 0, max(1, t.size(0) // 2)),
    "expand": lambda t: t.unsqueeze(0).expand(3, *t.shape),
}


@pytest.mark.parametrize("second", VIEWS)
@pytest.mark.parametrize("first", VIEWS)
def test_a_chain_of_views_is_copied_by_one_launch(first, second):
    x = torch.arange(17 * 18 * 40, dtype=torch.float32).reshape(17, 18, 40)
    chain = lambda t: VIEWS[second](VIEWS[first](t))  # noqa: E731
    copy = lambda t: chain(t).clone(memory_format=torch.contiguous_format)  # noqa: E731
    on_npu = x.npu()
    copy(on_npu)
    with counters.Counted() as count:
        copied = copy(on_npu)
    assert count.tasks == 1
    assert torch.equal(copied.cpu(), copy(x))
    with counters.Counted() as count:
        copied.copy_(chain(on_npu))
    assert count.tasks == 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64, torch.complex128])
@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 2, 1, 0), (0, 1, 3, 2), (2, 3, 0, 1), (3, 0, 1, 2)])
@pytest.mark.parametrize("shape", [(9, 33, 17, 20), (8, 4, 32, 64)], ids=["odd", "powers of two"])
@pytest.mark.parametrize("chain", [
    lambda t, order: t.permute(order)[..., 1:], lambda t, order: t.permute(order)[..., ::2], lambda t, order: t[..., 1::2].permute(order),
    lambda t, order: t[:, :, 3].unsqueeze(1).permute(order),
], ids=["narrow", "slice", "slice first", "select first"])
def test_a_copy_between_layouts_equals_the_cpus(dtype, order, shape, chain):
    x = (torch.arange(math.prod(shape)) % 251).to(dtype).reshape(shape)
    expected, turned = chain(x, order), chain(x.npu(), order)
    assert torch.equal(turned.contiguous().cpu(), expected)
    target = torch.zeros(list(reversed(expected.shape)), dtype=dtype, device="npu").permute(3, 2, 1, 0)
    assert torch.equal(target.copy_(turned).cpu(), expected)
