"""Gradients on the card: what torch.autograd offers, against the CPU."""

import copy

import torch
from rows import each
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import torch_npu  # noqa: F401

IN_MODES = ("queue 1",)
torch.manual_seed(0)
X = torch.randn(4, 4)


def both(function):
    """What a function of a leaf gives on the card is what it gives on the CPU."""

    def run(device):
        x = X.clone().to(device).requires_grad_()
        return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.detach().cpu(), function(x))

    torch.testing.assert_close(run("npu"), run("cpu"), rtol=1e-4, atol=1e-5)


def gradient(y, x, **arguments):
    return torch.autograd.grad(y, x, **arguments)[0]


def hooked(x):
    x.register_hook(lambda g: g * 3)
    (x * x).sum().backward()
    return x.grad


def post_accumulated(x):
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    (x * x).sum().backward()
    return seen[0]


def accumulated(x):
    for _ in range(3):
        (x * x).sum().backward()
    return x.grad


def retained(x):
    y = x * 2
    y.retain_grad()
    y.exp().sum().backward()
    return y.grad


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def offloaded(x):
    with torch.autograd.graph.save_on_cpu(pin_memory=x.is_npu):
        y = (x.exp() * x).sum()
    return gradient(y, x)


def packed(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to(torch.float32).clone(), lambda t: t):
        y = (x.sin() * x).sum()
    return gradient(y, x)


def through_views(x):
    y = x.clone()
    y[1:3] *= 2
    y.t()[0].add_(x[0])
    return gradient((y * y).sum(), x)


def module_hooks(x):
    module, seen = torch.nn.Linear(4, 4, bias=False).to(x.device), []
    with torch.no_grad():
        module.weight.copy_(X)
    module.register_full_backward_hook(lambda m, g_in, g_out: seen.extend([g_in[0].clone(), g_out[0].clone()]))
    module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    module.register_forward_hook(lambda m, args, out: out + 1)
    module(x).square().sum().backward()
    return [*seen, x.grad]


def func(name, function):
    return lambda x: getattr(torch.func, name)(function)(x.detach())


FEATURES = {
    "backward": lambda x: ((x * x).sum().backward(), x.grad)[1],
    "given gradient": lambda x: gradient(x * x, x, grad_outputs=torch.ones_like(x) * 2),
    "second gradient": lambda x: gradient(gradient((x**3).sum(), x, create_graph=True).sum(), x),
    "third gradient": lambda x: gradient(gradient(gradient((x**4).sum(), x, create_graph=True).sum(), x, create_graph=True).sum(), x),
    "unused": lambda x: [
        g is None for g in torch.autograd.grad(x.sum(), [x, torch.ones(1, device=x.device).requires_grad_()], allow_unused=True)
    ],
    "several outputs": lambda x: gradient([x.sum(), (x * x).sum()], x),
    "retained graph": lambda x: [gradient(y, x, retain_graph=True) for y in [(x.exp()).sum()] for _ in range(2)],
    "hook": hooked,
    "post accumulate hook": post_accumulated,
    "accumulated": accumulated,
    "of an intermediate": retained,
    "function of one's own": lambda x: gradient(Cube.apply(x).sum(), x),
    "function of one's own, twice": lambda x: gradient(gradient(Cube.apply(x).sum(), x, create_graph=True).sum(), x),
    "saved on the CPU": offloaded,
    "saved tensors hooks": packed,
    "through views": through_views,
    "hooks of modules": module_hooks,
    "checkpoint": lambda x: gradient(checkpoint(lambda t: (t.sin() * t).exp(), x, use_reentrant=False).sum(), x),
    "checkpoint, reentrant": lambda x: ((checkpoint(lambda t: (t.sin() * t).exp(), x, use_reentrant=True)).sum().backward(), x.grad)[1],
    "checkpoint of a sequence": lambda x: gradient(
        checkpoint_sequential([torch.sin, torch.exp, torch.tanh], 2, x, use_reentrant=False).sum(), x
    ),
    "jacobian": lambda x: torch.autograd.functional.jacobian(lambda t: t.sin().sum(0), x),
    "hessian": lambda x: torch.autograd.functional.hessian(lambda t: (t**3).sum(), x[0]),
    "vjp": lambda x: torch.autograd.functional.vjp(lambda t: t * t, x, torch.ones_like(x)),
    "jvp by double backward": lambda x: torch.autograd.functional.jvp(lambda t: t * t, x, torch.ones_like(x)),
    "func.grad": func("grad", lambda t: (t**3).sum()),
    "func.jacrev": func("jacrev", lambda t: t.sin().sum(0)),
    "func.jacfwd": func("jacfwd", lambda t: t.sin().sum(0)),
    "func.hessian": func("hessian", lambda t: (t[0] ** 3).sum()),
    "func.vmap": func("vmap", lambda t: t.sum() * t),
    "vmap of grad": lambda x: torch.func.vmap(torch.func.grad(lambda t: (t**2).sum()))(x.detach()),
    "functional_call": lambda x: torch.func.functional_call(torch.nn.Linear(4, 4), {"weight": x, "bias": x[0]}, (x,)),
    "forward mode": lambda x: forward_mode(x.detach()),
    "anomaly detection": lambda x: anomalies(x),
    "gradient clipped by norm": lambda x: (accumulated(x), torch.nn.utils.clip_grad_norm_([x], 1.0), x.grad)[1:],
    "gradient clipped by value": lambda x: (accumulated(x), torch.nn.utils.clip_grad_value_([x], 0.5), x.grad)[2],
    "of a sum over devices": lambda x: gradient(x.sum().cpu() + (x * x).sum().cpu(), x),
}


