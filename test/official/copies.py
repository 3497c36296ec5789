"""Copies between host and cards, on a card and between cards."""

import io

import torch

import torch_npu  # noqa: F401

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.uint8, torch.bool, torch.complex64)


def sample(dtype, *shape):
    return torch.randn(shape).mul(10).to(dtype) if dtype != torch.complex64 else torch.randn(shape, dtype=dtype)


def check_round_trip_of_every_dtype():
    for dtype in DTYPES:
        x = sample(dtype, 3, 5)
        assert torch.equal(x.npu().cpu(), x), dtype


def check_strided_views():
    x = torch.randn(6, 8)
    y = x.npu()
    for view in (lambda t: t.t(), lambda t: t[::2, 1:7:3], lambda t: t[1], lambda t: t[:, :1].expand(6, 4), lambda t: t[3:3]):
        assert torch.equal(view(y).cpu(), view(x))
        assert torch.equal(view(y).contiguous().cpu(), view(x).contiguous())
    y[::2, 1:7:3] = torch.ones(3, 2)
    x[::2, 1:7:3] = 1
    assert torch.equal(y.cpu(), x)


def check_casts_on_the_card():
    x = torch.randn(4, 4)
    for dtype in (torch.float16, torch.bfloat16, torch.int32, torch.bool):
        assert torch.equal(x.npu().to(dtype).cpu(), x.to(dtype)), dtype


def check_pinned_memory_without_blocking():
    x = torch.randn(1 << 18).pin_memory()
    assert x.is_pinned()
    y = x.to("npu", non_blocking=True)
    back = torch.empty_like(x, pin_memory=True)
    back.copy_(y * 2, non_blocking=True)
    torch.npu.synchronize()
    torch.testing.assert_close(back, x * 2)


def check_between_cards():
    x = torch.randn(100, 3)
    y = x.to("npu:0").to("npu:1")
    assert y.device == torch.device("npu:1")
    assert torch.equal(y.cpu(), x)


def check_large_copy():
    x = torch.arange(1 << 22, dtype=torch.float32)
    assert torch.equal(x.npu().cpu(), x)


def check_item():
    assert torch.tensor(2.5).npu().item() == 2.5
    assert torch.tensor([7]).npu().item() == 7
    assert bool(torch.tensor(True).npu())


def check_save_and_load():
    x = torch.randn(3, 4)
    file = io.BytesIO()
    torch.save({"x": x.npu()}, file)
    for location in ("cpu", "npu:1"):
        file.seek(0)
        y = torch.load(file, map_location=location)["x"]
        assert y.device == torch.device(location)
        assert torch.equal(y.cpu(), x)
