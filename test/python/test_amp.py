"""torch.npu.amp and the state of autocast. Which operators run in which precision is tested with the operators."""

import torch


def test_autocast_is_torchs_with_the_device_filled_in():
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled()
        assert torch.npu.get_autocast_dtype() == torch.bfloat16
        assert torch.is_autocast_enabled("npu")
        with torch.autocast("npu", enabled=False):
            assert not torch.npu.is_autocast_enabled()
    assert not torch.npu.is_autocast_enabled()
    assert not torch.is_autocast_enabled("cpu")


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


def test_supported_dtypes_follow_the_card(check):
    code = "print(torch.npu.get_amp_supported_dtype())"
    assert check(code, SOFTNPU_SOC="Ascend910B1") == "[torch.float16, torch.bfloat16]"
    assert check(code, SOFTNPU_SOC="Ascend910A") == "[torch.float16]"


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


def test_grad_scaler_arguments():
    scaler = torch.npu.amp.GradScaler(init_scale=8.0, dynamic=False)
    assert scaler.get_scale() == 8.0
    assert not torch.npu.amp.GradScaler(enabled=False).is_enabled()
    assert scaler.scale(torch.ones(1, device="npu")).item() == 8.0
