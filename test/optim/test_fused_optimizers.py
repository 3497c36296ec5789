"""torch_npu.optim: the same numbers as the optimiser of torch.optim, or as the rule written out, with the same state dict."""

import copy
import math

import pytest
import torch

from torch_npu import optim

SHAPES = [(4, 3), (5,), (2, 3, 2), (1,)]
CASES = [
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1}),
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01}),
    (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    (optim.NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.01}),
    (optim.NpuFusedAdadelta, torch.optim.Adadelta, {"lr": 0.5, "weight_decay": 0.01}),
    (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.01}),
    (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
]


def parameters(device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in SHAPES]


def set_gradients(params, step, skip=()):
    generator = torch.Generator().manual_seed(100 + step)
    for index, parameter in enumerate(params):
        grad = torch.randn(SHAPES[index], generator=generator)
        if index in skip:
            parameter.grad = None
        elif parameter.grad is None:
            parameter.grad = grad.to(parameter.device)
        else:
            parameter.grad.add_(grad.to(parameter.device))


def assert_same(npu, cpu):
    for a, b in zip(npu, cpu):
        torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fused, plain, options", CASES)
def test_equal_to_torch_optim(fused, plain, options):
    npu, cpu = parameters("npu"), parameters("cpu")
    a, b = fused(npu, **options), plain(cpu, **options)
    for step in range(6):
        a.zero_grad()
        b.zero_grad()
        set_gradients(npu, step)
        set_gradients(cpu, step)
        a.step()
        b.step()
    assert_same(npu, cpu)


@pytest.mark.parametrize("fused, plain, options", CASES[3:])
def test_state_dict_is_that_of_torch_optim(fused, plain, options):
    npu, cpu = parameters("npu"), parameters("cpu")
    a, b = fused(npu, **options), plain(cpu, **options)
    set_gradients(cpu, 0)
    b.step()
    with torch.no_grad():
        for mine, theirs in zip(npu, cpu):
            mine.copy_(theirs)
    a.load_state_dict(b.state_dict())
    for step in (1, 2):
        set_gradients(npu, step)
        set_gradients(cpu, step)
        if step == 1:  # the npu side begins with what the CPU side has accumulated
            for mine, theirs in zip(npu, cpu):
                mine.grad.copy_(theirs.grad)
        a.step()
        b.step()
    assert_same(npu, cpu)
    assert {k for s in a.state_dict()["state"].values() for k in s} == {k for s in b.state_dict()["state"].values() for k in s}


@pytest.mark.parametrize("name", [name for name in optim.__all__ if name != "NpuFusedOptimizerBase"])
def test_steps_are_counted(name):
    params = parameters("npu")
    optimizer = getattr(optim, name)(params, lr=0.01)
    for step in range(3):
        set_gradients(params, step)
        optimizer.step()
    assert [float(optimizer.state[p]["step"]) for p in params] == [3.0] * len(params)


def test_parameters_without_gradient_are_left_alone():
    npu, cpu = parameters("npu"), parameters("cpu")
    a, b = optim.NpuFusedAdam(npu), torch.optim.Adam(cpu)
    for step, skip in enumerate([(1,), (), (0, 2), ()]):
        for optimizer, params in ((a, npu), (b, cpu)):
            optimizer.zero_grad(set_to_none=True)
            set_gradients(params, step, skip)
            optimizer.step()
    assert_same(npu, cpu)


def test_groups_have_their_own_options():
    npu, cpu = parameters("npu"), parameters("cpu")
    a = optim.NpuFusedSGD([{"params": npu[:2], "lr": 0.5}, {"params": npu[2:]}], lr=0.1)
    b = torch.optim.SGD([{"params": cpu[:2], "lr": 0.5}, {"params": cpu[2:]}], lr=0.1)
    for optimizer, params in ((a, npu), (b, cpu)):
        set_gradients(params, 0)
        optimizer.step()
    assert_same(npu, cpu)
    assert len(a.get_combined_params()) == len(a.get_combined_grads()) == 2


def test_parameters_stay_views_of_one_buffer():
    npu = parameters("npu")
    optimizer = optim.NpuFusedAdam(npu)
    set_gradients(npu, 0)
    optimizer.step()
    (buffer,) = optimizer.get_combined_params()
    assert buffer.numel() == sum(math.prod(shape) for shape in SHAPES)
    address = [p.data_ptr() for p in npu]
    optimizer.zero_grad()
    assert all(not p.grad.any() for p in npu)
    set_gradients(npu, 1)
    optimizer.step()
    assert address == [p.data_ptr() for p in npu]


