"""Private formats. Out of FRACTAL_Z and the formats of volumes, and for operators on all of them, the client calls operators of the
interface before aclnn (Identity, Mul, Fill), which softnpu does not have."""

import io

import torch
from rows import each

import torch_npu

IN_MODES = ("queue 1",)
APART = True  # with private formats the client takes other operators
# A number and a shape that it fits.
FORMATS = {
    "ND": (2, (5, 7)),
    "NCHW": (0, (2, 3, 4, 5)),
    "NHWC": (1, (2, 3, 4, 5)),
    "NC1HWC0": (3, (2, 3, 4, 5)),
    "FRACTAL_NZ": (29, (5, 7)),
    "FRACTAL_NZ of a batch": (29, (2, 5, 7)),
}
PRIVATE = {name: row for name, row in FORMATS.items() if row[0] > 2}


def formatted(row):
    number, shape = row
    torch.npu.config.allow_internal_format = True
    x = torch.randn(shape)
    return x, torch_npu.npu_format_cast(x.npu(), number)


@each(FORMATS)
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
def check_a_format_is_saved_and_loaded(row):
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
