"""Programs that the tests have beside torch's databases: programs.py runs these for "further:NAME".

PROGRAMS has a function for each name. The calls of test/ops/options.txt are run as they are, with their gradients, on operands of other
layouts, in place and into an output with gaps; those of test/ops/test_called_names.py as they are; the rest is written here.
"""

import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import tests
import torch
import torch.nn.functional as F
from programs import LAYOUTS, record, to_npu
from torch.utils._pytree import tree_map

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/ops"))
tests.install()

import test_called_names  # noqa: E402
import test_options  # noqa: E402


def run(name):
    return PROGRAMS[name]()


def every(parts):
    return all(part() for part in parts)


def option(call):
    function, tensors = test_options.prepared(call)
    grad = test_options.differentiable(function, tensors)
    forms = {"": lambda x: x, **LAYOUTS}
    return every(partial(record, f"further:{call}|{name}", (tree_map(layout, [to_npu(t) for t in tensors]), {}),
                         test_options.with_gradients(function, 0 if name else grad), False) for name, layout in forms.items())


def other_form(call):
    try:
        function, tensors = test_options.prepared(call)
    except SyntaxError:  # a form that nobody would write
        return True
    return record(f"further:{call}|0", ([to_npu(t) for t in tensors], {}), function, False)


def called(expression):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).npu()
    names = {"x": x, "i": x.long(), "b": x.bool(), "v": x[0].clone(), "torch": torch, "F": F}
    return record(f"further:{expression}|0", ((), {}), lambda: eval(expression, names), False)


def leaf(*shape, dtype=torch.float32, layout=None):
    numbers = torch.arange(1, torch.Size(shape).numel() + 1).view(shape).to(dtype).npu()
    return (LAYOUTS[layout](numbers) if layout else numbers).requires_grad_()


def channels_last(batch, channels, *space):
    """The client refuses the memory format, but not the strides."""
    return torch.ones(batch, *space, channels).npu().movedim(-1, 1).detach().requires_grad_()


def gradients(label, function, *leaves):
    """Of each subset of the leaves, from a gradient in each layout: also from a sum, which is one number at stride 0."""
    def backward(chosen, layout):
        result = function(*leaves)
        torch.autograd.grad(result, chosen, layout(torch.ones_like(result)))

    subsets = [[t for t, wanted in zip(leaves, bits) if wanted] for bits in product((0, 1), repeat=len(leaves)) if any(bits)]
    layouts = {"dense": lambda x: x, "sum": lambda x: x.new_ones(()).expand(x.shape), **LAYOUTS}
    return every(partial(record, f"further:{label}|{i} {name}", ((chosen, layout), {}), backward, False)
                 for i, chosen in enumerate(subsets) for name, layout in layouts.items())


def convolutions(dims, dtype, backwards):
    """Also depthwise ones, and the gradients of some operands only."""
    function = getattr(F, f"conv_transpose{dims}d" if backwards else f"conv{dims}d")
    weight = leaf(4, 1, *[3] * dims, dtype=dtype)
    options = {"groups": 4, "stride": 2, "padding": 1, **({"output_padding": 1} if backwards else {})}
    grouped = partial(function, **options)
    label = f"conv {dims} {dtype} {backwards}"
    plain = leaf(4, 3, *[3] * dims, dtype=dtype) if backwards else leaf(3, 4, *[3] * dims, dtype=dtype)
    return (gradients(f"{label} grouped", grouped, leaf(2, 4, *[6] * dims, dtype=dtype), weight, leaf(4, dtype=dtype))
            and gradients(label, function, leaf(2, 4, *[6] * dims, dtype=dtype), plain, leaf(3, dtype=dtype)))


