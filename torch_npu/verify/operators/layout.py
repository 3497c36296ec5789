"""Copies, casts, joins and rearrangements; tensors made from nothing. What is a view on every device is copied, so that strides count."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, INTEGERS, NUMBERS, Operator, f

X, WIDE, IMAGE = f(33, 64), f(4, 6, 10), f(2, 8, 6, 6)
TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "int32": torch.int32, "int64": torch.int64,
         "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool}


def view(name, function, inputs=(WIDE,), types=NUMBERS, **options):
    return Operator(name, lambda *t: function(*t).clone(memory_format=torch.contiguous_format), inputs, types, **options)


def padded(mode, *sizes):
    return Operator(f"F.pad_{mode}", lambda x: F.pad(x, sizes, mode), (f(2, 3, 8, 9),))


OPERATORS = [
    Operator("clone", lambda x: x.clone(), (X,), NUMBERS),
    Operator("copy_", lambda x, y: x.clone().copy_(y), (X, X), NUMBERS),
    Operator("copy_broadcast", lambda x, y: x.clone().copy_(y), (X, f(64)), NUMBERS),
    *[Operator(f"to_{name}", lambda x, t=dtype: (x * 3).to(t), (f(33, 64, low=0),), NUMBERS, gradient=False)
      for name, dtype in TYPES.items()],
    Operator("to_host_and_back", lambda x: x.cpu().to(x.device), (X,), NUMBERS),
    Operator("channels_last", lambda x: x.to(memory_format=torch.channels_last) + 1, (IMAGE,), NUMBERS),
    Operator("cat", lambda x, y: torch.cat([x, y]), (X, f(5, 64)), NUMBERS),
    Operator("cat_last", lambda x, y: torch.cat([x, y, x], -1), (X, f(33, 7)), NUMBERS),
    Operator("stack", lambda x, y: torch.stack([x, y], 1), (X, X), NUMBERS),
    Operator("split", lambda x: [part + 1 for part in x.split([10, 23])], (X,), NUMBERS),
    Operator("chunk", lambda x: [part + 1 for part in x.chunk(3, -1)], (X,), NUMBERS),
    Operator("unbind", lambda x: [part + 1 for part in x.unbind(1)], (WIDE,), NUMBERS),
    view("transpose", lambda x: x.transpose(0, 2)),
    view("permute", lambda x: x.permute(2, 0, 1)),
    view("movedim", lambda x: x.movedim(0, -1)),
    view("expand", lambda x: x[:, :, None].expand(4, 6, 5, 10)),
    view("slice", lambda x: x[1:, ::2, 3:9]),
    view("select", lambda x: x[:, 2]),
    view("narrow", lambda x: x.narrow(2, 1, 7)),
    view("unfold", lambda x: x.unfold(2, 4, 2)),
    view("diagonal", lambda x: x.diagonal(1, 1, 2)),
    view("as_strided", lambda x: x.contiguous().as_strided((3, 5), (20, 2), 4)),
    view("reshape", lambda x: x.transpose(0, 1).reshape(12, 20)),
    view("view_chain", lambda x: x.transpose(0, 2)[1:7, ::2].permute(1, 2, 0).flip(0)),
    Operator("assign_slice", lambda x, y: x.clone().index_fill_(0, torch.tensor([1], device=x.device), 2).add_(y), (X, X), NUMBERS),
    Operator("write_into_view", lambda x, y: (lambda c: (c[:, 1::2].copy_(y), c)[1])(x.clone()), (X, f(33, 32)), NUMBERS),
    Operator("flip", lambda x: x.flip(0, 2), (WIDE,), NUMBERS),
    Operator("roll", lambda x: x.roll((1, -2), (0, 2)), (WIDE,), NUMBERS),
    Operator("rot90", lambda x: x.rot90(1, (0, 1)), (X,), NUMBERS),
    Operator("repeat", lambda x: x.repeat(2, 1, 3), (WIDE,), NUMBERS),
    Operator("tile", lambda x: x.tile(3), (WIDE,), NUMBERS),
    Operator("repeat_interleave", lambda x: x.repeat_interleave(3, 1), (WIDE,), NUMBERS),
    Operator("tril", torch.tril, (X,), NUMBERS),
    Operator("triu", lambda x: x.triu(2), (X,), NUMBERS),
    Operator("diag", lambda x: torch.diag(x), (f(9),), NUMBERS),
    Operator("diag_embed", torch.diag_embed, (f(3, 5),), NUMBERS),
    Operator("F.pad_constant", lambda x: F.pad(x, (1, 2, 3, 0), value=1.5), (IMAGE,)),
    padded("reflect", 1, 2, 3, 1), padded("replicate", 2, 1, 1, 2), padded("circular", 1, 1, 2, 2),
    Operator("F.pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), (IMAGE,)),
    Operator("F.pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (IMAGE,)),
    Operator("F.channel_shuffle", lambda x: F.channel_shuffle(x, 2), (IMAGE,), FLOAT32, gradient=False),
    Operator("meshgrid", lambda x, y: [t + 0 for t in torch.meshgrid(x, y, indexing="ij")], (f(5), f(7)), NUMBERS),
    # from nothing: the input says on which device
    Operator("zeros_like", torch.zeros_like, (X,), NUMBERS, gradient=False),
    Operator("ones_like", torch.ones_like, (X,), NUMBERS, gradient=False),
    Operator("full_like", lambda x: torch.full_like(x, 3), (X,), NUMBERS, gradient=False),
    Operator("new_full", lambda x: x.new_full((3, 4), 7), (X,), NUMBERS, gradient=False),
    Operator("arange", lambda x: torch.arange(3, 40, 2, device=x.device, dtype=x.dtype), (f(1),), (torch.float32, *INTEGERS),
             gradient=False),
    Operator("linspace", lambda x: torch.linspace(-1, 1, 37, device=x.device, dtype=x.dtype), (f(1),), FLOAT32, gradient=False),
    Operator("logspace", lambda x: torch.logspace(-1, 1, 17, device=x.device, dtype=x.dtype), (f(1),), FLOAT32, gradient=False),
    Operator("eye", lambda x: torch.eye(9, 12, device=x.device, dtype=x.dtype), (f(1),), (torch.float32, *INTEGERS), gradient=False),
    Operator("tril_indices", lambda x: torch.tril_indices(6, 7, device=x.device), (f(1),), FLOAT32, gradient=False),
    Operator("triu_indices", lambda x: torch.triu_indices(6, 7, device=x.device), (f(1),), FLOAT32, gradient=False),
]
