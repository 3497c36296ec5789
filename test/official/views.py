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


# Private formats: of a tensor with these dimensions.
FORMATS = {
    "ND": (2, (5, 7)),
    "NCHW": (0, (2, 3, 4, 5)),
    "NHWC": (1, (2, 3, 4, 5)),
    "NC1HWC0": (3, (2, 3, 4, 5)),
    "FRACTAL_Z": (4, (2, 3, 4, 5)),
    "FRACTAL_NZ": (29, (5, 7)),
    "FRACTAL_NZ of a batch": (29, (2, 5, 7)),
    "NDC1HWC0": (32, (2, 3, 4, 5, 6)),
    "FRACTAL_Z_3D": (33, (2, 3, 4, 5, 6)),
}
PRIVATE = {name: row for name, row in FORMATS.items() if row[0] > 2}


def formatted(row):
    number, shape = row
    torch.npu.config.allow_internal_format = True
    x = torch.randn(shape)
    return x, torch_npu.npu_format_cast(x.npu(), number)


# Out of the others the client goes by the operator Identity of the older interface, which softnpu does not have.
@each({name: row for name, row in FORMATS.items() if name not in ("FRACTAL_Z", "NDC1HWC0", "FRACTAL_Z_3D")})
def check_values_go_through_a_format(row):
    x, y = formatted(row)
    assert torch.equal(y.cpu(), x)
    assert torch.equal(torch_npu.npu_format_cast(y, 2).cpu(), x)


@each(PRIVATE)
def check_a_format_has_a_number_and_a_name(row):
    _, y = formatted(row)
    assert int(torch_npu.get_npu_format(y)) == row[0]
    assert torch_npu.Format(row[0]).name in FORMATS or row[0] == 29


@each(PRIVATE)
def check_a_format_has_room_for_its_blocks(row):
    x, y = formatted(row)
    assert torch_npu.get_storage_size(y) >= x.numel() and torch_npu.get_storage_size(y) % 16 == 0


@each(PRIVATE)
def check_operators_take_a_format(row):
    x, y = formatted(row)
    torch.testing.assert_close((y * 2 + 1).cpu(), x * 2 + 1)
    torch.testing.assert_close(y.sum(-1).cpu(), x.sum(-1))


@each(PRIVATE)
def check_a_format_is_saved_and_loaded(row):
    import io

    x, y = formatted(row)
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    z = torch.load(file, map_location="npu:0")
    assert torch.equal(z.cpu(), x)


@each(PRIVATE)
def check_a_format_is_made_empty(row):
    torch.npu.config.allow_internal_format = True
    x = torch_npu.empty_with_format(row[1], dtype=torch.float32, device="npu", acl_format=row[0])
    assert int(torch_npu.get_npu_format(x)) == row[0] and tuple(x.shape) == row[1]
    x.fill_(3)
    assert (x.cpu() == 3).all()


def check_a_format_is_changed_in_place():
    x, y = formatted((29, (5, 7)))
    torch_npu.npu_format_cast_(y, 2)
    assert int(torch_npu.get_npu_format(y)) == 2 and torch.equal(y.cpu(), x)


def check_products_of_a_format():
    torch.npu.config.allow_internal_format = True
    x, w = torch.randn(4, 32).half(), torch.randn(32, 16).half()
    weight = torch_npu.npu_format_cast(w.npu(), 29)
    torch.testing.assert_close(torch.mm(x.npu(), weight).cpu(), x @ w, rtol=1e-2, atol=1e-2)


def check_without_private_formats_a_cast_changes_nothing():
    torch.npu.config.allow_internal_format = False
    try:
        x = torch_npu.npu_format_cast(torch.ones(5, 7).npu(), 29)
        assert int(torch_npu.get_npu_format(x)) == 2
    finally:
        torch.npu.config.allow_internal_format = True


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
