"""Casts, formats, views, sorts, look-ups and convolutions over further classes of shapes, types and options."""

import torch
from cases import Case, grads, rand
from cases_formats import same
from cases_further_layout import plain, transposed
from cases_hans import buffers, distribution, encoded, gives_back
from cases_misc import looked_up
from torch.nn import functional as F

X, EMPTY, DEEP, WIDE = rand(3, 4, 5), rand(0, 4), rand(2, 1, 3, 2, 4), rand(2, 260)
NZ, ND, NCHW, C0 = 29, 2, 0, 3
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32, torch.uint8)


def cast_to(x, kind, *_):
    return x.to(kind)


def replaced(x, y, *_):
    return y.to(x.dtype).expand_as(x)


def shapes(op, arguments, reference, **more):
    return [Case(op, args, reference, label=label, **more) for label, args in arguments.items()]


CAST = [
    *shapes("npu_dtype_cast_", {"five dimensions": (DEEP.half(), DEEP), "widened": (X, X.half())}, replaced),
    *shapes("npu_dtype_cast_backward", {"empty": (EMPTY.half(), torch.float32), "five dimensions": (DEEP.bfloat16(), torch.float32),
                                        "narrowed": (X, torch.float16)}, cast_to),
    *shapes("_npu_dtype_cast", {"five dimensions": (DEEP, torch.float16), "empty": (EMPTY, torch.bfloat16), "to bytes": (
        (X * 9).abs(), torch.uint8)}, cast_to),
    *shapes("_npu_dtype_cast_backward", {"five dimensions": (DEEP, torch.float16), "widened": (X.half(), torch.float32),
                                         "a number": (rand(1)[0], torch.float16)}, cast_to),
    *shapes("copy_memory_", {"five dimensions": (DEEP, DEEP + 1), "int64": (torch.arange(5), torch.arange(5) * 3, True),
                             "bool": (torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool))}, replaced),
    *shapes("one_", {"five dimensions": (DEEP,), "empty": (EMPTY,), "float16": (X.half(),)}, torch.ones_like),
    *shapes("npu_alloc_float_status", {"a number": (rand(1)[0],), "float16": (X.half(),), "bool": (torch.ones(2, dtype=torch.bool),)},
            lambda x: torch.zeros(8)),
    *shapes("npu_view_copy", {"narrowed": (X.half(), X, False), "a number": (X, rand(1)[0], True), "five dimensions": (DEEP, DEEP + 1,
        False)},
            replaced),
    *shapes("_npu_format_cast", {"five dimensions": (DEEP, NZ), "blocks of bytes": (torch.arange(96).view(2, 48).to(torch.int8), NZ)},
        same),
    *shapes("_npu_format_cast.aclnn", {"image": (rand(2, 5, 6, 7), C0, 6), "wide": (WIDE, NZ, 6), "five dimensions": (DEEP, ND, 6)}, same,
            grad=(0,)),
    *shapes("_npu_format_cast.input_dtype", {"wide": (torch.arange(-128, 128).view(1, 256).to(torch.int8), NZ, 1, 1),
                                             "three matrices": (torch.arange(96).view(3, 2, 16).to(torch.int8), NZ, 1, 1),
                                             "narrow": (torch.arange(40).view(40, 1).to(torch.int8), NZ, 1, 1)}, same),
    *shapes("npu_format_cast", {"wide": (WIDE, NZ), "five dimensions": (DEEP, NZ)}, same, grad=(0,)),
    Case("npu_format_cast", (torch.arange(-64, 64).view(2, 64).to(torch.int8), NZ), same, {"customize_dtype": 1, "input_dtype": 1},
         label="types said"),
    *shapes("npu_format_cast.Tensor", {"wide": (WIDE, rand(2, 2)), "image": (rand(2, 5, 6, 7), rand(1, 1, 1, 1)),
                                       "five dimensions": (DEEP, DEEP)}, same, grad=(0,)),
    *shapes("npu_format_cast_", {"wide": (WIDE, WIDE + 1), "image": (rand(2, 5, 6, 7), rand(2, 5, 6, 7, seed=1)),
                                 "five dimensions": (DEEP, DEEP + 1)}, replaced),
    *shapes("npu_format_cast_.acl_format", {"wide": (WIDE, NZ), "image": (rand(2, 5, 6, 7), C0), "five dimensions": (DEEP, ND)}, same),
    *[Case("get_npu_format", (x,), lambda x, number=number: number, label=label)
      for label, x, number in (("vector", rand(5), ND), ("matrix", WIDE, ND), ("empty image", rand(0, 1, 2, 3), NCHW))],
    *shapes("get_storage_size", {"bytes": (torch.zeros(3, 5, dtype=torch.uint8),), "five dimensions": (DEEP,), "float16": (X.half(),)},
            lambda x: x.numel()),
    *shapes("npu_prefetch", {"float16": (X.half(), None, 1), "behind its begin": (X, None, 100, 8),
                            "bytes": (torch.zeros(9, dtype=torch.uint8), X, 4, 2)}, lambda *_: ()),
    *[Case("npu_hans_decode.out", encoded(x, fixed), gives_back(x), {"out": torch.zeros_like(x)}, label=label)
      for label, x, fixed in (("float32", rand(16, 12), None), ("float32 and var", rand(16, 12), 40))],
    Case("npu_hans_decode.out", (*encoded(rand(8, 16), None), False), lambda *_, out: rand(8, 16), {"out": torch.zeros(8, 16)},
         label="not shuffled"),
    Case("npu_hans_encode.out", (rand(4, 64, dtype=torch.bfloat16), True, False), distribution,
         {"out": buffers(rand(4, 64, dtype=torch.bfloat16), 100)}, label="bfloat16 and var"),
]


