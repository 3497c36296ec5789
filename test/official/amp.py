"""Mixed precision: which types autocast gives, and how the scalers of the client go up and down."""

import torch
from rows import each
from torch.nn import functional as F

import torch_npu
from torch_npu.npu.amp import GradScaler, autocast

IN_MODES = ("queue 1",)
A, B, SQUARE = torch.randn(4, 5).abs() + 0.1, torch.randn(5, 3), torch.rand(4, 4) * 0.8 + 0.1
IMAGE, VOLUME = torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6)
# Operators of torch's lists for autocast: computed in half precision, in float32, in the widest type given.
LOWER = {
    "mm": lambda d: torch.mm(A.to(d), B.to(d)),
    "matmul": lambda d: torch.matmul(A.to(d), B.to(d)),
    "addmm": lambda d: torch.addmm(torch.ones(3).to(d), A.to(d), B.to(d)),
    "bmm": lambda d: torch.bmm(A[None].to(d), B[None].to(d)),
    "baddbmm": lambda d: torch.baddbmm(torch.ones(1, 4, 3).to(d), A[None].to(d), B[None].to(d)),
    "mv": lambda d: torch.mv(A.to(d), torch.ones(5).to(d)),
    "addmv": lambda d: torch.addmv(torch.ones(4).to(d), A.to(d), torch.ones(5).to(d)),
    "linear": lambda d: F.linear(A.to(d), B.t().to(d)),
    "conv1d": lambda d: F.conv1d(VOLUME.to(d), torch.ones(3, 2, 3).to(d)),
    "conv2d": lambda d: F.conv2d(IMAGE.to(d), torch.ones(3, 2, 3, 3).to(d)),
    "conv_transpose2d": lambda d: F.conv_transpose2d(IMAGE.to(d), torch.ones(2, 3, 3, 3).to(d)),
    "einsum": lambda d: torch.einsum("ij,jk->ik", A.to(d), B.to(d)),
    "chain_matmul": lambda d: torch.linalg.multi_dot([A.to(d), B.to(d), torch.ones(3, 2).to(d)]),
    "prelu": lambda d: F.prelu(A.to(d), torch.ones(1).to(d)),
    "attention": lambda d: F.scaled_dot_product_attention(*(torch.randn(1, 1, 16, 16).to(d) for _ in range(3))),
}
HALF_INPUT = {
    name: getattr(torch, name)
    for name in "acos asin cosh exp expm1 log log10 log1p log2 rsqrt reciprocal sinh tan cumsum cumprod "
    "prod softmax log_softmax norm sum".split()
}
HALF_INPUT |= {
    "pow": lambda x: x.pow(2),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "mse_loss": lambda x: F.mse_loss(x, x * 0),
    "l1_loss": lambda x: F.l1_loss(x, x * 0),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x * 0),
    "nll_loss": lambda x: F.nll_loss(x, torch.zeros(4, dtype=torch.int64, device=x.device)),
    "softplus": F.softplus,
    "cosine": F.cosine_similarity,
    "cdist": torch.cdist,
    "dist": torch.dist,
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "group_norm": lambda x: F.group_norm(x, 2),
    "kl_div": F.kl_div,
    "huber": F.huber_loss,
    "poisson": F.poisson_nll_loss,
}
TWO = {"cosine", "cdist", "dist", "kl_div", "huber", "poisson"}
WITH_DIM = {"cumsum", "cumprod", "softmax", "log_softmax"}
PROMOTED = {
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "atan2": torch.atan2,
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
    "dot": lambda x, y: torch.dot(x[0], y[0]),
}


@each(LOWER)
def check_autocast_computes_in_half_precision(function):
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("npu", dtype=dtype):
            result = function("npu")
        assert result.dtype == dtype, result.dtype
    with torch.autocast("npu", enabled=False):
        assert function("npu").dtype == torch.float32


