"""Programs whose calls are recorded, run with whatever torch_npu this python has: torch's databases of operators, modules and optimisers,
the cases of custom operators, collectives, and training steps.

Usage: python programs.py FIRST NAME...: from number FIRST on. record.py does it, once for each client. A name is one of
    model:NAME[:amp]    op:NAME:TYPE[:LAYOUT]    foreach:NAME:TYPE[:LAYOUT]    module:NAME    optimiser:NAME[:TYPE]    custom:NAME
    ranks:TYPE    mixed:NAME    further:NAME    test:FILE:FUNCTION
LAYOUT is strided, inputs and gradients with gaps between their elements, or transposed, with their elements in another order; outputs are
given, too, and in place. mixed: mixed.py, operands of two types. further: further.py, programs that the tests have beside those databases.
test: tests.py, the tests themselves.
       python programs.py --list KINDS TYPES: the names of some kinds (strided and transposed are two of them), or of all but tests.
Every part of a program stands between two marks of the recording, "B program|sample|phase" and "E ok" or "E <error>".
"""

import ctypes
import json
import os
import random
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

import torch_npu  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parents[2] / "torch_npu/verify"))  # of this project, whatever torch_npu was imported
import networks  # noqa: E402

SAMPLES = int(os.environ.get("CALLS_SAMPLES", "4"))
DEVICE = ctypes.CDLL("libsoftnpu.so")
LONG = 60  # tensors of a list that no client sends at once


def text(message):
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else " " for c in message)[:300].encode()


@contextmanager
def region(name, failures):
    """An error ends the region, not the program: it is in the recording and in `failures`."""
    torch.npu.synchronize()
    DEVICE.softnpu_record(text(f"B {name}"))
    end = "ok"
    try:
        yield
        torch.npu.synchronize()
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
        failures.append(name)
    DEVICE.softnpu_record(text(f"E {end}"))
    DEVICE.softnpu_record(None)


def healthy():
    try:
        return (torch.ones(3).npu() + 1).sum().item() == 6
    except Exception:
        return False


def to_npu(x):
    if isinstance(x, torch.Tensor):
        return x.detach().npu().requires_grad_(x.requires_grad) if x.layout == torch.strided else x
    if isinstance(x, (str, torch.device)) and str(x) == "cpu":
        return type(x)("npu")
    return x


def strided(x):
    """A tensor of the card with gaps between its elements."""
    if not isinstance(x, torch.Tensor) or x.device.type != "npu" or x.dim() == 0:
        return x
    wide = torch.empty([*x.shape[:-1], 2 * x.shape[-1]], dtype=x.dtype, device=x.device)
    return wide[..., ::2].copy_(x.detach()).detach().requires_grad_(x.requires_grad)


def transposed(x):
    """A tensor of the card whose elements lie in another order, without gaps."""
    if not isinstance(x, torch.Tensor) or x.device.type != "npu" or x.dim() < 2:
        return x
    return x.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_(x.requires_grad)


LAYOUTS = {"strided": strided, "transposed": transposed}
BROKEN_OUTPUTS = {"linalg.lu", "lu_unpack"}  # torch's kernel of the CPU, which a folder like CANN's leads to, writes behind such outputs


def record(label, arguments, function, grad, layout=lambda x: x):
    """Forward and backward pass; False if the card does not answer any more."""
    failures = []
    torch.manual_seed(7)
    with region(f"{label}|forward", failures):
        result = function(*arguments[0], **arguments[1])
    if not failures and grad:
        outputs = [o for o in tree_flatten(result)[0] if isinstance(o, torch.Tensor) and o.requires_grad]
        leaves = [x for x in tree_flatten(arguments)[0] if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf]
        leaves += [p for p in function.parameters() if p.requires_grad] if isinstance(function, nn.Module) else []
        if outputs and leaves:
            ones = [layout(torch.ones(o.shape, dtype=o.dtype).npu()) for o in outputs]
            with region(f"{label}|backward", failures):
                torch.autograd.grad(outputs, leaves, ones, allow_unused=True)
    return not failures or healthy()


def run_operator(name, dtype, *variant):
    from torch.testing._internal.common_methods_invocations import op_db

    op = next(o for o in op_db if f"{o.name}.{o.variant_test_name}".rstrip(".") == name)
    return run_samples(op, f"op:{name}", dtype, variant)


def foreach_db():
    from torch.testing._internal import common_methods_invocations as database

    return [op for kind in ("unary", "binary", "pointwise", "reduce", "other") for op in getattr(database, f"foreach_{kind}_op_db")]


def run_foreach(name, dtype, *variant):
    """Also on a list that is longer than those of the database."""
    op = next(o for o in foreach_db() if o.name == name)
    if variant:
        return run_samples(op, f"foreach:{name}", dtype, variant)
    longer = [torch.ones(3, dtype=getattr(torch, dtype)).npu() for _ in range(LONG)]
    lists = 1 + op.name.startswith(("_foreach_add", "_foreach_mul", "_foreach_sub", "_foreach_div")) + 2 * ("addc" in op.name)
    return run_samples(op, f"foreach:{name}", dtype, ()) and record(f"foreach:{name}:{dtype}|{LONG}", ([longer] * lists, {}), op, False)