def removed(x, begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0, out=None):
    """Bits of begin_mask and end_mask open an end, those of shrink_axis_mask take one element and drop its dimension."""
    places = []
    for i, (b, e, s) in enumerate(zip(begin, end, strides)):
        bit = 1 << i
        places.append(b if shrink_axis_mask & bit else slice(None if begin_mask & bit else b, None if end_mask & bit else e, s))
    return x[tuple(places)]


def one_hot(x, num_classes=-1, depth=1, on=1, off=0):
    return torch.where(x.unsqueeze(-1) == torch.arange(depth), float(on), float(off))


def extreme(name):
    def reference(x, dim, keepdim=False):
        found = getattr(x, name)(dim, keepdim)
        return found.values, found.indices.int()

    return reference


BITS = [1 << i for i in range(8)]


def signs(x, size):
    """Eight signs in a byte, the first in the lowest bit; rows of equal length."""
    flags = torch.cat([x.flatten() >= 0, torch.zeros(-x.numel() % 8, dtype=torch.bool)])
    return (flags.view(-1, 8) * torch.tensor(BITS)).sum(1).to(torch.uint8).view(size, -1)


def unpacked(x, size, kind):
    return torch.where((x.unsqueeze(-1) & torch.tensor(BITS, dtype=torch.uint8)) > 0, 1.0, -1.0).flatten().view(size, -1).to(kind)


