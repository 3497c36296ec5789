"""Further forms of gradients that are operators of their own, of losses, and of steps and fills of older models."""

import torch
from cases import Case, grads, narrowed, rand
from cases_gradients import (
    BITS,
    BYTES,
    INT,
    adam,
    adamw,
    calibrated,
    conv,
    conv_backward,
    conv_t,
    conv_t_backward,
    cross_entropy,
    depthwise,
    dropped_softmax,
    filled,
    gathered,
    matmul_twice,
    normalized,
    of_c2r,
    of_ifmr,
    of_matmul,
    of_r2c,
    packed_ones,
    reduced,
    repeated,
    slow,
    slow_t,
    stride_added,
    unpacked,
)
from cases_misc import REDUCTIONS, bce, kl_div, loss_gradient
from cases_softmax import (
    LOGS,
    TARGETS,
    WEIGHT,
    attended,
    cross_entropy_gradient,
    linear_gradient,
    masked,
    masked_gradient,
    max_sum,
)
from torch.nn import functional as F

IMAGE, VOLUME = rand(1, 4, 5, 7), rand(2, 4, 3, 4, 3)
TWO_MASKS = ([True, True, True], [False, True, False], [True, False, True])
CONV2D = {"a channel each": (IMAGE, rand(4, 1, 3, 3), [1, 1], [1, 1], [1, 1], 4), "all at once": (IMAGE, rand(2, 4, 5, 7), [1, 1], [0, 0],
                                                                                                [1, 1], 1),
          "one by one": (IMAGE, rand(3, 4, 1, 1), [2, 3], [0, 0], [1, 1], 1)}
CONV3D = {"a channel each": (VOLUME, rand(4, 1, 2, 2, 2), [1] * 3, [1] * 3, [1] * 3, 4),
          "all at once": (VOLUME, rand(2, 4, 3, 4, 3), [1] * 3, [0] * 3, [1] * 3, 1),
          "one by one": (VOLUME, rand(3, 4, 1, 1, 1), [2, 1, 2], [0] * 3, [1] * 3, 1)}
TURNED2D = {"a channel each": (IMAGE, rand(4, 1, 3, 3), [1, 1], [0, 0], [2, 2], [1, 1], 4),
            "output padding": (IMAGE, rand(4, 2, 2, 2), [0, 0], [1, 2], [2, 3], [1, 1], 1),
            "one by one": (IMAGE, rand(4, 3, 1, 1), [0, 0], [0, 0], [1, 1], [1, 1], 1)}
TURNED3D = {"a channel each": (VOLUME, rand(4, 1, 2, 2, 2), [1] * 3, [0] * 3, [2] * 3, [1] * 3, 4),
            "output padding": (VOLUME, rand(4, 2, 2, 2, 2), [0] * 3, [1, 0, 1], [2] * 3, [1] * 3, 1),
            "one by one": (VOLUME, rand(4, 3, 1, 1, 1), [0] * 3, [0] * 3, [1] * 3, [1] * 3, 1)}


def backward(op, forward, reference, variants):
    return [Case(op, (x, rand(*forward(x, w, None, *how).shape, seed=9), w, *how, mask), reference, label=label)
            for (label, (x, w, *how)), mask in zip(variants.items(), TWO_MASKS)]


def first(*dicts):
    """One variant of each."""
    return {f"{label} of {x.dim() - 2}": (x, w, *how) for variants in dicts for label, (x, w, *how) in list(variants.items())[:2]}


def in_front(op, reference, forward, variants):
    """The gradient in front, then input, weight and the kernel's size."""
    return [Case(op, (rand(*forward(IMAGE, w, *how).shape, seed=9), IMAGE, w, list(w.shape[2:]), *how, mask), reference, label=label)
            for label, (w, *how, mask) in variants.items()]