@each(list(HALF_INPUT))
def check_autocast_computes_in_float32(name):
    x = SQUARE.half().npu()
    arguments = (x, x) if name in TWO else (x, 1) if name in WITH_DIM else (x,)
    with torch.autocast("npu", dtype=torch.float16):
        found = HALF_INPUT[name](*arguments)
    with torch.autocast("cuda", enabled=False):
        wide = [each.float().cpu() if isinstance(each, torch.Tensor) else each for each in arguments]
        expected = HALF_INPUT[name](*wide)
    assert found.dtype == torch.float32, found.dtype
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


@each(PROMOTED)
def check_autocast_computes_in_the_widest_type(function):
    with torch.autocast("npu", dtype=torch.float16):
        assert function(SQUARE.half().npu(), SQUARE.npu()).dtype == torch.float32
        assert function(SQUARE.half().npu(), SQUARE.half().npu()).dtype == torch.float16


@each({"binary_cross_entropy": lambda x: F.binary_cross_entropy(x, x)})
def check_autocast_refuses(function):
    with torch.autocast("npu"):
        try:
            function(SQUARE.half().npu())
        except RuntimeError as error:
            assert "autocast" in str(error)
        else:
            raise AssertionError("unsafe in half precision")


def product():
    return (torch.ones(2, 2, device="npu") @ torch.ones(2, 2, device="npu")).dtype


def check_autocast_is_float16_unless_told():
    with torch.autocast("npu"):
        assert product() == torch.float16 == torch.get_autocast_dtype("npu")


def check_the_clients_autocast_is_torchs():
    with autocast():
        assert torch.is_autocast_enabled("npu") and product() == torch.float16
    assert not torch.is_autocast_enabled("npu")


def check_autocast_nests():
    with torch.autocast("npu", dtype=torch.bfloat16):
        with torch.autocast("npu", enabled=False):
            assert product() == torch.float32
        assert product() == torch.bfloat16


def check_autocast_decorates():
    assert torch.autocast("npu")(product)() == torch.float16 and product() == torch.float32


def check_autocast_of_another_device_changes_nothing():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert product() == torch.float32