FOUR = [1, 0, 2, 0], [3, 2, 4, 3], [1, 2, 1, 3]
CUBE = rand(3, 4, 5, 6)
LAYOUT = [
    *[case for label, args, out, grad in (("swapped pair", (WIDE, [1, 0]), (260, 2), (0,)), ("five", (DEEP, [4, 0, 2, 1, 3]), (4, 2, 3, 1,
        2), (0,)),
                                          ("as it is", (X, [0, 1, 2], True), (3, 4, 5), ()))
      for case in plain("npu_transpose", args, lambda x, p, *_: x.permute(p), label, out, grad=grad)],
    *[case for label, args, out in (("flat", (DEEP, [48]), (48,)), ("one more", (X, [1, 3, 20], True), (1, 3, 20)), ("a number", (rand(1),
        []), ()))
      for case in plain("npu_reshape", args, lambda x, s, *_: x.reshape(s), label, out)],
    *[case for label, args, f, out in (("all", (X, [0, 0, 0], [3, 4, 5]), lambda x, *_: x, (3, 4, 5)),
                                       ("nothing", (X, [1, 0, 0], [0, 4, 5]), lambda x, *_: x[:0], (0, 4, 5)),
                                       ("of a vector", (rand(9), [2], [5]), lambda x, *_: x[2:7], (5,)))
      for case in plain("npu_slice", args, f, label, out)],
    *[case for label, args, out in (("as it is", (X, [3, 4, 5]), (3, 4, 5)), ("middle", (rand(2, 1, 3), [2, 5, 3]), (2, 5, 3)),
                                    ("empty", (rand(1, 4), [0, 4]), (0, 4)))
      for case in plain("npu_broadcast", args, lambda x, s: x.expand(s), label, out)],
    *[case for label, args, pad in (("in front", (X, [1, 0, 2, 0, 3, 0]), [3, 0, 2, 0, 1, 0]), ("behind", (X, [0, 1, 0, 2, 0, 3]), [0, 3,
        0, 2, 0, 1]),
                                    ("five dimensions", (DEEP, [0] * 8 + [1, 1]), [1, 1]))
      for case in plain("npu_pad", args, lambda x, p, pad=pad: F.pad(x, pad), label, grad=(0,))],
    *[case for label, args in (("diagonal", (X, [3], [26], 0)), ("overlapping", (X, [5, 3], [1, 1], 3)), ("five dimensions", (X, [2] * 5,
        [1] * 5, 0)))
      for case in plain("npu_stride_copy", args, lambda x, s, t, o: x.as_strided(s, t, o), label, tuple(args[1]))],
    *[case for label, args, out in (("falling", (WIDE, -1, True), (2, 260)), ("a vector", (rand(9), 0, False), (9,)), ("empty", (EMPTY,),
        (0, 4)))
      for case in plain("npu_sort_v2", args, lambda x, d=-1, r=False: x.sort(d, r).values, label, out)],
    *[Case(f"npu_{name}.dim", (x, *how), extreme(name), grad=(0,), label=label) for name in ("max", "min")
      for label, x, how in (("wide", WIDE, (1,)), ("kept middle", DEEP, (2, True)), ("a vector", rand(9), (0,)))],
    *shapes("npu_scatter", {"wide": (WIDE, torch.tensor([259, 0]), rand(2), 1), "one column": (rand(4, 1), torch.tensor([0, 0, 0, 0]),
        rand(4), 1),
                            "last row": (rand(4, 3), torch.tensor([3, 3, 0]), rand(3), 0)},
            lambda x, i, u, d: x.scatter(d, i.unsqueeze(d), u.unsqueeze(d)), grad=(0, 2)),
    *shapes("npu_indexing", {"an element": (CUBE, *FOUR, 0, 0, 0, 0, 1), "open in front": (CUBE, *FOUR, 5, 0), "open behind": (CUBE,
        *FOUR, 0, 10),
                             "all of it": (CUBE, *FOUR, 4, 2, 0, 0, 8)}, removed, grad=(0,)),
    *[Case("npu_indexing.out", (CUBE, *FOUR, *masks), removed, {"out": rand(1)}, label=label)
      for label, masks in (("an element", (0, 0, 0, 0, 1)), ("open in front", (5,)), ("open behind", (0, 10)))],
    *shapes("npu_one_hot", {"axis said": (torch.tensor([0, 2, 1]), 1, 3), "three dimensions": (torch.tensor([[[1], [0]]]), -1, 2, 7, 1),
                            "outside": (torch.tensor([5, -1, 1]), -1, 3)}, one_hot),
    *shapes("npu_linear", {"one row": (rand(1, 8), rand(3, 8), rand(3)), "one column": (rand(5, 1), rand(2, 1), rand(2)),
                           "many rows": (rand(70, 3), rand(4, 3), rand(4))}, F.linear, grad=(0, 1, 2)),
    *shapes("npu_linear_backward", {"many rows": (rand(70, 4), rand(70, 3), rand(4, 3)), "one column": (rand(5, 2), rand(5, 1), rand(2, 1)),
                                    "four dimensions": (rand(2, 1, 3, 4), rand(2, 1, 3, 5), rand(4, 5))},
            lambda g, x, w: grads(F.linear, (x, w), g)),
    *shapes("npu_confusion_transpose", {"one more": (X, [0, 1, 3, 2], [3, 2, 2, 5], False), "as it is": (X, [0, 1, 2], [3, 20], True),
                                        "five dimensions": (DEEP, [4, 3, 2, 1, 0], [8, 6], True)},
            lambda x, p, s, first: x.permute(p).reshape(s) if first else x.reshape(s).permute(p), grad=(0,)),
    *[Case("npu_confusion_transpose_backward", (rand(*y.shape, seed=3), p, list(x.shape), first),
           lambda g, p, s, first, x=x, to=to: grads(lambda t: t.permute(p).reshape(to) if first else t.reshape(to).permute(p), (x,), g),
           label=label)
      for label, x, p, to, first in (("one more", X, [0, 1, 3, 2], [3, 2, 2, 5], False), ("as it is", X, [0, 1, 2], [3, 20], True),
                                     ("five dimensions", DEEP, [4, 3, 2, 1, 0], [8, 6], True))
      for y in (x.permute(p).reshape(to) if first else x.reshape(to).permute(p),)],
    *shapes("npu_gather_sparse_index", {"planes": (X, torch.tensor([[2, 0]])), "nothing": (X, torch.zeros(0, dtype=torch.long)),
                                        "one place": (rand(5, 4), torch.tensor([3]))}, lambda x, i: x[i], grad=(0,)),
    *shapes("npu_gather_sparse_index_backward", {"planes": (rand(1, 2, 4, 5), [3, 4, 5], torch.tensor([[2, 0]])),
                                                 "int32": (rand(2, 4), [5, 4], torch.tensor([4, 1], dtype=torch.int32)),
                                                 "nothing": (rand(0, 4), [5, 4], torch.zeros(0, dtype=torch.long))},
            lambda g, s, i: looked_up(s, i, g)),
    *shapes("npu_sign_bits_pack", {"rows": (rand(64), 4), "one byte": (rand(8), 1), "float16": (rand(48).half(), 2)}, signs),
    *shapes("npu_sign_bits_unpack", {"four rows": (signs(rand(64), 1)[0], 4, torch.float32), "one byte": (signs(rand(8), 1)[0], 1,
        torch.float16),
                                     "one row": (signs(rand(80), 1)[0], 1, torch.float32)}, unpacked),
]