CONVOLUTION = [
    *backward("npu_conv2d_backward", conv, conv_backward, CONV2D), *backward("npu_conv3d_backward", conv, conv_backward, CONV3D),
    *backward("npu_convolution_backward", conv, conv_backward, first(CONV2D, CONV3D)),
    *backward("npu_conv_transpose2d_backward", conv_t, conv_t_backward, TURNED2D),
    *backward("npu_conv_transpose3d_backward", conv_t, conv_t_backward, TURNED3D),
    *backward("npu_convolution_transpose_backward", conv_t, conv_t_backward, first(TURNED2D, TURNED3D)),
    *in_front("_conv_depthwise2d_backward", depthwise, lambda x, w, s, p, d: F.conv2d(x, w, None, s, p, d, 4), {
        "two for each channel": (rand(8, 1, 2, 3), [1, 1], [0, 1], [1, 1], [True, True]),
        "one by one": (rand(4, 1, 1, 1), [2, 2], [0, 0], [1, 1], [True, True]),
        "all at once": (rand(4, 1, 5, 7), [1, 1], [0, 0], [1, 1], [False, True])}),
    *in_front("slow_conv_dilated2d_backward", slow, lambda x, w, s, p, d: F.conv2d(x, w, None, s, p, d), {
        "one by one": (rand(2, 4, 1, 1), [1, 2], [0, 0], [1, 1], [True, True, True]),
        "far apart": (rand(2, 4, 2, 3), [1, 1], [0, 0], [4, 3], [True, True, False]),
        "bias": (rand(2, 4, 3, 3), [2, 2], [2, 2], [1, 1], [False, False, True])}),
    *in_front("slow_conv_transpose2d_backward", slow_t, lambda x, w, s, p, o, d: F.conv_transpose2d(x, w, None, s, p, o, 1, d), {
        "one by one": (rand(4, 2, 1, 1), [1, 2], [0, 0], [0, 0], [1, 1], [True, True, True]),
        "far apart": (rand(4, 2, 2, 3), [1, 1], [1, 0], [0, 0], [3, 2], [True, True, False]),
        "bias": (rand(4, 2, 3, 3), [2, 2], [1, 1], [1, 0], [1, 1], [False, False, True])}),
]

WIDE, DEEP = rand(2, 70), rand(2, 1, 3, 4)


def of_extreme(x, sign, dim, keepdim):
    values, indices = (sign * x).max(dim, keepdim)
    return (rand(*values.shape, seed=3), dim, indices.int(), list(x.shape), keepdim), lambda g, *_: grads(
        lambda t: sign * (sign * t).max(dim, keepdim).values, (x,), g)


def gather(x, dim, index, label):
    return Case("npu_gather_backward", (rand(*index.shape, seed=3), list(x.shape), dim, index, False),
                lambda g, s, d, i, _: grads(lambda t: t.gather(d, i), (x,), g), label=label)


def of_renorm(x, p, dim, limit, label):
    return Case("npu_renorm_backward", (rand(*x.shape, seed=2), x, p, dim, limit), lambda g, x, *how: grads(
        lambda a: a.renorm(*how), (x,), g), label=label)


PLACES = {"wide": (WIDE, 1, False), "kept of four": (DEEP, 2, True), "one of each": (rand(5, 1), 1, False)}
GRADIENTS = [
    *[Case(f"npu_{name}_backward", *of_extreme(x, sign, dim, keep), label=label) for name, sign in (("max", 1), ("min", -1))
      for label, (x, dim, keep) in PLACES.items()],
    gather(WIDE, 1, torch.tensor([[69, 0, 0], [1, 1, 1]]), "wide"), gather(DEEP, 2, torch.ones(2, 1, 5, 4, dtype=torch.long), "longer"),
    gather(rand(5), 0, torch.tensor([4, 4, 0]), "a vector"),
    of_renorm(WIDE, 2, 1, 0.5, "wide"), of_renorm(DEEP, 1.5, 0, 1.0, "four dimensions"), of_renorm(rand(3, 4) / 9, 2, 0, 5.0, "all small"),
    *[Case("fft_r2c_backward", *of_r2c(*how), label=label) for label, how in (("root of two", ([0, 2], 1, True, 5)),
                                                                             ("one number", ([2], 0, True, 1)))],
    *[Case("fft_c2r_backward", *of_c2r(*how), label=label) for label, how in (("root of two", ([1, 2], 1, 5)), ("two numbers", ([2], 2,
        2)))],
    Case("matmul_double_backward", of_matmul(rand(2, 1, 3, 4), rand(5, 4, 2)), matmul_twice, label="broadcast"),
    *[Case("repeat_interleave_backward_int", (rand(*x.repeat_interleave(n, dim).shape, seed=3), x, n, *(() if dim is None else (dim,))),
           repeated(dim), label=label) for label, x, n, dim in (("wide", WIDE, 2, 0), ("last of four", DEEP, 3, -1), ("a vector", rand(5),
               4, None))],
    *[Case("repeat_interleave_backward_tensor", (rand(*x.repeat_interleave(r, dim).shape, seed=3), x, r, *(() if dim is None else (dim,))),
           repeated(dim), label=label)
      for label, x, r, dim in (("first", WIDE, torch.tensor([3, 1]), 0), ("last of four", DEEP, torch.tensor([0, 2, 0, 1]), -1),
                               ("a vector", rand(3), torch.tensor([1, 0, 4]), None))],
]


