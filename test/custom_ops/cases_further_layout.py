"""Further forms of casts, views, convolutions, sorts, losses and products in batches."""

import torch
from cases import Case, X, grads, rand
from cases_misc import PROBABILITIES, REDUCTIONS, bce, kl_div, looked_up, loss_gradient
from torch.nn import functional as F

CUBE, EMPTY = rand(2, 3, 4, 5), rand(0, 4)
IMAGE, KERNEL = rand(2, 4, 7, 6), rand(6, 2, 3, 2)
VOLUME, BLOCK = rand(2, 4, 4, 5, 3), rand(6, 2, 2, 3, 1)


def plain(op, args, function, label, out=None, **more):
    """A case, and that of the form with a given result."""
    cases = [Case(op, args, function, label=label, **more)]
    if out is not None:
        cases.append(Case(f"{op}.out", args, lambda *a, out: function(*a), {"out": torch.zeros(out)}, label=label))
    return cases


def transposed(x, w, b, p, o, s, d, g):
    return (F.conv_transpose2d if x.dim() == 4 else F.conv_transpose3d)(x, w, b, s, p, o, g, d)


CAST = [
    *[Case("npu_dtype_cast_", (x.to(kind), x), lambda a, b: b.to(a.dtype), label=str(kind))
      for x, kind in ((X, torch.bfloat16), (X * 9, torch.int32), (EMPTY, torch.float16))],
    Case("npu_dtype_cast_backward", (X.bfloat16(), torch.float32), lambda g, d: g.to(d), label="bfloat16"),
    Case("_npu_dtype_cast", (X, torch.bfloat16), lambda x, d: x.to(d), grad=(0,), label="bfloat16"),
    Case("_npu_dtype_cast", (X * 9, torch.int32), lambda x, d: x.to(d), label="int32"),
    Case("_npu_dtype_cast_backward", (X, torch.bfloat16), lambda x, d: x.to(d), label="bfloat16"),
    Case("_npu_dtype_cast_backward", (EMPTY, torch.float16), lambda x, d: x.to(d), label="empty"),
    Case("copy_memory_", (X, X[:1, :1] + 1, True), lambda x, y, n: y.expand_as(x), label="broadcast"),
    Case("copy_memory_", (EMPTY, EMPTY), lambda x, y: y, label="empty"),
    Case("one_", (torch.arange(5),), torch.ones_like, label="int64"),
    Case("one_", (torch.zeros(2, 2, dtype=torch.bool),), torch.ones_like, label="bool"),
    Case("npu_alloc_float_status", (EMPTY,), lambda x: torch.zeros(8), label="empty"),
    Case("npu_alloc_float_status", (torch.arange(3),), lambda x: torch.zeros(8), label="int64"),
    Case("npu_view_copy", (X, X[:, :1] + 1, True), lambda x, y, n: y.expand_as(x), label="broadcast"),
    Case("npu_view_copy", (X, (X * 9).int(), False), lambda x, y, n: y.float(), label="another type"),
    Case("npu_format_cast.Tensor", (rand(33, 17), rand(3)), lambda x, y: x, grad=(0,), label="matrix"),
    Case("npu_format_cast.Tensor", (rand(5), rand(2, 3, 4, 5)), lambda x, y: x, grad=(0,), label="of another rank"),
    Case("npu_format_cast_", (rand(5), rand(5) + 1), lambda x, y: y, label="vector"),
    Case("npu_format_cast_", (X.half(), X), lambda x, y: y.half(), label="another type"),
    Case("npu_format_cast_.acl_format", (CUBE, 0), lambda x, f: x, label="NCHW"),
    Case("_npu_format_cast.aclnn", (rand(33, 17), 29, 6), lambda x, *_: x, grad=(0,), label="matrix"),
    Case("_npu_format_cast.aclnn", (X, 2, 6), lambda x, *_: x, grad=(0,), label="ND"),
    Case("_npu_format_cast.input_dtype", (torch.arange(96).view(2, 3, 16).to(torch.int8), 29, 1, 1), lambda x, *_: x, label="batch"),
    Case("_npu_format_cast.input_dtype", (torch.arange(32).view(2, 16).to(torch.int8), 2, 1, 1), lambda x, *_: x, label="ND"),
    Case("get_npu_format", (rand(1, 2, 3, 4, 5),), lambda x: 30, label="5d"),
    Case("get_storage_size", (rand(1)[0],), lambda x: 1, label="number"),
    Case("get_storage_size", (EMPTY,), lambda x: 0, label="empty"),
    Case("npu_prefetch", (X, None, 4, 16), lambda *_: (), label="from an offset"),
    Case("npu_prefetch", (X, X, 100), lambda *_: (), label="after another tensor"),
]