def run_samples(op, name, dtype, variant):
    dtype = getattr(torch, dtype)
    layout = LAYOUTS[variant[0]] if variant else lambda x: x
    grad = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(1)
    random.seed(1)
    samples = [sample for _, sample in zip(range(40), op.sample_inputs("cpu", dtype, requires_grad=grad))]
    for i in range(0, len(samples), max(1, len(samples) // SAMPLES))[:SAMPLES]:
        label = ":".join([name, str(dtype).removeprefix("torch."), *variant]) + f"|{i}"
        sample = samples[i]
        try:
            arguments = tree_map(to_npu, ([sample.input, *sample.args], sample.kwargs))
            arguments = tree_map(layout, arguments)
        except Exception:  # a tensor that cannot be on the card
            continue
        given = variant and op.name not in BROKEN_OUTPUTS
        if not record(label, arguments, op, grad, layout) or (given and not record_given_outputs(label, arguments, op, layout)):
            return False
    return True


@torch.no_grad()
def record_given_outputs(label, arguments, op, layout):
    """With outputs of this layout, and in place."""
    args, kwargs = tree_map(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, arguments)
    if op.supports_out:
        try:
            result = op(*args, **kwargs)
        except Exception:
            return healthy()
        outputs = tree_map(lambda x: layout(torch.empty_like(x)) if isinstance(x, torch.Tensor) else x, result)
        outputs = tuple(outputs) if isinstance(outputs, tuple) else outputs
        given = all(isinstance(x, torch.Tensor) for x in tree_flatten(outputs)[0])
        if given and not record(f"{label}out", (args, {**kwargs, "out": outputs}), op, False):
            return False
    if op.inplace_variant and isinstance(args[0], torch.Tensor):
        return record(f"{label}inplace", ([args[0].clone(), *args[1:]], kwargs), op.inplace_variant, False)
    return True


def run_module(name):
    from torch.testing._internal.common_modules import module_db

    info = next(m for m in module_db if m.name == name)
    for training in (True, False):
        torch.manual_seed(1)
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
        for i, each in enumerate(list(inputs)[:SAMPLES]):
            given = each.constructor_input
            module = info.module_cls(*given.args, **given.kwargs).train(training)
            try:
                arguments = tree_map(to_npu, (list(each.forward_input.args), each.forward_input.kwargs))
                if any(isinstance(p, nn.parameter.UninitializedParameter) for p in module.parameters()):
                    module(*each.forward_input.args, **each.forward_input.kwargs)
                module.npu()
            except Exception:
                continue
            if not record(f"module:{name}|{'training' if training else 'evaluation'}{i}", arguments, module, True):
                return False
    return True


def run_optimiser(name, dtype="float32"):
    """Each configuration in each implementation, and once with many parameters; in other types than float32 the fused one."""
    from torch.testing._internal.common_optimizers import optim_db

    info = next(o for o in optim_db if o.optim_cls.__name__ == name)
    inputs = info.optim_inputs_func(device="cpu")
    every = ("forloop", "foreach", "fused") if dtype == "float32" else ("fused",)
    for implementation in (i for i in every if i == "forloop" or i in info.supported_impls):
        choice = {implementation: True} if implementation != "forloop" else {"foreach": False} if "foreach" in info.supported_impls else {}
        for i, given in enumerate([*inputs, inputs[0]]):
            shapes = [(4, 3), (2, 5)] * (LONG // 2 if i == len(inputs) else 1)
            parameters = [torch.ones(shape, dtype=getattr(torch, dtype)).npu().requires_grad_() for shape in shapes]
            failures = []
            label = name if dtype == "float32" else f"{name}:{dtype}"
            with region(f"optimiser:{label}|{implementation}{i}|step", failures):
                optimiser = info.optim_cls(parameters, **{**given.kwargs, **choice})
                for p in parameters:
                    p.grad = torch.ones_like(p)
                for _ in range(2):
                    optimiser.step(lambda: sum((p * p).sum() for p in parameters)) if name == "LBFGS" else optimiser.step()
            if failures and not healthy():
                return False
    return True


def run_custom(name):
    """The cases of one operator that the official client can be asked, in their own types, in half precision and on views."""
    from dataclasses import replace

    import custom_ops

    def narrow(dtype):
        return lambda x: x.to(dtype) if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x

    torch.npu.config.allow_internal_format = True  # else the official client has no private formats
    apart = custom_ops.exceptions()
    for case in custom_ops.cases():
        if case.op != name:
            continue
        types = {t.dtype for t in tree_flatten((case.args, case.kwargs))[0] if isinstance(t, torch.Tensor)}
        for dtype in ("", *(() if torch.bfloat16 in types else ("float16", "bfloat16"))):
            each = case
            if dtype:
                each = replace(case, **{part: tree_map(narrow(getattr(torch, dtype)), getattr(case, part)) for part in ("args", "kwargs")})
            failures = []
            args, kwargs = custom_ops.arguments(each, "npu")
            with region(f"custom:{case}|{dtype}|forward", failures):
                custom_ops.operator(each)(*args, **kwargs)
            if not failures and case.grad and f"{case} gradient" not in apart:
                with region(f"custom:{case}|{dtype}|backward", failures):
                    custom_ops.gradients(each, "npu", custom_ops.operator(each))
            if failures and not healthy():
                return False
        if not record_views(case, f"{case} gradient" not in apart):
            return False
    return True


def record_views(case, grad):
    """A case with all its tensors, and the gradients of its results, in other layouts."""
    import custom_ops

    for name, layout in LAYOUTS.items():
        args, kwargs = tree_map(layout, custom_ops.arguments(case, "npu"))
        for i in case.grad if grad else ():
            args[i].requires_grad_()
        if not record(f"custom:{case}|{name}", (args, kwargs), custom_ops.operator(case), grad, layout):
            return False
    return True


def run_model(name, amp=""):
    torch.manual_seed(3)
    net, x, target, optimiser = networks.network(name)
    net, x, target = net.npu(), x.npu(), target.npu()
    optimiser = optimiser(net.parameters())
    scaler = torch.amp.GradScaler("npu", enabled=bool(amp))
    failures, loss = [], None
    for step in range(2):
        label = f"model:{name}{':amp' if amp else ''}|{step}"
        with region(f"{label}|forward", failures), torch.autocast("npu", torch.float16, enabled=bool(amp)):
            loss = F.cross_entropy(net(x), target)
        with region(f"{label}|backward", failures):
            scaler.scale(loss).backward()
        with region(f"{label}|clip", failures):
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with region(f"{label}|optimiser", failures):
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        with region(f"{label}|item", failures):
            loss.item()
        if failures:
            return healthy()
    return True


def run_ranks(dtype):
    import ranks

    ranks.spawn(dtype)  # a failure ends the recording of its region
    return True


def run_mixed(name):
    import mixed

    return mixed.run(name)


def run_further(name):
    import further

    return further.run(name)


def run_test(path, name):
    import tests

    return tests.run(path, name)


KINDS = {"model": run_model, "op": run_operator, "foreach": run_foreach, "module": run_module, "optimiser": run_optimiser,
         "custom": run_custom, "ranks": run_ranks, "mixed": run_mixed, "further": run_further,
         "test": run_test}
TYPES = "float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool complex64 complex128".split()


def listed(kinds, types):
    import custom_ops
    import further
    import mixed
    import tests
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db
    from torch.testing._internal.common_optimizers import optim_db

    floating = [t for t in types if getattr(torch, t).is_floating_point and t != "float32"]

    def typed(kind, database):
        names = {f"{o.name}.{getattr(o, 'variant_test_name', '')}".rstrip("."): o for o in database}
        return [f"{kind}:{n}:{t}" for t in types for n in sorted(names) if getattr(torch, t) in names[n].dtypes]

    found = {"model": [f"model:{name}{amp}" for amp in ("", ":amp") for name in networks.NAMES],
             "op": typed("op", op_db),
             **{layout: [f"{name}:{layout}" for name in typed("op", op_db) + typed("foreach", foreach_db())] for layout in LAYOUTS},
             "foreach": typed("foreach", foreach_db()),
             "module": [f"module:{m.name}" for m in module_db], "optimiser": [f"optimiser:{o.optim_cls.__name__}" for o in optim_db]
             + [f"optimiser:{o.optim_cls.__name__}:{t}" for o in optim_db if "fused" in o.supported_impls for t in floating],
             "custom": sorted({f"custom:{case.op}" for case in custom_ops.cases()}), "ranks": [f"ranks:{t}" for t in types],
             "mixed": [f"mixed:{name}" for name in mixed.FUNCTIONS], "further": [f"further:{name}" for name in further.PROGRAMS],
             "test": [f"test:{name}" for name in tests.names()] if "test" in kinds else []}
    return [name for kind in kinds or found for name in found[kind]]


def main():
    warnings.filterwarnings("ignore")
    sys.path.append(str(Path(__file__).resolve().parents[2] / "test/official"))
    first, *names = sys.argv[1:]
    if first == "--list":
        kinds, types = ([] if given == "all" else given.split(",") for given in names)
        return print(json.dumps(listed(kinds, types or TYPES)))
    torch.npu.init()
    for number in range(int(first), len(names)):
        print(number, flush=True)
        kind, *rest = names[number].split(":")
        if not KINDS[kind](*rest):
            os._exit(3)
    print(len(names), flush=True)
    os._exit(0)  # without what ends the card, which a refused call may have left in any state


if __name__ == "__main__":
    main()