def loss(op, function, at=0, variants=(), **more):
    return [Case(op, (rand(*x.shape, seed=5) if r == 0 else torch.tensor(-0.7), x, t, *extra, r), loss_gradient(function, at), more,
        label=label)
            for label, x, t, extra, r in variants]


SHARES = torch.softmax(rand(2, 3, 4, seed=8), -1)
PAIRS = {label: (x, t) for label, x, t in (("three dimensions", rand(2, 3, 4), SHARES), ("one number", rand(1), torch.tensor([0.3])),
                                           ("empty", rand(0, 3), rand(0, 3).abs()))}
LOSSES = [
    *loss("l1_loss_backward", lambda x, t, r: F.l1_loss(x, t, reduction=REDUCTIONS[r]), variants=[
        (label, x, t, (), r) for (label, (x, t)), r in zip(PAIRS.items(), (0, 1, 2))]),
    *[case for op, at in (("kl_div_backward", 0), ("kl_div_target_backward", 1)) for case in loss(op, kl_div, at, [
        ("three dimensions, logs", *PAIRS["three dimensions"], (), 2)], log_target=True)],
    *loss("npu_binary_cross_entropy_with_logits_backward", bce, variants=[
        ("three dimensions", *PAIRS["three dimensions"], (rand(3, 4).abs(), None), 0),
        ("weights of positives", *PAIRS["three dimensions"], (None, rand(4).abs()), 2)]),
    *[Case("npu_softmax_cross_entropy_with_logits", (x, torch.softmax(y, -1)), lambda x, y: F.cross_entropy(x, y, reduction="none"),
        grad=(0,),
           label=label) for label, x, y in (("wide", WIDE, rand(2, 70, seed=1)), ("flat ends", rand(4, 5) * 30, rand(4, 5, seed=1)),
                                            ("two classes", rand(9, 2), rand(9, 2, seed=1)))],
    *[Case("npu_softmax_cross_entropy_with_logits_backward", (rand(len(x)), x, torch.softmax(y, -1)), cross_entropy, label=label)
      for label, x, y in (("wide", WIDE, rand(2, 70, seed=1)), ("one row", rand(1, 5), rand(1, 5, seed=1)),
                          ("two classes", rand(9, 2), rand(9, 2, seed=1)))],
    *[Case("npu_cross_entropy_loss_backward", args, cross_entropy_gradient, label=label) for label, args in {
        "ignored class": (rand(1), LOGS, TARGETS.clamp(min=0), None, None, None, "mean", 3),
        "smoothed": (rand(1), LOGS, TARGETS, WEIGHT, None, None, "sum", -100, 0.3),
        "none": (rand(4), LOGS, TARGETS, None, None, None, "none")}.items()],
    *[Case("npu_attn_softmax_", (x,), lambda x: torch.softmax(x, -1), label=label)
      for label, x in (("flat ends", rand(3, 5) * 40), ("one number", rand(4, 1)), ("many rows", rand(70, 3)))],
    *[Case("npu_attn_softmax_backward_", (torch.softmax(rand(b, n, m), -1), rand(b, n, d), rand(b, m, d)), attended, label=label)
      for label, b, n, m, d in (("many rows", 2, 70, 3, 4), ("one column", 2, 3, 1, 4), ("one wide", 1, 3, 4, 20))],
    *[Case("npu_scaled_masked_softmax_backward", (rand(*x.shape, seed=7), masked(x, m, s), m, s, False), masked_gradient, label=label)
      for label, x, m, s in (("wide", rand(1, 2, 3, 70), torch.rand(1, 1, 3, 70, generator=torch.Generator().manual_seed(1)) > 0.5, -0.5),
                             ("rows hidden", rand(2, 1, 4, 5), torch.arange(4).view(1, 1, 4, 1) == 2, 3.0),
                             ("one column", rand(2, 3, 4, 1), torch.zeros(2, 1, 4, 1, dtype=torch.bool), 1.0))],
    *[Case("npu_masked_softmax_with_rel_pos_bias", (x, m, b, *s), lambda x, m, b, s=1.0: torch.softmax(
        x * s + (0 if m is None else m) + b, -1), label=label)
      for label, x, m, b, s in (("wide", rand(2, 3, 4, 70), None, rand(1, 3, 4, 70), (2.0,)), ("one row", rand(2, 3, 1, 6), None,
                                                                                          rand(1, 3, 1, 6), (-1.0,)),
                                ("one head", rand(2, 3, 1, 4, 6), rand(1, 3, 1, 4, 6), rand(1, 1, 1, 4, 6, seed=2), (0.5,)))],
    *[Case("npu_top_k_top_p", (x, p, k), lambda x, p, k: narrowed(x, torch.ones(len(x)) if p is None else p,
                                                                torch.full((len(x),), x.shape[1]) if k is None else k), label=label)
      for label, x, p, k in (("wide", WIDE, torch.tensor([0.3, 0.99]), torch.tensor([40, 3])), ("one row", rand(1, 5),
          torch.tensor([0.7]), None),
                             ("int32", rand(4, 6), None, torch.tensor([6, 1, 3, 2], dtype=INT)))],
]
X, W, VOCAB = rand(7, 3), rand(5, 3, seed=1), torch.tensor([0, 4, 9, 2, 5, 1, 8])
NARROW = {"none inside": (X, W, VOCAB, 20, 24), "shifted": (X, W, VOCAB, 4, 8), "one token": (X[:1], W, VOCAB[:1], 0, 4)}
LINEAR = [case for label, args in NARROW.items() for case in (
    Case("npu_fused_linear_online_max_sum", args, max_sum, label=label),
    Case("npu_fused_cross_entropy_loss_with_max_sum", max_sum(*args)[:3], lambda m, s, p: s.log() - p, label=label),
    Case("npu_fused_linear_cross_entropy_loss_with_max_sum_backward", (rand(len(args[0]), seed=3), *args[:2], *max_sum(*args)[3:5], 0.0,
                                                                      *max_sum(*args)[:2]), linear_gradient, label=label))]