LAYOUT = [
    *plain("npu_transpose", (CUBE, [3, 1, 0, 2]), lambda x, p: x.permute(p), "four dimensions", (5, 3, 2, 4), grad=(0,)),
    *plain("npu_transpose", (EMPTY, [1, 0]), lambda x, p: x.permute(p), "empty", (4, 0)),
    *plain("npu_reshape", (CUBE, [6, -1]), lambda x, s: x.reshape(s), "a length that follows", (6, 20), grad=(0,)),
    *plain("npu_reshape", (EMPTY, [4, 0]), lambda x, s: x.reshape(s), "empty", (4, 0)),
    *plain("npu_slice", (CUBE, [0, 0, 1, 4], [2, 3, 3, 1]), lambda x, o, s: x[:, :, 1:, 4:], "last column", (2, 3, 3, 1), grad=(0,)),
    Case("npu_slice.out", (CUBE, [1, 2, 3, 0], [1, 1, 1, -1]), lambda x, o, s, out: x[1:, 2:, 3:], {"out": torch.zeros(1, 1, 1, 5)},
         label="to the end"),
    *plain("npu_broadcast", (rand(3, 1), [2, 3, 4]), lambda x, s: x.expand(s), "columns", (2, 3, 4), grad=(0,)),
    *plain("npu_broadcast", (rand(1)[0], [5]), lambda x, s: x.expand(s), "a number", (5,), grad=(0,)),
    *plain("npu_pad", (CUBE, [0, 1, 0, 0, 2, 0, 1, 3]), lambda x, p: F.pad(x, [1, 3, 2, 0, 0, 0, 0, 1]), "four dimensions", grad=(0,)),
    *plain("npu_pad", (rand(5), [0, 0]), lambda x, p: x, "nothing", grad=(0,)),
    *plain("npu_stride_copy", (CUBE, [3, 2], [1, 40], 2), lambda x, s, t, o: x.as_strided(s, t, o), "columns", (3, 2)),
    *plain("npu_stride_copy", (CUBE, [4], [0], 7), lambda x, s, t, o: x.as_strided(s, t, o), "one element", (4,)),
    *plain("npu_sort_v2", (CUBE, 0), lambda x, d: x.sort(d).values, "axis 0", (2, 3, 4, 5), grad=(0,)),
    Case("npu_sort_v2.out", (X,), lambda x, out: x.sort(-1).values, {"out": torch.zeros(4, 6, 8)}, label="defaults"),
    Case("npu_max.dim", (CUBE, 0), lambda x, d: (x.max(d).values, x.max(d).indices.int()), grad=(0,), label="first"),
    Case("npu_min.dim", (CUBE, -1), lambda x, d: (x.min(d).values, x.min(d).indices.int()), grad=(0,), label="last"),
    Case("npu_scatter", (rand(2, 5), torch.tensor([1, 1, 1, 1, 1]), rand(5), 0), lambda x, i, u, d: x.scatter(0, i[None], u[None]),
         grad=(0, 2), label="one row"),
    Case("npu_indexing", (CUBE, [0, 0, 0, 0], [2, 3, 4, 5], [1, 2, 3, 4]), lambda x, *_: x[:, ::2, ::3, ::4], grad=(0,), label="steps"),
    Case("npu_indexing.out", (CUBE, [0, 0, 1, 0], [2, 3, 4, 5], [1, 2, 1, 4]), lambda x, *_, out: x[:, ::2, 1:, ::4], {"out": rand(1)},
         label="steps"),
    Case("npu_indexing.out", (rand(7), [6], [7], [1]), lambda x, *_, out: x[6:], {"out": rand(1)}, label="the last"),
    Case("npu_confusion_transpose_backward", (rand(2, 4, 15), [0, 2, 1, 3], [2, 3, 4, 5], True),
         lambda g, p, s, f: g.view(2, 4, 3, 5).transpose(1, 2), label="heads"),
    Case("npu_gather_sparse_index_backward", (rand(3, 4), [5, 4], torch.tensor([1, 1, 1])), lambda g, s, i: looked_up(s, i, g),
         label="one row of the table"),
    Case("npu_gather_sparse_index_backward", (rand(3), [5], torch.tensor([4, 0, 4])), lambda g, s, i: looked_up(s, i, g), label="numbers"),
    Case("npu_linear_backward", (rand(1, 3), rand(1, 8), rand(3, 8)), lambda g, x, w: grads(F.linear, (x, w), g), label="one row"),
    Case("npu_sign_bits_pack", (torch.tensor([-0.5, 1.0]), 1), lambda x, s: torch.tensor([[2]], dtype=torch.uint8), label="two numbers"),
    *[Case("npu_sign_bits_unpack", (torch.tensor([1, 0, 255, 128], dtype=torch.uint8), 2, kind), lambda x, s, d: torch.tensor(
        [[1.0] + [-1.0] * 15, [1.0] * 8 + [-1.0] * 7 + [1.0]]).to(d), label=str(kind)) for kind in (torch.float32, torch.float16)],
]