ACTIVATIONS = """silu mish sigmoid tanh gelu elu softplus leaky_relu hardtanh hardswish hardsigmoid celu relu logsigmoid glu""".split()
ELEMENTWISE: dict[str, Any] = {name: getattr(F, name) for name in ACTIVATIONS}
ELEMENTWISE |= {"threshold": lambda x: F.threshold(x, 2, 1), "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1),
                "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:])}


def elementwise(name):
    """Also of tensors whose channels lie last."""
    function = ELEMENTWISE[name]
    last = channels_last(2, 4, 5, 6)
    return (every(partial(gradients, f"{name} {dtype} {layout}", function, leaf(3, 4, dtype=dtype, layout=layout))
                  for dtype in (torch.float32, torch.float16, torch.bfloat16) for layout in (None, *LAYOUTS))
            and gradients(f"{name} channels last", function, last))


def images(name, function):
    """Of planes and solids whose channels lie last, and of a part of a larger one."""
    shapes = (2, 4, 5, 6), (2, 4, 5, 6, 4)
    given = [channels_last(*shape) for shape in shapes]
    given += [torch.ones(2, 8, *shape[2:]).npu().chunk(2, 1)[0].detach().requires_grad_() for shape in shapes]
    return every(partial(gradients, f"{name} {i}", function, x) for i, x in enumerate(given))


# On x, i, b and v of test_called_names.py.
EXPRESSIONS = """torch.randperm(5, device='npu')
F.relu_(x.clone())
x.index_put((None, i[0] - 1), v[0])
x.index_put((i[0] - 1, None), v, accumulate=True)
torch.range(1, 5, 2, device='npu')
torch.sum(x.half(), 0, dtype=torch.float64)
torch.sum(x.bfloat16(), 0, dtype=torch.float64)
F.conv2d(x.expand(1, 2, 2, 2).contiguous(), torch.ones(2, 1, 1, 1).npu(), v, groups=2)
F.conv2d(x.expand(1, 2, 2, 2).half(), torch.ones(2, 1, 1, 1).npu().half(), v.half(), groups=2)
F.conv2d(x.expand(1, 2, 2, 2).bfloat16(), torch.ones(2, 1, 1, 1).npu().bfloat16(), v.bfloat16(), groups=2)
torch.conv_tbc(x[None].half(), x[None].half(), v.half())
torch.conv_tbc(x[None].bfloat16(), x[None].bfloat16(), v.bfloat16())
torch.searchsorted(torch.stack([v, v], 1)[:, 0], 1.5)
torch.dist(x.t(), x.t() + 1, 3)
torch.stack([v] * 100)
torch.clamp(i, max=2)
x.scatter_(0, i * 0, True)
x.t().uniform_()
x.to(torch.float8_e4m3fn).clone()
x.to(torch.float8_e5m2).clone()
torch.stack([x.to(torch.float8_e4m3fn)] * 2)
torch.stack([x.to(torch.float8_e5m2)] * 2)
x.to(torch.float8_e4m3fn).float()""".splitlines()
SYNCHRONISED = """torch.batch_norm_stats(x.{0}(), 1e-5)
torch.batch_norm_elemt(x.{0}(), v, v, v, v, 1e-5)
torch.batch_norm_elemt(x.{0}(), None, None, v, v, 1e-5)
torch.batch_norm_gather_stats_with_counts(x.{0}(), x, x, None, None, 0.1, 1e-5, v)
torch.batch_norm_gather_stats_with_counts(x.{0}(), x, x, v.clone(), v.clone(), 0.1, 1e-5, v)
torch.batch_norm_backward_reduce(x.{0}(), x.{0}(), v, v, v, True, True, True)
torch.batch_norm_backward_reduce(x.{0}(), x.{0}(), v, v, None, True, False, False)
torch.batch_norm_backward_elemt(x.{0}(), x.{0}(), v, v, v, v, v, i[0].int())
torch.batch_norm_backward_elemt(x.{0}(), x.{0}(), v, v, None, v, v, i[0].int())""".splitlines()
EXPRESSIONS += [expression.format(dtype) for expression in SYNCHRONISED for dtype in ("float", "half", "bfloat16")]
PADS = ("reflect", "replicate", "constant")
IMAGES: dict[str, Any] = {f"pad {mode}": lambda x, mode=mode: F.pad(x, (1, 2) * (x.dim() - 2), mode=mode) for mode in PADS}
IMAGES |= {"batch_norm": lambda x: F.batch_norm(x, None, None, training=True), "dropout": lambda x: F.dropout(x, 0.5),
           "pool": lambda x: (F.max_pool2d if x.dim() == 4 else F.max_pool3d)(x, 2), "triu": torch.triu, "tril": torch.tril,
           "adaptive": lambda x: (F.adaptive_avg_pool2d if x.dim() == 4 else F.adaptive_avg_pool3d)(x, 2),
           "interpolate": lambda x: F.interpolate(x, scale_factor=2), "nan_to_num": torch.nan_to_num}


def scaled(mode, align, smooth, order):
    dims = {"linear": 1, "trilinear": 3}.get(mode, 2)
    scales = [1.6, 0.7, 2.3][:dims][::order]
    function = partial(F.interpolate, mode=mode, align_corners=align, antialias=smooth, scale_factor=scales)
    return gradients(f"interpolate {mode} {align} {smooth} {order}", function, leaf(2, 3, *(6, 7, 5)[:dims]))


def lists(name):
    """In both forms, with numbers of each kind, and with more tensors than a launch takes."""
    numbers = {"int": 3, "float": 0.5, "bool": True}
    parts = []
    for place, dtype, count in product(("", "_"), (torch.float32, torch.bfloat16, torch.int64), (3, 60)):
        def tensors(dtype=dtype, count=count):
            return [torch.ones(2, 3, dtype=dtype).npu() for _ in range(count)]

        function, label = getattr(torch, f"_foreach_{name}{place}", None), f"further:foreach {name}{place}:{dtype}:{count}"
        if function is None:
            continue
        given = {"list": (tensors(), tensors()), "alone": (tensors(),), "three": (tensors(), tensors(), tensors())}
        for kind, number in numbers.items():
            given |= {kind: (tensors(), number), f"{kind}s": (tensors(), [number] * count), f"list {kind}": (tensors(), tensors(), number),
                      f"three {kind}": (tensors(), tensors(), tensors(), number), f"{kind} first": (number, tensors()),
                      f"three {kind}s": (tensors(), tensors(), tensors(), [number] * count)}
        parts += [partial(record, f"{label}|{kind}", (arguments, {}), function, False) for kind, arguments in given.items()]
    return every(parts)


LISTS = sorted({name.removeprefix("_foreach_").rstrip("_") for name in dir(torch) if name.startswith("_foreach_")})
CONVOLUTIONS = list(product((1, 2, 3), (torch.float32, torch.float16, torch.bfloat16, torch.float64), (False, True)))
MODES = [("linear", False), *product(("bilinear", "bicubic"), (False, True)), ("trilinear", False)]
PROGRAMS: dict[str, Any] = {f"option {i}": partial(option, call) for i, call in enumerate(test_options.CALLS)}
PROGRAMS |= {f"called {i}": partial(called, expression) for i, expression in enumerate([*test_called_names.EXPECTED, *EXPRESSIONS])}
PROGRAMS |= {f"convolution {i}": partial(convolutions, *options) for i, options in enumerate(CONVOLUTIONS)}
PROGRAMS |= {f"elementwise {name}": partial(elementwise, name) for name in ELEMENTWISE}
PROGRAMS |= {f"images {name}": partial(images, name, function) for name, function in IMAGES.items()}
PROGRAMS |= {f"scaled {mode} {align} {smooth} {order}": partial(scaled, mode, align, smooth, order)
             for (mode, smooth), align, order in product(MODES, (False, True), (1, -1))}
PROGRAMS |= {f"lists {name}": partial(lists, name) for name in LISTS}
OTHER_FORMS = [make(*parts) for call in test_options.CALLS if (parts := test_options.split(call))
               for make in (test_options.in_place, test_options.with_output)]
PROGRAMS |= {f"form {i}": partial(other_form, call) for i, call in enumerate(dict.fromkeys(filter(None, OTHER_FORMS)))}