TALL = (torch.rand(2, 3, 40, generator=torch.Generator().manual_seed(2)) > 0.4).to(torch.uint8)
MANY_BITS = torch.randint(0, 256, (48,), generator=torch.Generator().manual_seed(4), dtype=torch.uint8)


def step(seed, *shape):
    return {"var": rand(*shape, seed=seed), "m": rand(*shape, seed=seed + 1) * 0.1, "v": rand(*shape, seed=seed + 2).square()}


FORMS = {"a vector": (7,), "four dimensions": (2, 1, 3, 2), "many": (300,)}
OLDER = [
    *[Case("_dropout_with_byte_mask_backward", (rand(*g), m, p), lambda g, m, p: g * m.flatten()[: g.numel()].view(g.shape) / (1 - p),
           label=label) for label, g, m, p in (("three dimensions", (2, 3, 40), TALL, 0.4), ("nothing dropped", (3, 7), BYTES, 0.0),
                                               ("one number", (1,), BYTES, 0.25))],
    *[Case("npu_dropout_with_add_softmax_backward", (rand(*m.shape), m, torch.softmax(rand(*m.shape, seed=1), d), a, p, d), dropped_softmax,
           label=label) for label, m, a, p, d in (("three dimensions", TALL, 0.25, 0.4, -1), ("middle", TALL, -1.0, 0.1, 1),
                                                  ("one row", BYTES[:1], 3.0, 0.0, 1))],
    *[Case("npu_dropout_backward", (rand(*shape), bits, p), unpacked, label=label)
      for label, shape, bits, p in (("three blocks", (2, 150), MANY_BITS, 0.5), ("one number", (1,), BITS, 0.75), ("four dimensions", (2,
          1, 3, 5),
                                                                                                         BITS, 0.1))],
    *[Case("_npu_dropout_gen_mask.Tensor", (rand(2), size, p, 1, 0), lambda *_, mask=mask, **__: mask, how, label=label)
      for label, size, p, how, mask in (("streams said", [128], 0.0, {"parallel": True, "sync": False}, packed_ones(16)),
                                         ("in order", [2, 3, 64], 0.0, {"parallel": False, "sync": True}, packed_ones(48)),
                                         ("empty", [0], 0.0, {}, torch.zeros(0, dtype=torch.uint8)))],
    *[Case("npu_apply_adam.out", (0.3, 0.2, 0.05, 0.7, 0.6, 1e-4, rand(*shape, seed=8), lock, nesterov), adam, step(i, *shape), label=label)
      for i, ((label, shape), lock, nesterov) in enumerate(zip(FORMS.items(), (True, False, None), (False, True, True)))],
    *[Case("npu_apply_adam_w.out", (0.3, 0.2, 0.05, decay, 0.7, 0.6, 1e-4, rand(*shape, seed=8), rand(*shape,
        seed=4).square() if ams else None,
                                    ams, maximize), adamw, step(i, *shape), label=label)
      for i, ((label, shape), decay, ams, maximize) in enumerate(zip(FORMS.items(), (0.5, 0.0, 0.1), (True, False, True), (True, False,
          True)))],
    *[Case(f"_npu_index_add{end}", (x, i, s), lambda x, i, s, alpha=1: x.index_add(0, i, s, alpha=alpha), {"alpha": a}, label=label)
      for end in ("", "_") for label, x, i, s, a in (("the same row", WIDE, torch.tensor([1, 1, 1]), rand(3, 70), -1),
                                                     ("int32", rand(4, 2, 3), torch.tensor([2, 0], dtype=INT), rand(2, 2, 3), 3),
                                                     ("one row", rand(1, 5), torch.tensor([0]), rand(1, 5, seed=1), 0.25))],
    Case("batch_norm_reduce", (rand(1, 4, 3), 1e-3), reduced, label="one image"),
    Case("batch_norm_reduce", (rand(3, 1, 2, 2), 1e-3), reduced, label="one channel"),
    Case("batch_norm_gather_stats_update", (rand(2, 4), rand(3, 4), rand(3, 4).square() * 30 + 9, torch.zeros(4), torch.ones(4), 1.0, 1e-2,
                                            torch.tensor([2.0, 8.0, 3.0])), gathered, label="three cards"),
    *[Case("npu_normalize_batch", (x, torch.tensor(n, dtype=INT), *how), normalized, label=label)
      for label, x, n, how in (("long", rand(2, 3, 70), [70, 33], ()), ("one channel", rand(2, 1, 5), [5, 2], (1,)),
                               ("two numbers", rand(3, 2, 2) * 9, [2, 2, 2], (0,)))],
    *[Case("npu_masked_fill_range", (x, torch.tensor(b, dtype=INT), torch.tensor(e, dtype=INT), torch.tensor(v), *axis), filled,
        label=label)
      for label, x, b, e, v, axis in (("wide", WIDE, [[0, 60]], [[10, 70]], [2.0], (1,)), ("nothing", rand(4, 4), [[2]], [[2]], [1.0], (1,
          )))],
    *[Case("npu_stride_add", (x, y, a, b, n), stride_added, label=label)
      for label, x, y, a, b, n in (("three groups", rand(1, 48, 2), rand(1, 48, 2, seed=1), 0, 0, 3), ("one pixel", rand(2, 16, 1),
          rand(2, 20, 1),
                                                                                                              0, 0, 1),
                                                                                                                  ("five dimensions",
                                                                                                                      rand(1, 32, 1, 2,
                                                                                                                          2), rand(1, 16,
                                                                                                                              1, 2, 2), 1,
                                                                                                                                  0, 1))],
    *[Case("npu_ifmr", of_ifmr(x, offset, share), calibrated, label=label)
      for label, x, offset, share in (("one sign", rand(50).abs() + 1, True, 0.999), ("negative", -rand(50).abs(), False, 0.99),
                                      ("many", rand(10, 40), True, 0.9))],
]
CASES = [*CONVOLUTION, *GRADIENTS, *LOSSES, *LINEAR, *OLDER]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    **{str(case): "it passes a number of channels that it has not set" for case in CASES if case.op.startswith("slow_conv_")},
    "matmul_double_backward-broadcast": "its gradients keep the dimensions that were broadcast",
}
