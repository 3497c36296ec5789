"""Private formats. Operators on them are sent through the interface before aclnn; FRACTAL_Z and the formats of volumes are not there."""

import io

import torch
from rows import each
from torch.nn import functional as F

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


# What the client sends for tensors in a private format, beside products.
OPERATORS = {
    "numbers": lambda x: (x * 2 + 1 - x / 3, 1 - x, x**2, -x),
    "tensors": lambda x: (x + x, x * x.flip(0), torch.maximum(x, -x), torch.addcmul(x, x, x), torch.lerp(x, -x, 0.3)),
    "functions": lambda x: (x.exp(), x.abs().log(), x.abs().sqrt(), x.abs().rsqrt(), x.sin(), x.erf(), x.floor(), x.ceil(), x.sign()),
    "activations": lambda x: (x.relu(), x.sigmoid(), x.tanh(), F.leaky_relu(x), F.elu(x), F.hardswish(x), F.softplus(x), F.silu(x)),
    "reductions": lambda x: (x.sum(), x.sum(0), x.max(), x.min(), x.prod(), (x > 0).any(), x.sum(-1, keepdim=True)),
    "rows": lambda x: (x.softmax(-1), x.log_softmax(-1), x.cumsum(0), x.argmax(-1), x.topk(2)[0], F.layer_norm(x, x.shape[-1:])),
    "parts": lambda x: (x[..., 1:4].contiguous(), x[0], x.reshape(-1), x.transpose(-1, -2).contiguous(), x.flip(0), x.tril()),
    "joined": lambda x: (torch.cat([x, x]), torch.stack([x, x]), x.repeat(*[2] * x.dim()), F.pad(x, (1, 2), value=3.0)),
    "selected": lambda x: (torch.where(x > 0, x, -x), x.clamp(0, 1), x.masked_fill(x > 0, 1.0), x == x, x.gather(-1, (x > 9).long())),
    "filled": lambda x: (torch.zeros_like(x), torch.ones_like(x), torch.full_like(x, 2.0), x.clone().fill_(3), x.clone().add_(1)),
    "types": lambda x: (x.half().float(), x.long(), x.bool()),
}


@each({f"{name}, {kind}": (PRIVATE[kind], function) for name, function in OPERATORS.items() for kind in PRIVATE})
def check_operators_on_a_format(row):
    layout, function = row
    x, y = formatted(layout)
    for got, expected in zip(function(y), function(x), strict=True):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-3)


def check_convolution_of_a_format():
    x, y = formatted(PRIVATE["NC1HWC0"])
    w = torch.randn(4, 3, 3, 3)
    got = F.conv2d(y.half(), w.npu().half(), padding=1).float().cpu()
    torch.testing.assert_close(got, F.conv2d(x, w, padding=1), rtol=2e-2, atol=2e-2)


def check_an_operator_that_is_not_there_is_named():
    torch.npu.config.allow_internal_format = True
    _, y = formatted(PRIVATE["NC1HWC0"])
    try:
        F.max_pool2d(y, 2)
        torch.npu.synchronize()
    except RuntimeError as error:
        assert "MaxPoolWithArgmaxV1" in str(error), error
    else:
        raise AssertionError("nothing was refused")
