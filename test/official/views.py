"""Views: what they show, writing through them, and what the client does with their strides and formats."""

import torch
from rows import each
from torch.utils.dlpack import from_dlpack, to_dlpack

import torch_npu

IN_MODES = ("queue 1",)
VIEWS = {
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(2, 0, 1),
    "t of a matrix": lambda x: x[0].t(),
    "select": lambda x: x[1],
    "select of the last": lambda x: x[..., -1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "slice": lambda x: x[:, 1:],
    "slice with a step": lambda x: x[:, :, ::2],
    "slice of nothing": lambda x: x[:, 2:2],
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "view": lambda x: x.view(4, -1),
    "reshape": lambda x: x.reshape(3, 8),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(2, (2, 2)),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 2),
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "split": lambda x: x.split(2, 2)[1],
    "chunk": lambda x: x.chunk(2, 2)[0],
    "unbind": lambda x: x.unbind(1)[2],
    "movedim": lambda x: x.movedim(0, 2),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "hsplit": lambda x: x[:, :2].hsplit(2)[1],
    "tensor_split": lambda x: x.tensor_split(3, 2)[0],
    "mT": lambda x: x.mT,
    "adjoint": lambda x: x.adjoint(),
    "detach": lambda x: x.detach(),
    "select of a transpose": lambda x: x.transpose(0, 2)[1],
    "slice of a permuted slice": lambda x: x[:, 1:].permute(2, 1, 0)[1:3, :, ::1],
    "view as another type": lambda x: x.view(torch.int32),
    "view as complex": lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)),
}
READ_ONLY = {
    "expand": lambda x: x[:, :1].expand(2, 5, 4),
    "expand_as": lambda x: x[0, 0].expand_as(x),
    "broadcast_to": lambda x: x[:1].broadcast_to(3, 3, 4),
    "flipped": lambda x: x.flip(0),
    "rot90": lambda x: x.rot90(1, (0, 1)),
    "repeated": lambda x: x.repeat(1, 2, 1),
}


def numbers():
    return torch.arange(24.0).view(2, 3, 4)


@each(VIEWS, READ_ONLY)
def check_a_view_shows_what_the_cpus_does(view):
    expected, found = view(numbers()), view(numbers().npu())
    assert found.shape == expected.shape and torch.equal(found.cpu(), expected)
    assert torch.equal(found.contiguous().cpu(), expected)


@each(VIEWS)
def check_writing_through_a_view(view):
    x = numbers()
    y = x.npu()
    for base in (x, y):
        target = view(base)
        assert target.untyped_storage().data_ptr() == base.untyped_storage().data_ptr() or not target.numel()
        target.copy_(torch.full(target.shape, 7, dtype=target.dtype))
        target += 1 if target.dtype != torch.int32 else 0
    assert torch.equal(x, y.cpu())


@each({name: VIEWS[name] for name in ("transpose", "permute", "slice with a step", "diagonal", "as_strided", "unfold")})
def check_operators_write_into_views(view):
    x = numbers()
    y = x.npu()
    for base in (x, y):
        target = view(base)
        torch.add(target, target, out=target)
    assert torch.equal(x, y.cpu())


@each(
    {
        "empty": lambda d: torch.empty(2, 3, device=d),
        "strided": lambda d: torch.empty_strided((2, 3), (1, 2), device=d),
        "like a transpose": lambda d: torch.empty_like(torch.empty(2, 3, device=d).t()),
        "clone of a slice": lambda d: torch.ones(4, 6, device=d)[:, ::2].clone(),
        "of no elements": lambda d: torch.empty(0, 3, device=d),
    }
)
def check_strides_of(make):
    assert make("npu").stride() == make("cpu").stride()


def check_copy_memory():
    x, y = torch.zeros(4).npu(), torch.arange(4.0).npu()
    torch_npu.copy_memory_(x, y)
    assert x.tolist() == [0, 1, 2, 3]


# dlpack, both ways.
@each([torch.float32, torch.float16, torch.int32, torch.int64, torch.uint8, torch.int8])
def check_dlpack_shares_memory(dtype):
    x = torch.ones(3, dtype=dtype).npu()
    y = from_dlpack(to_dlpack(x))
    y.add_(1)
    assert x.tolist() == [2, 2, 2] and y.dtype == dtype
