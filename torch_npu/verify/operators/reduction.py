"""Operators that make few numbers of many: sums, extremes, norms, running sums; sorting and losses."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, INTEGERS, NUMBERS, Operator, each, f, index, mask, order

X, SMALL = f(33, 64), f(6, 7, low=0.5, high=1.5)
WIDE = f(4, 16, 48)
SORTED = order(6, 40)  # no two are equal, so that there is one answer
CLASSES, PICKED, ONE, OTHER = f(16, 10), index(16, high=10), f(16, 8), f(16, 8)
POSITIVE = f(16, 8, low=0.1, high=3)


def along(name, *dims, **options):
    return lambda x: getattr(torch, name)(x, *dims, **options)


def loss(name, **options):
    return lambda *tensors: getattr(F, name)(*tensors, **options)


OPERATORS = [
    *each("sum amax amin max min", torch, X, types=NUMBERS),
    *each("mean", torch, X),
    *each("all any count_nonzero", torch, X, types=NUMBERS, gradient=False),
    *each("prod", torch, SMALL, types=FLOAT32),
    *each("var std", torch, X, loose=2),
    *each("var_mean std_mean", torch, X, types=FLOAT32),
    *each("median aminmax argmax argmin", torch, SORTED, gradient=False, types=FLOAT32),
    *[Operator(f"{name}_dim", along(name, -1), (WIDE,), types=NUMBERS) for name in ("sum", "amax", "amin")],
    *[Operator(f"{name}_dim", along(name, 1), (WIDE,)) for name in ("mean", "logsumexp", "nansum")],
    *[Operator(f"{name}_dim", along(name, 0), (WIDE,), loose=2) for name in ("var", "std")],
    *[Operator(f"{name}_dim", along(name, -1), (SORTED,), INTEGERS, gradient=False)
      for name in ("max", "min", "argmax", "argmin", "median")],
    *[Operator(f"{name}_dim", along(name, -1), (X,), gradient=False) for name in ("all", "any")],
    Operator("sum_two", lambda x: x.sum((0, 2)), (WIDE,)),
    Operator("sum_keepdim", lambda x: x.sum(1, keepdim=True), (WIDE,)),
    Operator("sum_half_to_float", lambda x: x.sum(-1, dtype=torch.float32), (WIDE,)),
    Operator("sum_mask", lambda m: m.sum(), (mask(33, 64),), FLOAT32, gradient=False),
    Operator("nanmean", torch.nanmean, (X,), FLOAT32),
    Operator("prod_dim", lambda x: x.prod(1), (SMALL,), FLOAT32),
    Operator("norm", torch.norm, (X,)),
    Operator("norm_1", lambda x: torch.linalg.vector_norm(x, 1, -1), (X,)),
    Operator("norm_2", lambda x: torch.linalg.vector_norm(x, 2, -1), (X,)),
    Operator("norm_inf", lambda x: torch.linalg.vector_norm(x, float("inf"), -1), (X,)),
    Operator("renorm", lambda x: torch.renorm(x, 2, 0, 3.0), (X,), FLOAT32),
    Operator("dist", torch.dist, (X, X), FLOAT32, gradient=False),
    Operator("trace", torch.trace, (f(12, 12),), FLOAT32),
    Operator("cumsum", lambda x: x.cumsum(-1), (X,), (torch.float32, *INTEGERS), loose=2),
    Operator("cumprod", lambda x: x.cumprod(-1), (SMALL,), FLOAT32),
    Operator("cummax", lambda x: x.cummax(-1), (SORTED,), FLOAT32, gradient=False),
    Operator("cummin", lambda x: x.cummin(-1), (SORTED,), FLOAT32, gradient=False),
    Operator("logcumsumexp", lambda x: x.logcumsumexp(-1), (X,), FLOAT32),
    Operator("kthvalue", lambda x: x.float().kthvalue(3, -1), (SORTED,), FLOAT32, gradient=False),
    Operator("topk", lambda x: x.float().topk(5, -1), (SORTED,), FLOAT32, gradient=False),
    Operator("topk_smallest", lambda x: x.float().topk(5, -1, largest=False), (SORTED,), FLOAT32, gradient=False),
    Operator("sort", lambda x: x.float().sort(-1), (SORTED,), FLOAT32, gradient=False),
    Operator("sort_descending", lambda x: x.sort(-1, descending=True), (SORTED,), FLOAT32, gradient=False),
    Operator("sort_gradient", lambda x: x.sort(-1).values, (X,)),
    Operator("argsort", lambda x: x.argsort(-1), (SORTED,), FLOAT32, gradient=False),
    Operator("quantile", lambda x: x.quantile(0.3, dim=-1), (X,), FLOAT32),
    Operator("unique", lambda x: x.unique(return_inverse=True, return_counts=True), (f(40, low=0, high=9),), INTEGERS, gradient=False),
    Operator("unique_consecutive", lambda x: x.sort().values.unique_consecutive(), (f(40, low=0, high=9),), INTEGERS, gradient=False),
    Operator("bincount", lambda x: x.bincount(minlength=12), (index(50, high=10),), FLOAT32, gradient=False),
    Operator("histc", lambda x: x.histc(8, -2, 2), (X,), FLOAT32, gradient=False),
    # losses
    *[Operator(f"F.{name}", getattr(F, name), (ONE, OTHER)) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")],
    Operator("F.mse_loss_none", loss("mse_loss", reduction="none"), (ONE, OTHER)),
    Operator("F.cross_entropy", F.cross_entropy, (CLASSES, PICKED)),
    Operator("F.cross_entropy_smoothing", loss("cross_entropy", label_smoothing=0.1), (CLASSES, PICKED)),
    Operator("F.cross_entropy_ignore", loss("cross_entropy", ignore_index=3, reduction="sum"), (CLASSES, PICKED)),
    Operator("F.cross_entropy_weight", lambda x, t, w: F.cross_entropy(x, t, w.detach()), (CLASSES, PICKED, f(10, low=0.5)), FLOAT32),
    Operator("F.cross_entropy_image", F.cross_entropy, (f(2, 5, 6, 7), index(2, 6, 7, high=5)), FLOAT32),
    Operator("F.nll_loss", lambda x, t: F.nll_loss(F.log_softmax(x, -1), t), (CLASSES, PICKED)),
    Operator("F.binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (ONE, OTHER), FLOAT32),
    Operator("F.binary_cross_entropy_with_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), (ONE, OTHER)),
    Operator("F.kl_div", lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"), (ONE, OTHER)),
    Operator("F.gaussian_nll_loss", F.gaussian_nll_loss, (ONE, OTHER, POSITIVE), FLOAT32),
    Operator("F.poisson_nll_loss", F.poisson_nll_loss, (ONE, POSITIVE), FLOAT32),
    Operator("F.soft_margin_loss", lambda x, y: F.soft_margin_loss(x, y.sign().detach()), (ONE, OTHER), FLOAT32),
    Operator("F.hinge_embedding_loss", lambda x, y: F.hinge_embedding_loss(x, y.sign().detach()), (ONE, OTHER), FLOAT32),
    Operator("F.margin_ranking_loss", lambda x, y: F.margin_ranking_loss(x, y, torch.ones_like(x)), (ONE, OTHER), FLOAT32),
    Operator("F.triplet_margin_loss", F.triplet_margin_loss, (ONE, OTHER, f(16, 8, high=1)), FLOAT32),
    Operator("F.multi_margin_loss", F.multi_margin_loss, (CLASSES, PICKED), FLOAT32),
    Operator("F.ctc_loss", lambda x, t: F.ctc_loss(x.log_softmax(-1), t, torch.tensor([12, 12]), torch.tensor([4, 3])),
             (f(12, 2, 6), index(2, 4, low=1, high=6)), FLOAT32),
]
