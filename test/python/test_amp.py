"""torch.npu.amp and torch.autocast("npu"): which precision is used where, and how the loss scale moves."""

import pytest
import torch

INF = float("inf")


def test_autocast_is_torchs_with_the_device_filled_in():
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled()
        assert torch.npu.get_autocast_dtype() == torch.bfloat16
        assert torch.is_autocast_enabled("npu")
        with torch.autocast("npu", enabled=False):
            assert not torch.npu.is_autocast_enabled()
    assert not torch.npu.is_autocast_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_autocast_covers_the_operators_that_cuda_covers():
    def covered(key):
        names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
        return {name for name in names if name.startswith("aten::") and "cudnn" not in name}

    assert covered("AutocastPrivateUse1") == covered("AutocastCUDA")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_chooses_the_precision_of_each_operator(dtype):
    x, image = torch.randn(4, 4, device="npu"), torch.randn(1, 2, 5, 5, device="npu")
    weight = torch.randn(3, 2, 3, 3, device="npu")
    with torch.autocast("npu", dtype=dtype):
        low = x @ x
        assert low.dtype == dtype
        assert torch.nn.functional.conv2d(image, weight).dtype == dtype
        assert torch.softmax(low, 0).dtype == torch.float32
        assert torch.nn.functional.mse_loss(low, low).dtype == torch.float32
        assert low.exp().dtype == torch.float32
        assert (low + 1).dtype == dtype
        assert torch.addcmul(x, low, low).dtype == torch.float32
    assert (x @ x).dtype == torch.float32


def test_default_dtype_is_float16():
    x = torch.randn(4, 4, device="npu")
    with torch.autocast("npu"):
        assert (x @ x).dtype == torch.float16


def test_autocast_refuses_losses_that_overflow():
    p = torch.rand(3, device="npu")
    with torch.autocast("npu"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        torch.nn.functional.binary_cross_entropy(p, p)


def test_gradients_have_the_type_of_the_parameters():
    layer = torch.nn.Linear(4, 4).npu()
    with torch.autocast("npu"):
        layer(torch.randn(2, 4, device="npu")).sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_unsupported_dtype_is_refused():
    with pytest.raises(RuntimeError, match="torch.float64 is not possible"):
        torch.npu.amp.autocast(dtype=torch.float64)
    with pytest.warns(UserWarning, match="only supports dtypes of torch.float16, torch.bfloat16"):
        torch.autocast("npu", dtype=torch.float64)


def test_state_setters():
    before = torch.npu.get_autocast_dtype()
    torch.npu.set_autocast_dtype(torch.bfloat16)
    torch.npu.set_autocast_enabled(True)
    try:
        assert torch.is_autocast_enabled("npu")
        assert torch.get_autocast_dtype("npu") == torch.bfloat16
    finally:
        torch.npu.set_autocast_enabled(False)
        torch.npu.set_autocast_dtype(before)


def test_supported_dtypes_follow_the_card(check, run):
    code = "print(torch.npu.get_amp_supported_dtype())"
    assert check(code, SOFTNPU_SOC="Ascend910B1") == "[torch.float16, torch.bfloat16]"
    assert check(code, SOFTNPU_SOC="Ascend910A") == "[torch.float16]"
    refused = run("import torch, torch_npu; torch.npu.amp.autocast(dtype=torch.bfloat16)", SOFTNPU_SOC="Ascend910A")
    assert "autocast to torch.bfloat16 is not possible on Ascend910A; use torch.float16" in refused.stderr


def test_custom_function_decorators():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.npu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            ctx.dtype = x.dtype
            return x * 2

        @staticmethod
        @torch.npu.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(3, device="npu", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    with torch.autocast("npu"):
        assert Double.apply(x.half()).dtype == torch.float32


class Run:
    """One parameter under a scaler; step(inf=True) makes its gradient overflow."""

    def __init__(self, scaler, device="npu"):
        self.scaler = scaler
        self.parameter = torch.nn.Parameter(torch.ones(2, device=device))
        self.optimizer = torch.optim.SGD([self.parameter], lr=0.5)

    def step(self, inf=False):
        self.optimizer.zero_grad()
        self.scaler.scale(self.parameter.sum()).backward()
        if inf:
            self.parameter.grad[0] = INF
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale(), self.parameter.tolist()


def test_scale_moves_as_torchs_does_on_the_cpu():
    arguments = {"init_scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2}
    npu = Run(torch.npu.amp.GradScaler(**arguments))
    generic = Run(torch.amp.GradScaler("npu", **arguments))
    cpu = Run(torch.amp.GradScaler("cpu", **arguments), "cpu")
    for inf in (False, True, False, False, False, True, True, False, False):
        expected = cpu.step(inf)
        assert npu.step(inf) == expected
        assert generic.step(inf) == expected


def test_static_scale_stays_and_still_skips():
    run = Run(torch.npu.amp.GradScaler(init_scale=8.0, growth_interval=1, dynamic=False))
    assert run.step() == (8.0, [0.5, 0.5])
    assert run.step(inf=True) == (8.0, [0.5, 0.5])
    run.scaler.update(4.0)
    assert run.step() == (4.0, [0.0, 0.0])


def test_unscale_before_clipping():
    run = Run(torch.npu.amp.GradScaler(init_scale=1024.0))
    run.scaler.scale(run.parameter.sum()).backward()
    run.scaler.unscale_(run.optimizer)
    assert run.parameter.grad.tolist() == [1, 1]


def test_scaler_state_moves_between_devices():
    scaler = torch.npu.amp.GradScaler(init_scale=4.0, dynamic=False)
    generic = torch.amp.GradScaler("cpu")
    generic.load_state_dict(scaler.state_dict())
    assert generic.get_scale() == 4.0
    fresh = torch.npu.amp.GradScaler()
    fresh.load_state_dict(scaler.state_dict())
    assert Run(fresh).step()[0] == 4.0
    fresh.load_state_dict(torch.amp.GradScaler("cpu", init_scale=2.0).state_dict())
    assert fresh.get_scale() == 2.0


@pytest.mark.parametrize("dynamic", [False, True])
def test_scaler_loads_whether_its_scale_moves(dynamic):
    saved = torch.npu.amp.GradScaler(init_scale=4.0, growth_interval=1, dynamic=dynamic).state_dict()
    assert saved["dynamic"] is dynamic
    run = Run(torch.npu.amp.GradScaler(dynamic=not dynamic))
    run.scaler.load_state_dict(saved)
    assert run.step()[0] == (8.0 if dynamic else 4.0)
    run.scaler.load_state_dict({key: value for key, value in saved.items() if key != "dynamic"})  # torch's own: stays as it is
    assert run.step()[0] == (8.0 if dynamic else 4.0)


def test_misuse_of_the_scaler_is_explained():
    scaler = torch.npu.amp.GradScaler()
    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = torch.optim.SGD([parameter], lr=1)
    with pytest.raises(AssertionError, match="did not use scaler.scale"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        scaler.load_state_dict({})


def test_disabled_scaler_does_nothing():
    run = Run(torch.npu.amp.GradScaler(enabled=False))
    assert run.step() == (1.0, [0.5, 0.5])
    assert run.scaler.state_dict() == {}