def convolve(x, w, b, stride, padding, dilation, groups):
    return (F.conv2d if x.dim() == 4 else F.conv3d)(x, w, b, stride, padding, dilation, groups)


def given(op, variants, function, out=False, **more):
    return [case for label, args in variants.items()
            for case in plain(op, args, function, label, tuple(function(*args).shape) if out else None, **more)]


IMAGE, VOLUME = rand(1, 4, 5, 6), rand(1, 2, 3, 4, 5)
CONV2D = {"a channel each": (IMAGE, rand(4, 1, 3, 3), rand(4), [1, 1], [1, 1], [1, 1], 4),
          "dilated": (IMAGE, rand(2, 4, 2, 2), rand(2), [1, 2], [2, 1], [3, 2], 1),
          "as large as the image": (IMAGE, rand(3, 4, 5, 6), rand(3), [1, 1], [0, 0], [1, 1], 1)}
CONV3D = {"a channel each": (VOLUME, rand(2, 1, 2, 2, 2), rand(2), [1] * 3, [1] * 3, [1] * 3, 2),
          "dilated": (VOLUME, rand(3, 2, 2, 2, 2), rand(3), [1, 1, 2], [1, 0, 2], [2, 1, 2], 1),
          "as large as the volume": (VOLUME, rand(1, 2, 3, 4, 5), rand(1), [1] * 3, [0] * 3, [1] * 3, 1)}
TURNED = {"a channel each": (IMAGE, rand(4, 1, 3, 3), rand(4), [1, 1], [0, 0], [2, 2], [1, 1], 4),
          "dilated": (IMAGE, rand(4, 2, 2, 3), rand(2), [0, 1], [0, 0], [1, 1], [2, 3], 1),
          "one row of output padding": (IMAGE, rand(4, 3, 2, 2), rand(3), [0, 0], [1, 0], [2, 1], [1, 1], 1)}
CONVOLUTION = [
    *given("npu_conv2d", CONV2D, convolve, True, grad=(0, 1, 2)), *given("npu_conv3d", CONV3D, convolve, True, grad=(0, 1, 2)),
    *given("npu_convolution", {**{"volume, " + k: v for k, v in list(CONV3D.items())[:1]}, **dict(list(CONV2D.items())[:2])}, convolve,
           grad=(0, 1, 2)),
    *given("npu_conv_transpose2d", TURNED, transposed, grad=(0, 1, 2)), *given("npu_convolution_transpose", TURNED, transposed, grad=(0,
        1, 2)),
]
CASES = [*CAST, *LAYOUT, *CONVOLUTION]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    "npu_reshape-one more": "with can_refresh its result has other numbers than the input",
    "npu_reshape.out-one more": "the same",
    "npu_linear_backward-four dimensions": "it takes two dimensions only",
}
