"""Operators of the common families against the CPU."""

import torch
from torch.nn import functional as F

import torch_npu  # noqa: F401

torch.manual_seed(0)
A, B = torch.randn(4, 5), torch.randn(4, 5)
P, Q = A.abs() + 0.1, B.abs() + 0.1
K, J = torch.randint(1, 9, (4, 5)), torch.randint(1, 9, (4, 5))
COLUMNS = torch.tensor([0, 2])


def to_npu(value):
    if isinstance(value, torch.Tensor):
        return value.npu()
    return [to_npu(v) for v in value] if isinstance(value, list) else value


def to_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.cpu()
    return [to_cpu(v) for v in value] if isinstance(value, (list, tuple)) else value


def compare(cases):
    """cases: name -> (function, arguments...). All are tried before the first failure is reported."""
    failures = []
    for name, (function, *arguments) in cases.items():
        try:
            expected = to_cpu(function(*arguments))
            got = to_cpu(function(*map(to_npu, arguments)))
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, check_stride=False)
        except Exception as error:
            failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)


def named(names, *arguments, prefix=""):
    return {prefix + name: (getattr(torch, prefix + name), *arguments) for name in names.split()}


def in_place(names, *arguments):
    return {name: (lambda x, *rest, name=name: getattr(x.clone(), name)(*rest), *arguments) for name in names.split()}


def check_unary():
    compare({
        **named("abs neg exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc sigmoid relu floor ceil round trunc frac sign "
                "square isnan isinf isfinite nan_to_num", A),
        **named("log log2 log10 log1p sqrt rsqrt reciprocal", P),
        **named("acos asin atanh erfinv", A.sigmoid() * 0.9),
        **named("logical_not bitwise_not", K > 3),
    })


def check_binary():
    compare({
        **named("add sub mul div maximum minimum atan2 fmod remainder eq ne lt le gt ge logaddexp floor_divide pow", P, Q),
        "alpha": (lambda x, y: torch.add(x, y, alpha=0.5), A, B),
        "broadcast": (lambda x, y: x * y[:, :1] - y[0], A, B),
        "numbers": (lambda x: (1 - x * 2.5) / 4 + 2**x, A),
        "promotion": (lambda x, y: x + y, K, B),
        "rounding": (lambda x, y: torch.div(x, y, rounding_mode="floor"), A, B),
        "lerp": (lambda x, y: x.lerp(y, 0.3), A, B),
        "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), A, B),
        "addcdiv": (lambda x, y: torch.addcdiv(x, x, y, value=0.5), A, Q),
        "clamp": (lambda x: x.clamp(-0.5, 0.5), A),
        "where": (lambda x, y: torch.where(x > 0, x, y), A, B),
        "isclose": (torch.isclose, A, A + 1e-9),
    })
    compare(named("bitwise_and bitwise_or bitwise_xor add mul floor_divide remainder gcd", K, J))
    compare(named("logical_and logical_or logical_xor", A > 0, B > 0))


def check_in_place():
    compare(in_place("add_ sub_ mul_ div_ fmod_ remainder_ pow_ eq_ ne_ lt_ le_ gt_ ge_ atan2_ floor_divide_", P, Q))
    compare(in_place("add_ sub_ mul_ div_ fmod_ remainder_ pow_ eq_ lt_ fill_ clamp_min_ clamp_max_ masked_fill_", P, 2.0)
            | in_place("masked_fill_", A, B > 0, 2.0))
    compare(in_place("zero_ exp_ sqrt_ neg_ sigmoid_ relu_ tril_ triu_", P))


def check_reductions():
    compare(named("sum mean prod std var amax amin argmax argmin max min median norm count_nonzero logsumexp", A, 1)
            | named("sum mean prod std var max min median norm nansum", A) | named("all any", A > 0)
            | named("cumsum cumprod cummax cummin sort softmax log_softmax", A, 1))
    compare({
        "keepdim": (lambda x: x.sum(0, keepdim=True), A),
        "dtype": (lambda x: x.sum(dtype=torch.float32), K),
        "var_mean": (lambda x: torch.var_mean(x, 1), A),
        "aminmax": (torch.aminmax, A),
        "topk": (lambda x: x.topk(2), A),
        "kthvalue": (lambda x: x.kthvalue(2), A),
        "unique": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), K),
        "bincount": (lambda x: torch.bincount(x.flatten()), K),
    })


def check_products():
    r = torch.randn
    compare({
        "mm": (torch.mm, r(3, 4), r(4, 5)),
        "transposed": (lambda x, y: x.t() @ y.t(), r(4, 3), r(5, 4)),
        "bmm": (torch.bmm, r(2, 3, 4), r(2, 4, 5)),
        "matmul": (torch.matmul, r(2, 3, 4), r(4, 5)),
        "mv": (torch.mv, r(3, 4), r(4)),
        "dot": (torch.dot, r(4), r(4)),
        "addmm": (lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2), r(3, 5), r(3, 4), r(4, 5)),
        "addmv": (lambda x, y, z: torch.addmv(x, y, z, beta=0.5, alpha=2), r(3), r(3, 4), r(4)),
        "baddbmm": (torch.baddbmm, r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
        "linear": (F.linear, r(3, 4), r(5, 4), r(5)),
        "einsum": (lambda x, y: torch.einsum("bij,bjk->bik", x, y), r(2, 3, 4), r(2, 4, 5)),
    })


