"""Which precision each operator runs in at O0 to O3, seen at the dispatcher, and what becomes of the parameters."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from apex import amp

# name of the ATen operator without namespace and overload: what it is
KINDS = {"convolution": "conv", "convolution_overrideable": "conv", "addmm": "matmul", "mm": "matmul", "bmm": "matmul",
         "_softmax": "softmax", "native_batch_norm": "batch_norm", "cudnn_batch_norm": "batch_norm",
         "_native_batch_norm_legit": "batch_norm", "relu": "relu"}


class Recorder(TorchDispatchMode):
    """The dtypes of the first argument of each kind of operator."""

    def __init__(self):
        super().__init__()
        self.dtypes = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kind = KINDS.get(func.overloadpacket.__name__)
        if kind:
            self.dtypes.setdefault(kind, set()).add(args[0].dtype)
        return func(*args, **(kwargs or {}))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.bn = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4 * 4, 3)

    def forward(self, x):
        return torch.softmax(self.fc(torch.relu(self.bn(self.conv(x))).flatten(1)), 1)


def run(opt_level, **options):
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level=opt_level, verbosity=0, **options)
    with Recorder() as recorder:
        output = model(torch.randn(3, 2, 4 + 2, 3, device="npu"))
    with amp.scale_loss(output.square().sum(), optimizer) as loss:
        loss.backward()
    optimizer.step()
    return model, optimizer, output, recorder.dtypes


HALF, FULL = {torch.float16}, {torch.float32}


def test_o0_is_float32_throughout():
    model, _, output, dtypes = run("O0")
    assert all(seen == FULL for seen in dtypes.values()), dtypes
    assert {p.dtype for p in model.parameters()} == FULL


def test_o1_casts_by_list():
    model, _, _, dtypes = run("O1")
    assert dtypes["conv"] == dtypes["matmul"] == HALF
    assert dtypes["softmax"] == dtypes["batch_norm"] == FULL
    assert {p.dtype for p in model.parameters()} == FULL
    assert {p.grad.dtype for p in model.parameters()} == FULL


def test_o2_keeps_batch_norm_and_master_weights_in_float32():
    model, optimizer, output, dtypes = run("O2")
    assert dtypes.pop("batch_norm") == FULL
    assert all(seen == HALF for seen in dtypes.values()), dtypes
    assert output.dtype == torch.float32
    assert model.bn.weight.dtype == torch.float32
    assert model.conv.weight.dtype == model.fc.bias.dtype == torch.float16
    masters = list(amp.master_params(optimizer))
    assert {p.dtype for p in masters} == FULL
    for master, parameter in zip(masters, model.parameters()):
        assert torch.equal(master.to(parameter.dtype), parameter)


def test_o2_saves_float32():
    model, *_ = run("O2")
    assert {v.dtype for v in model.state_dict().values() if v.is_floating_point()} == FULL
    Net().load_state_dict(model.state_dict())


def test_o3_is_float16_throughout():
    model, _, _, dtypes = run("O3")
    assert all(seen == HALF for seen in dtypes.values()), dtypes
    assert {p.dtype for p in model.parameters()} == HALF


def test_o1_ends_when_another_level_begins():
    run("O1")
    _, _, _, dtypes = run("O0")
    assert dtypes["conv"] == FULL


def test_casts_can_be_switched_off_and_added():
    run("O1")
    x = torch.randn(2, 2, device="npu")
    assert (x @ x).dtype == torch.float16
    with amp.disable_casts():
        assert (x @ x).dtype == torch.float32
    assert amp.half_function(lambda a: a)(x).dtype == torch.float16
    assert amp.float_function(lambda a: a)(x.half()).dtype == torch.float32
    assert amp.promote_function(lambda a, b: b)(x, x.half()).dtype == torch.float32


class Library:
    @staticmethod
    def double(x):
        return x * 2


def test_functions_are_registered_by_name(monkeypatch):
    from apex.amp import casting

    monkeypatch.setattr(casting, "_registered", [])
    amp.register_half_function(Library, "double")
    amp.register_float_function(torch, "mm")
    x = torch.randn(2, 2, device="npu")
    run("O1")
    assert Library.double(x).dtype == torch.float16
    assert torch.mm(x, x).dtype == torch.float16      # torch's list says so
    run("O1", user_cast_preferred=True)
    assert torch.mm(x, x).dtype == torch.float32      # the user says otherwise
    run("O0")
    assert Library.double(x).dtype == torch.float32
    with pytest.raises(ValueError, match="No function named nothing"):
        amp.register_half_function(Library, "nothing")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"opt_level": "o1"}, "none of O0, O1, O2, O3"),
        ({"opt_level": "O1", "keep_batchnorm_fp32": True}, "keep_batchnorm_fp32 belongs to O2"),
        ({"opt_level": "O1", "master_weights": True}, "master_weights belongs to O2"),
        ({"opt_level": "O1", "cast_model_type": torch.float16}, "cast_model_type belongs to O2"),
        ({"opt_level": "O2", "patch_torch_functions": True}, "belongs to O1"),
        ({"opt_level": "O2", "user_cast_preferred": True}, "belongs to O1"),
        ({"opt_level": "O3", "check_combined_tensors": True}, "belongs to O1 and O2"),
        ({"opt_level": "O2", "combine_ddp": True}, "needs combine_grad"),
        ({"opt_level": "O2", "loss_scale": -1}, "positive"),
        ({"opt_level": "O2", "keep_batchnorm_fp32": "yes"}, "must be True or False"),
        ({"opt_level": "O2", "scale_window": 0}, "scale_window"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        amp.initialize(Net().npu(), **options)


def test_misuse_is_explained():
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    with pytest.raises(RuntimeError, match="Found param conv.weight with type torch.float16"):
        amp.initialize(model, opt_level="O2")
    with pytest.raises(RuntimeError, match="only be passed through amp.initialize once"):
        amp.initialize(Net().npu(), optimizer, opt_level="O0")
    with pytest.raises(TypeError, match="torch.nn.Modules, not int"):
        amp.initialize(3)


def test_disabled_amp_changes_nothing():
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", enabled=False)
    loss = model(torch.randn(1, 2, 6, 3, device="npu")).sum()
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
    assert model.conv.weight.dtype == torch.float32