def forward_mode(x):
    import torch.autograd.forward_ad as fwAD

    with fwAD.dual_level():
        dual = fwAD.make_dual(x, torch.ones_like(x))
        return fwAD.unpack_dual(dual.sin() * dual).tangent


def anomalies(x):
    with torch.autograd.detect_anomaly(check_nan=True):
        try:
            (x.detach().abs().neg().requires_grad_().sqrt() * 0).sum().backward()
        except RuntimeError as error:
            return "nan" in str(error)
    return False


@each(FEATURES)
def check_gradients(function):
    both(function)


def graph_of(function):
    x = torch.ones(2).npu().requires_grad_()
    return function(x)


# What must not be recorded.
@each({"no_grad": torch.no_grad, "inference_mode": torch.inference_mode, "set_grad_enabled": lambda: torch.set_grad_enabled(False)})
def check_nothing_is_recorded_in(context):
    x = torch.ones(2).npu().requires_grad_()
    with context():
        y = x * 2
    assert not y.requires_grad and y.grad_fn is None
    assert (x * 2).requires_grad


def check_inference_tensors_are_not_for_autograd():
    with torch.inference_mode():
        x = torch.ones(2).npu()
    assert x.is_inference()
    try:
        (x * torch.ones(2).npu().requires_grad_()).sum()
        x.add_(1)
    except RuntimeError as error:
        assert "nference" in str(error)
    else:
        raise AssertionError("an inference tensor was saved")


@each({"plain": False, "reentrant": True})
def check_a_checkpoint_draws_the_same_numbers_again(reentrant):
    torch.npu.manual_seed(4)
    x = torch.ones(1000).npu().requires_grad_()
    y = checkpoint(lambda t: torch.nn.functional.dropout(t, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu()) and 300 < (y == 0).sum().item() < 700


def check_a_checkpoint_keeps_less():
    layers = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh()) for _ in range(8)]).npu()
    x = torch.randn(512, 256).npu().requires_grad_()

    def peak(run):
        torch.npu.synchronize()
        torch.npu.reset_peak_memory_stats()
        before = torch.npu.memory_allocated()
        run().sum().backward()
        return torch.npu.max_memory_allocated() - before

    layers(x).sum().backward()  # gradients are there
    assert peak(lambda: checkpoint_sequential(layers, 4, x, use_reentrant=False)) < peak(lambda: layers(x))


def check_gradients_in_a_thread():
    import threading

    x = torch.ones(3).npu().requires_grad_()
    y = (x * x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2] * 3


def check_the_backward_pass_runs_on_the_stream_of_the_forward_pass():
    side, seen = torch.npu.Stream(), []
    x = torch.ones(3).npu().requires_grad_()
    x.register_hook(lambda g: seen.append(torch.npu.current_stream()))
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = (x * 2).sum()
    y.backward()
    assert seen == [side]


@each([torch.nn.GRU, torch.nn.RNN])
def check_recurrent_networks(kind):
    torch.manual_seed(0)
    module = kind(5, 4, num_layers=2, batch_first=True)
    twin = copy.deepcopy(module).npu()
    x = torch.randn(3, 6, 5)
    expected, found = module(x)[0], twin(x.npu())[0]
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)