def launched(work):
    """How many casts to half precision a piece of work asks for."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Casts(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            self.count += "_to_copy" in str(func) or "dtype_cast" in str(func)
            return result

    with Casts() as casts:
        work()
    return casts.count


def check_autocast_casts_a_weight_once():
    weight, x = torch.ones(4, 4).npu().requires_grad_(), torch.ones(4, 4).npu().half()
    with torch.autocast("npu"):
        assert launched(lambda: [F.linear(x, weight) for _ in range(3)]) == 1
    with torch.autocast("npu", cache_enabled=False):
        assert launched(lambda: [F.linear(x, weight) for _ in range(3)]) == 3


def check_gradients_under_autocast_are_of_the_weights_type():
    weight = torch.ones(4, 4).npu().requires_grad_()
    with torch.autocast("npu"):
        F.linear(torch.ones(2, 4).npu(), weight).sum().backward()
    assert weight.grad.dtype == torch.float32 and (weight.grad.cpu() == 2).all()


class Doubled(torch.autograd.Function):
    @staticmethod
    @torch_npu.npu.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        assert not torch.is_autocast_enabled("npu")
        return x * 2

    @staticmethod
    @torch_npu.npu.amp.custom_bwd
    def backward(ctx, gradient):
        return gradient * 2


def check_functions_of_ones_own_choose_their_type():
    x = torch.ones(3).half().npu().requires_grad_()
    with torch.autocast("npu"):
        y = Doubled.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2] * 3


SCALERS = {"torch.amp": lambda **arguments: torch.amp.GradScaler("npu", **arguments), "torch_npu": GradScaler}


def stepped(make, gradients, **arguments):
    """The scale after every step, and the parameter: one whose gradient is 1, or what stands in `gradients`."""
    parameter = torch.zeros(2).npu().requires_grad_()
    optimiser, scaler = torch.optim.SGD([parameter], lr=1.0), make(**arguments)
    scales = []
    for gradient in gradients:
        optimiser.zero_grad()
        scaler.scale((parameter * gradient).sum()).backward()
        scaler.step(optimiser)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, parameter.detach().cpu()


@each(SCALERS)
def check_a_scaler_begins_at_65536(make):
    assert make().get_scale() == 65536.0


@each(SCALERS)
def check_a_scale_falls_after_an_overflow_and_the_step_is_left_out(make):
    scales, parameter = stepped(make, [1.0, float("inf"), 1.0], init_scale=8.0, backoff_factor=0.25)
    assert scales == [8.0, 2.0, 2.0] and parameter.tolist() == [-2.0, -2.0]


@each(SCALERS)
def check_a_nan_is_an_overflow(make):
    scales, parameter = stepped(make, [float("nan")], init_scale=8.0)
    assert scales == [4.0] and parameter.tolist() == [0, 0]


@each(SCALERS)
def check_a_scale_grows_after_good_steps(make):
    scales, parameter = stepped(make, [1.0] * 5, init_scale=4.0, growth_interval=2, growth_factor=4.0)
    assert scales == [4.0, 16.0, 16.0, 64.0, 64.0] and parameter.tolist() == [-5.0, -5.0]


@each(SCALERS)
def check_an_overflow_begins_the_count_again(make):
    scales, _ = stepped(make, [1.0, float("inf"), 1.0, 1.0], init_scale=4.0, growth_interval=2)
    assert scales == [4.0, 2.0, 2.0, 4.0]


@each(SCALERS)
def check_a_scaler_that_is_off_scales_nothing(make):
    scales, parameter = stepped(make, [1.0, 1.0], enabled=False)
    assert scales == [1.0, 1.0] and parameter.tolist() == [-2.0, -2.0]


@each(SCALERS)
def check_unscaled_gradients_are_the_true_ones(make):
    parameter = torch.zeros(2).npu().requires_grad_()
    optimiser, scaler = torch.optim.SGD([parameter], lr=1.0), make(init_scale=16.0)
    scaler.scale((parameter * 3).sum()).backward()
    assert parameter.grad.tolist() == [48, 48]
    scaler.unscale_(optimiser)
    assert parameter.grad.tolist() == [3, 3]
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    scaler.step(optimiser)
    scaler.update()
    torch.testing.assert_close(parameter.detach().cpu(), torch.full((2,), -(0.5**0.5)), rtol=1e-4, atol=1e-5)


@each(SCALERS)
def check_unscaling_twice_is_refused(make):
    parameter = torch.zeros(2).npu().requires_grad_()
    optimiser, scaler = torch.optim.SGD([parameter], lr=1.0), make()
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimiser)
    try:
        scaler.unscale_(optimiser)
    except RuntimeError as error:
        assert "unscale_" in str(error)
    else:
        raise AssertionError("twice")


@each(SCALERS)
def check_a_scaler_is_saved(make):
    scaler = make(init_scale=32.0, growth_interval=7)
    scaler.scale(torch.ones(1).npu())
    other = make()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 32.0 and other.get_growth_interval() == 7


@each(SCALERS)
def check_a_scale_is_given(make):
    scaler = make(init_scale=32.0)
    scaler.scale(torch.ones(1).npu())
    scaler.update(128.0)
    assert scaler.get_scale() == 128.0


@each(SCALERS)
def check_a_scaler_scales_what_is_nested(make):
    scaler = make(init_scale=2.0)
    found = scaler.scale([torch.ones(1).npu(), (torch.full((1,), 3.0).npu(),)])
    assert found[0].item() == 2 and found[1][0].item() == 6


def check_a_static_scale_stays():
    scales, parameter = stepped(GradScaler, [1.0, 2.0, 1.0], init_scale=8.0, growth_interval=1, dynamic=False)
    assert scales == [8.0] * 3 and parameter.tolist() == [-4.0, -4.0]


def check_types_of_mixed_precision():
    assert set(torch.npu.get_amp_supported_dtype()) >= {torch.float16, torch.bfloat16} and torch.npu.is_bf16_supported()