@pytest.mark.parametrize("norm_type", [2, 1, float("inf")])
def test_fused_clipping(norm_type):
    npu, cpu = parameters("npu"), parameters("cpu")
    optimizer = optim.NpuFusedSGD(npu, lr=0.1)
    set_gradients(npu, 0)
    set_gradients(cpu, 0)
    total = optimizer.clip_grad_norm_fused_(0.5, norm_type)
    expected = torch.nn.utils.clip_grad_norm_(cpu, 0.5, norm_type)
    torch.testing.assert_close(total.cpu(), expected)
    assert_same([p.grad for p in npu], [p.grad for p in cpu])


def test_clipping_leaves_a_small_norm_and_no_gradients_alone():
    npu = parameters("npu")
    optimizer = optim.NpuFusedSGD(npu, lr=0.1)
    assert optimizer.clip_grad_norm_fused_(1.0).item() == 0.0
    set_gradients(npu, 0)
    before = [p.grad.cpu() for p in npu]
    optimizer.clip_grad_norm_fused_(1e4)
    assert all(torch.equal(p.grad.cpu(), grad) for p, grad in zip(npu, before))


def test_a_step_returns_the_loss_of_its_closure():
    param = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = optim.NpuFusedSGD([param], lr=0.5)

    def closure():
        loss = (param * 3).sum()
        loss.backward()
        return loss

    assert optimizer.step() is None
    assert optimizer.step(closure).item() == 6.0
    assert param.tolist() == [-0.5, -0.5]


def test_sparse_gradients_are_refused():
    embedding = torch.nn.Embedding(4, 3, sparse=True, device="npu")
    embedding(torch.tensor([1], device="npu")).sum().backward()
    with pytest.raises(RuntimeError, match="NpuFusedAdam does not support sparse gradients"):
        optim.NpuFusedAdam(embedding.parameters()).step()


@pytest.mark.parametrize("done", [4094, 9000, 0])
def test_adam_goes_on_from_any_step(done):
    """The kernel reads the number of the step from the card, where many of them were copied at once."""
    npu, cpu = parameters("npu"), parameters("cpu")
    a, b = optim.NpuFusedAdam(npu, lr=0.1, betas=(0.9, 0.9999)), torch.optim.Adam(cpu, lr=0.1, betas=(0.9, 0.9999))
    for optimizer, params in ((a, npu), (b, cpu)):
        set_gradients(params, 0)
        optimizer.step()
        for state in optimizer.state.values():
            state["step"].fill_(done)  # in place, so that the buffers stay
        for step in range(4):
            optimizer.zero_grad()
            set_gradients(params, step)
            optimizer.step()
    assert_same(npu, cpu)


def test_zero_grad_reaches_gradients_that_no_step_has_seen():
    npu = parameters("npu")
    optimizer = optim.NpuFusedSGD(npu, lr=0.1)
    set_gradients(npu, 0, skip=(1,))
    optimizer.zero_grad()
    assert npu[1].grad is None and all(not p.grad.any() for p in npu if p.grad is not None)
    set_gradients(npu, 0, skip=(1,))
    optimizer.step()
    set_gradients(npu, 1)  # one more than the last step combined
    npu[0].grad = torch.ones_like(npu[0])  # and one that is not where that was
    optimizer.zero_grad()
    assert all(p.grad is not None and not p.grad.any() for p in npu)
    optimizer.zero_grad(set_to_none=True)
    assert all(p.grad is None for p in npu)


def test_a_copy_of_an_optimiser_steps_by_itself():
    npu, cpu = parameters("npu"), parameters("cpu")
    optimizer, reference = optim.NpuFusedAdam(npu), torch.optim.Adam(cpu)
    for step in range(3):
        if step == 1:
            original, (npu, optimizer) = npu[0].tolist(), copy.deepcopy((first := npu, optimizer))
        for params, own in ((npu, optimizer), (cpu, reference)):
            own.zero_grad(set_to_none=True)
            set_gradients(params, step)
            own.step()
    assert_same(npu, cpu)
    assert first[0].tolist() == original


def reference_lamb(p, grads, lr, b1, b2, eps, wd):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for g in grads:
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        step = m / (v.sqrt() + eps) + wd * p
        p = p - lr * min(float(p.norm()), 10.0) / float(step.norm()) * step
    return p


