"""How the loss scale moves, which steps are skipped, and where gradients end up."""

import pytest
import torch

from apex import amp

INF = float("inf")


def start(opt_level="O2", lr=0.5, optimizer_class=torch.optim.SGD, **options):
    model = torch.nn.Linear(2, 1, bias=False).npu()
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = optimizer_class(model.parameters(), lr=lr)
    return amp.initialize(model, optimizer, opt_level=opt_level, verbosity=0, **options)


def step(model, optimizer, overflow=False, zero=True):
    if zero:
        optimizer.zero_grad()
    with amp.scale_loss(model(torch.ones(1, 2, device="npu")).sum(), optimizer) as loss:
        loss.backward()
        if overflow:
            model.weight.grad[0, 0] = INF
    optimizer.step()
    return amp.state_dict()["loss_scaler0"]["loss_scale"], model.weight.tolist()[0]


def reference(sequence, scale, window, factor=2.0, backoff=0.5, low=0.0, high=2.0**24):
    """The scales after each of a sequence of steps, True for an overflow."""
    scales, quiet = [], 0
    for overflow in sequence:
        quiet = 0 if overflow else quiet + 1
        scale = max(low, scale * backoff) if overflow else scale
        if quiet == window:
            scale, quiet = min(high, scale * factor), 0
        scales.append(scale)
    return scales


SEQUENCE = [False, False, True, False, True, True, False, False, False, False, False]


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
@pytest.mark.parametrize("combine_grad", [None, True])
def test_dynamic_scale_follows_overflows(opt_level, combine_grad):
    model, optimizer = start(opt_level, dynamic_init_scale=64.0, scale_window=3, combine_grad=combine_grad, lr=0.125,
                             check_combined_tensors=combine_grad)
    weight, scales = 1.0, []
    for overflow in SEQUENCE:
        scale, values = step(model, optimizer, overflow)
        weight -= 0.0 if overflow else 0.125
        assert values == [weight, weight]
        scales.append(scale)
    assert scales == reference(SEQUENCE, 64.0, 3)


def test_scale_has_bounds_and_factors():
    options = {"dynamic_init_scale": 16.0, "scale_window": 1, "scale_growth_factor": 4.0, "scale_backoff_factor": 0.25}
    model, optimizer = start(min_loss_scale=2.0, max_loss_scale=64.0, **options)
    sequence = [False, False, True, True, True, True, False]
    assert [step(model, optimizer, overflow)[0] for overflow in sequence] == reference(sequence, 16.0, 1, 4.0, 0.25, 2.0, 64.0)


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
def test_static_scale_stays(opt_level):
    model, optimizer = start(opt_level, loss_scale=128.0, scale_window=1)
    assert [step(model, optimizer) for _ in range(3)] == [(128.0, [0.5, 0.5]), (128.0, [0.0, 0.0]), (128.0, [-0.5, -0.5])]


def test_skipped_step_is_announced(capsys):
    model = torch.nn.Linear(2, 1).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    step(model, optimizer, overflow=True)
    assert "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
@pytest.mark.parametrize("combine_grad", [None, True])
def test_gradients_accumulate_unscaled(opt_level, combine_grad):
    model, optimizer = start(opt_level, combine_grad=combine_grad, dynamic_init_scale=64.0)
    for _ in range(2):
        with amp.scale_loss(model(torch.ones(1, 2, device="npu")).sum(), optimizer) as loss:
            loss.backward()
    assert [p.grad.tolist() for p in amp.master_params(optimizer)] == [[[2.0, 2.0]]]


def test_delayed_unscaling():
    model, optimizer = start("O1", loss_scale=4.0)
    for delay in (True, False):
        with amp.scale_loss(model(torch.ones(1, 2, device="npu")).sum(), optimizer, delay_unscale=delay) as loss:
            loss.backward()
        if delay:
            with pytest.raises(RuntimeError, match="delay_unscale"):
                optimizer.step()
    assert model.weight.grad.tolist() == [[2.0, 2.0]]


def test_several_losses_have_their_own_scale():
    model, optimizer = start("O1", num_losses=2, dynamic_init_scale=8.0, scale_window=10)
    with amp.scale_loss(model(torch.ones(1, 2, device="npu")).sum(), optimizer, loss_id=1) as loss:
        loss.backward()
        model.weight.grad.fill_(INF)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 8.0
    assert amp.state_dict()["loss_scaler1"]["loss_scale"] == 4.0
    with pytest.raises(IndexError, match="num_losses=2"):
        with amp.scale_loss(loss, optimizer, loss_id=2):
            pass


def test_state_dict_restores_the_scale():
    model, optimizer = start(dynamic_init_scale=64.0, scale_window=4)
    step(model, optimizer, overflow=True)
    step(model, optimizer)
    saved = amp.state_dict()
    assert saved == {"loss_scaler0": {"loss_scale": 32.0, "unskipped": 1}}
    start(dynamic_init_scale=2.0)
    amp.load_state_dict(saved)
    assert amp.state_dict() == saved
    with pytest.raises(RuntimeError, match="loss_scaler1"):
        amp.load_state_dict({"loss_scaler1": {}})


def test_parameter_groups_added_later_get_masters():
    model, optimizer = start("O2")
    late = torch.nn.Parameter(torch.ones(2, device="npu", dtype=torch.float16))
    optimizer.add_param_group({"params": [late]})
    assert [p.dtype for p in amp.master_params(optimizer)] == [torch.float32] * 2


def test_fused_optimizers_work_under_amp():
    from apex.optimizers import NpuFusedSGD

    model, optimizer = start("O2", optimizer_class=NpuFusedSGD, dynamic_init_scale=64.0)
    assert step(model, optimizer, overflow=True) == (32.0, [1.0, 1.0])
    assert step(model, optimizer) == (32.0, [0.5, 0.5])


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
def test_training_reaches_the_loss_of_float32(opt_level):
    def train(level):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).npu()
        x = torch.randn(64, 8).npu()
        y = x.sum(1, keepdim=True).sin()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0)
        for _ in range(60):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            optimizer.step()
        return loss.item()

    assert train(opt_level) <= 1.05 * train("O0")