def check_indexing():
    compare({
        "cat": (lambda x, y: torch.cat([x, y], 1), A, B),
        "stack": (lambda x, y: torch.stack([x, y]), A, B),
        "gather": (lambda x, k: x.gather(1, k), A, torch.randint(0, 5, (4, 2))),
        "scatter": (lambda x, k, y: x.scatter(1, k, y), A, torch.arange(5).repeat(4, 1), B),
        "scatter_add": (lambda x, k, y: x.scatter_add(1, k, y), A, torch.randint(0, 5, (4, 2)), B),
        "index_select": (lambda x, k: x.index_select(1, k), A, COLUMNS),
        "index_add": (lambda x, k, y: x.index_add(1, k, y[:, :2]), A, COLUMNS, B),
        "index_copy": (lambda x, k, y: x.index_copy(1, k, y[:, :2]), A, COLUMNS, B),
        "index_copy_": (lambda x, k, y: x.clone().index_copy_(1, k, y[:, :2]), A, COLUMNS, B),
        "index_fill": (lambda x, k: x.index_fill(1, k, 2.0), A, COLUMNS),
        "rows": (lambda x, k: x[k], A, COLUMNS),
        "columns": (lambda x, k: x[:, k], A, COLUMNS),
        "mask": (lambda x: x[x > 0], A),
        "put": (lambda x, k: x.clone().index_put_((k,), torch.ones((), device=x.device), accumulate=True), A, COLUMNS),
        "nonzero": (torch.nonzero, A > 0),
        "masked_select": (lambda x: x.masked_select(x > 0), A),
        "embedding": (F.embedding, K, torch.randn(10, 3)),
        "one_hot": (lambda x: F.one_hot(x, 10), K),
        "flip": (lambda x: x.flip(1), A),
        "roll": (lambda x: x.roll(1, 0), A),
        "repeat": (lambda x: x.repeat(2, 3), A),
        "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), A),
        "tril": (torch.tril, A),
        "pad": (lambda x: F.pad(x, (1, 2), value=3.0), A),
        "isin": (lambda x: torch.isin(x, 2), K),
        "searchsorted": (lambda x, y: torch.searchsorted(x.sort().values, y), A, B),
    })


def check_factories():
    compare({
        "full": (lambda x: torch.full((2, 3), 3.5, device=x.device), A),
        "ones": (torch.ones_like, A),
        "zeros": (torch.zeros_like, K),
        "arange": (lambda x: torch.arange(1, 9, 2, device=x.device), A),
        "linspace": (lambda x: torch.linspace(0, 1, 5, device=x.device), A),
        "eye": (lambda x: torch.eye(3, device=x.device), A),
    })


def check_layers():
    image = torch.randn(1, 2, 6, 6)
    query, key, value = torch.randn(3, 2, 2, 4, 8)
    compare({
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), image),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), image),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 4), image),
        "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 4), image),
        "conv1d": (F.conv1d, torch.randn(1, 2, 5), torch.randn(3, 2, 3)),
        "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=2), image, torch.randn(3, 2, 2, 2)),
        "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), image, torch.randn(2, 3, 2, 2)),
        "nearest": (lambda x: F.interpolate(x, scale_factor=2), image),
        "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), image),
        "layer_norm": (lambda x: F.layer_norm(x, (5,)), A),
        "group_norm": (lambda x: F.group_norm(x, 2), image),
        "attention": (F.scaled_dot_product_attention, query, key, value),
        "causal attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), query, key, value),
        "cross_entropy": (F.cross_entropy, A, torch.tensor([0, 1, 2, 3])),
        "nll_loss": (lambda x, t: F.nll_loss(x, t, reduction="none"), A, torch.tensor([0, 1, 2, 3])),
        "logsigmoid": (F.logsigmoid, A),
        "kl_div": (lambda x, y: F.kl_div(x, y, reduction="batchmean"), A, P),
    })


def check_lists():
    def pair(name, *rest):
        return lambda x: getattr(torch, f"_foreach_{name}")([x, x * 0.5], *rest)

    unary = "abs acos asin atan cos cosh erf erfc exp expm1 log log10 log1p log2 neg reciprocal sigmoid sign sin sinh sqrt tan tanh"
    compare({name: (pair(name), torch.rand(3, 3) * 0.9 + 0.05) for name in f"{unary} ceil floor frac round trunc".split()})
    compare({f"{name}, {kind}": (pair(name, value), P) for name in "add sub mul div maximum minimum pow".split()
             for kind, value in {"number": 1.5, "numbers": [1.5, 2.5]}.items()})
    compare({f"{name}, list": (lambda x, name=name: getattr(torch, f"_foreach_{name}")([x, x * 0.5], [x + 1, x + 2]), P)
             for name in "add sub mul div maximum minimum pow".split()})
    compare({f"{name}, {value}":
             (lambda x, name=name, value=value: getattr(torch, f"_foreach_{name}")([x, x], [x, x + 1], [x, x + 2], value), P)
             for name in ("addcmul", "addcdiv") for value in (0.5, [0.5, 0.25])})
    compare({
        "lerp": (lambda x, y: torch._foreach_lerp([x, y], [y, x], 0.3), A, B),
        "norm": (lambda x: torch._foreach_norm([x, x * 2], 2), A),
    })


def check_the_gradient_of_the_largest_distance():
    """The client says p=-1 to the gradient's operator, and infinity to the forward pass's."""
    near = torch.tensor([[0.3, 0.9]])
    compare({"cdist": (lambda x, y: torch.autograd.grad(torch.cdist(x.requires_grad_(), y, p=float("inf")).sum(), x), near, A[:, :2])})