CONVOLUTION = [
    *plain("npu_conv2d", (IMAGE, KERNEL, rand(6), [2, 1], [1, 0], [1, 2], 2), F.conv2d, "strides and groups", (2, 6, 4, 4), grad=(0, 1, 2)),
    *plain("npu_conv2d", (IMAGE, rand(1, 4, 1, 1), None, [1, 1], [0, 0], [1, 1], 1), F.conv2d, "one by one", (2, 1, 7, 6), grad=(0, 1)),
    *plain("npu_conv3d", (VOLUME, BLOCK, rand(6), [1, 2, 1], [0, 1, 0], [2, 1, 1], 2), F.conv3d, "strides and groups", (2, 6, 2, 3, 3),
           grad=(0, 1, 2)),
    *plain("npu_conv3d", (VOLUME, rand(1, 4, 1, 1, 1), None, [1] * 3, [0] * 3, [1] * 3, 1), F.conv3d, "one by one", (2, 1, 4, 5, 3)),
    *plain("npu_convolution", (IMAGE, KERNEL, rand(6), [1, 1], [1, 0], [1, 1], 2), F.conv2d, "groups", grad=(0, 1, 2)),
    *plain("npu_conv_transpose2d", (IMAGE, rand(4, 3, 3, 2), rand(6), [1, 0], [1, 0], [2, 1], [1, 2], 2), transposed, "strides and groups",
           grad=(0, 1, 2)),
    *plain("npu_conv_transpose2d", (IMAGE, rand(4, 1, 1, 1), None, [0, 0], [0, 0], [1, 1], [1, 1], 1), transposed, "one by one"),
    *plain("npu_convolution_transpose", (IMAGE, rand(4, 3, 3, 2), None, [1, 0], [1, 0], [2, 1], [1, 2], 2), transposed, "groups",
           grad=(0, 1)),
]

PRODUCTS = [
    Case("npu_bmmV2", (rand(1, 2, 8), rand(1, 8, 3), []), lambda a, b, s: a @ b, grad=(0, 1), label="one matrix"),
    *[Case("npu_bmm_v2_mat1_backward", (rand(b, 6, 3), rand(b, 6, 8), rand(b, 8, 3), [b, 6, 8]), lambda g, x, y, s: g @ y.mT,
           label=f"{b} matrices") for b in (1, 3)],
    *[Case("npu_bmm_v2_mat2_backward", (rand(b, 6, 3), rand(b, 6, 8), rand(b, 8, 3), [b, 8, 3]), lambda g, x, y, s: x.mT @ g,
           label=f"{b} matrices") for b in (1, 3)],
]

LOSS = [
    *[Case(op, (rand(4, 5) if reduction == 0 else torch.tensor(0.5), rand(4, 5), PROBABILITIES, reduction), loss_gradient(kl_div, at),
           label=REDUCTIONS[reduction])
      for op, at in (("kl_div_backward", 0), ("kl_div_target_backward", 1)) for reduction in range(3)],
    *[Case("npu_binary_cross_entropy_with_logits_backward",
           (rand(4, 5) if reduction == 0 else torch.tensor(0.5), rand(4, 5), PROBABILITIES, rand(5), None, reduction), loss_gradient(bce),
           label=REDUCTIONS[reduction]) for reduction in (0, 2)],
    *[Case("npu_softmax_cross_entropy_with_logits", (rand(n, 7), torch.softmax(rand(n, 7, seed=2), -1)),
           lambda x, y: F.cross_entropy(x, y, reduction="none"), grad=(0,), label=f"{n} rows") for n in (1, 20)],
]

# The float status is a state of the card: test/python/test_overflow.py.
ELSEWHERE = {"npu_clear_float_status", "npu_get_float_status"}
CASES = [*CAST, *LAYOUT, *CONVOLUTION, *PRODUCTS, *LOSS]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "copy_memory_-broadcast": "it copies bytes, whatever the sizes",
    "copy_memory_-empty": "it asks for a copy of no bytes, which is refused",
    "npu_reshape-a length that follows": "it needs every length",
    "npu_reshape-a length that follows gradient": "the same",
}