def reference_bert_adam(p, grads, lr, t_total, warmup):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate(grads):
        g = g * min(1.0, 1.0 / (float(g.norm()) + 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        x = t / t_total
        p = p - lr * (x / warmup if x < warmup else max((x - 1) / (warmup - 1), 0)) * (m / (v.sqrt() + 1e-6) + 0.01 * p)
    return p


def reference_rmsprop_tf(p, grads, lr, alpha, eps, momentum):
    v, buffer = torch.ones_like(p), torch.zeros_like(p)
    for g in grads:
        v = alpha * v + (1 - alpha) * g * g
        buffer = momentum * buffer + lr * g / (v + eps).sqrt()
        p = p - buffer
    return p


def reference_adamp(p, grads, lr, delta, wd, wd_ratio):
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        step, ratio = m / ((v / (1 - 0.999**t)).sqrt() + 1e-8), 1.0
        if p.dim() > 1:
            for rows in (p.size(0), 1):
                w, d = p.reshape(rows, -1), g.reshape(rows, -1)
                if torch.cosine_similarity(d, w, dim=1).abs().max() < delta / math.sqrt(w.size(1)):
                    unit = w / w.norm(dim=1, keepdim=True)
                    flat = step.reshape(rows, -1)
                    step, ratio = (flat - unit * (unit * flat).sum(1, keepdim=True)).view_as(p), wd_ratio
                    break
        p = p * (1 - lr * wd * ratio) - lr / (1 - 0.9**t) * step
    return p


@pytest.mark.parametrize(
    "make, reference",
    [
        (lambda ps: optim.NpuFusedLamb(ps, lr=0.1, weight_decay=0.1),
         lambda p, gs: reference_lamb(p, gs, 0.1, 0.9, 0.999, 1e-6, 0.1)),
        (lambda ps: optim.NpuFusedBertAdam(ps, lr=0.1, warmup=0.25, t_total=8),
         lambda p, gs: reference_bert_adam(p, gs, 0.1, 8, 0.25)),
        (lambda ps: optim.NpuFusedRMSpropTF(ps, lr=0.1, momentum=0.9),
         lambda p, gs: reference_rmsprop_tf(p, gs, 0.1, 0.9, 1e-10, 0.9)),
        (lambda ps: optim.NpuFusedAdamP(ps, lr=0.1, weight_decay=0.1, delta=0.1),
         lambda p, gs: reference_adamp(p, gs, 0.1, 0.1, 0.1, 0.1)),
        (lambda ps: optim.NpuFusedAdamP(ps, lr=0.1, weight_decay=0.1, delta=10.0),
         lambda p, gs: reference_adamp(p, gs, 0.1, 10.0, 0.1, 0.1)),
    ],
)
def test_rules_that_torch_optim_lacks(make, reference):
    npu, cpu = parameters("npu"), parameters("cpu")
    optimizer = make(npu)
    grads = []
    for step in range(5):
        optimizer.zero_grad(set_to_none=True)
        set_gradients(npu, step)
        grads.append([p.grad.cpu() for p in npu])
        optimizer.step()
    expected = [reference(p.detach(), [g[i] for g in grads]) for i, p in enumerate(cpu)]
    assert_same(npu, expected)


@pytest.mark.parametrize("make", [optim.NpuFusedLamb, optim.NpuFusedAdamP], ids=lambda make: make.__name__)
def test_averages_are_found_under_their_names(make):
    npu = parameters("npu")
    optimizer = make(npu)
    set_gradients(npu, 0)
    optimizer.step()
    for p in npu:
        state = optimizer.state[p]
        torch.testing.assert_close(state["exp_avg"], 0.1 * p.grad)
        torch.testing.assert_close(state["exp_avg_sq"], 0.001 * p.grad.square())


def test_lamb_scales_all_gradients_by_their_norm():
    npu = parameters("npu")
    optimizer = optim.NpuFusedLamb(npu, use_global_grad_norm=True)
    set_gradients(npu, 0)
    optimizer.step()
    assert sum(float(p.grad.square().sum()) for p in npu) == pytest.approx(1.0, rel=1e-4)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="learning rate value: -1"):
        optim.NpuFusedAdam(parameters("npu"), lr=-1)
    with pytest.raises(ValueError, match="schedule value: unknown"):
        optim.NpuFusedBertAdam(parameters("npu"), schedule="unknown")
    with pytest.raises(ValueError, match="parameter group"):
        optim.NpuFusedAdam(parameters("npu")).load_state_dict(optim.NpuFusedAdam(parameters("npu")[:1]).state_dict())


@pytest.mark.parametrize("cls", [optim.NpuFusedAdam, optim.NpuFusedAdamW])
def test_adam_is_one_update_launch_for_all_parameters(cls):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        names: list = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "_fused_adam" in str(func):
                self.names.append(len(args[0]))
            return func(*args, **(kwargs or {}))

    npu = parameters("npu")
    optimizer = cls(npu)
    set_gradients(npu, 0)
    Count.names = []
    with Count():
        optimizer.step()
    assert Count.names == [1]
