"""Copies between host and cards, on a card and between cards."""

import copy
import io
import pickle

import torch
from rows import each

import torch_npu

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.uint8, torch.bool, torch.complex64)


def sample(dtype, *shape):
    return torch.randn(shape).mul(10).to(dtype) if dtype != torch.complex64 else torch.randn(shape, dtype=dtype)


@each(DTYPES)
def check_round_trip(dtype):
    x = sample(dtype, 3, 5)
    assert torch.equal(x.npu().cpu(), x)


def check_strided_views():
    x = torch.randn(6, 8)
    y = x.npu()
    for view in (lambda t: t.t(), lambda t: t[::2, 1:7:3], lambda t: t[1], lambda t: t[:, :1].expand(6, 4), lambda t: t[3:3]):
        assert torch.equal(view(y).cpu(), view(x))
        assert torch.equal(view(y).contiguous().cpu(), view(x).contiguous())
    y[::2, 1:7:3] = torch.ones(3, 2)
    x[::2, 1:7:3] = 1
    assert torch.equal(y.cpu(), x)


@each(DTYPES)
def check_casts_on_the_card_from(dtype):
    x = (torch.arange(-8, 8) if dtype.is_signed else torch.arange(16)).view(4, 4).to(dtype)
    for target in DTYPES:
        if dtype.is_complex and not target.is_complex:
            continue  # discards a part, which the CPU warns of
        assert torch.equal(x.npu().to(target).cpu(), x.to(target)), target


@each(DTYPES)
def check_casts_of_views_from(dtype):
    x = (torch.arange(-8, 8) if dtype.is_signed else torch.arange(16)).view(4, 4).to(dtype).t()[::2]
    target = torch.complex64 if dtype.is_complex else torch.float16
    assert torch.equal(x.npu().to(target).cpu(), x.to(target))


@each(DTYPES)
def check_copies_between_types_and_devices(dtype):
    x = (torch.arange(-8, 8) if dtype.is_signed else torch.arange(16)).view(4, 4).to(dtype)
    target = torch.complex64 if dtype.is_complex else torch.float32
    up, down = torch.empty(4, 4, dtype=target, device="npu"), torch.empty(4, 4, dtype=target)
    assert torch.equal(up.copy_(x).cpu(), x.to(target))
    assert torch.equal(down.copy_(x.npu()), x.to(target))


# Broadcasting and overlapping copies.
COPIES = {
    "a number": (lambda x: x.copy_(torch.tensor(3.0))),
    "a row": (lambda x: x.copy_(torch.arange(4.0))),
    "a column": (lambda x: x.copy_(torch.arange(4.0).unsqueeze(1))),
    "a transpose of itself": (lambda x: x.copy_(x.t().clone())),
    "into a row": (lambda x: x[1].copy_(torch.arange(4.0))),
    "into a column": (lambda x: x[:, 2].copy_(torch.arange(4.0))),
    "from a column to a row": (lambda x: x[0].copy_(x[:, 3].clone())),
    "of nothing": (lambda x: x[:0].copy_(torch.empty(0, 4))),
    "another type": (lambda x: x.copy_(torch.arange(16).view(4, 4))),
    "by a mask": (lambda x: x.masked_fill_(x > 4, 9.0)),
    "by an index": (lambda x: x.__setitem__((torch.tensor([0, 2]).to(x.device), slice(None)), 7.0)),
    "by a mask, assigned": (lambda x: x.__setitem__(x > 4, 9.0)),
}


@each(COPIES)
def check_copies_of(function):
    x = torch.arange(16.0).view(4, 4)
    y = x.npu()
    function(x)
    function(y)
    assert torch.equal(y.cpu(), x)


def check_pinned_memory_without_blocking():
    x = torch.randn(1 << 18).pin_memory()
    assert x.is_pinned()
    y = x.to("npu", non_blocking=True)
    back = torch.empty_like(x, pin_memory=True)
    back.copy_(y * 2, non_blocking=True)
    torch.npu.synchronize()
    torch.testing.assert_close(back, x * 2)


def check_between_cards():
    x = torch.randn(100, 3)
    y = x.to("npu:0").to("npu:1")
    assert y.device == torch.device("npu:1")
    assert torch.equal(y.cpu(), x)


def check_large_copy():
    x = torch.arange(1 << 22, dtype=torch.float32)
    assert torch.equal(x.npu().cpu(), x)


def check_item():
    assert torch.tensor(2.5).npu().item() == 2.5
    assert torch.tensor([7]).npu().item() == 7
    assert bool(torch.tensor(True).npu())


NUMBERS = {"float": 2.5, "integer": 7, "negative": -3, "true": True, "infinity": float("inf"), "complex": 1 + 2j,
           "large": 2**53 + 1}


@each(NUMBERS)
def check_numbers_come_back(number):
    assert torch.tensor(number).npu().item() == torch.tensor(number).item()


def conversions(x):
    return {"tolist": x.tolist(), "int": int(x[1]), "float": float(x[1]), "bool": bool(x[1]),
            "index": [10, 20, 30][x[1].long()],
            "len": len(x), "iteration": [each.item() for each in x], "contains": 2.0 in x, "format": f"{x[1]:.1f}",
            "complex": complex(x[1]), "round": round(float(x[1])), "hash of the shape": hash(x.shape)}


@each(list(conversions(torch.arange(3.0))))
def check_conversions_to_python(name):
    x = torch.arange(3.0)
    assert conversions(x.npu())[name] == conversions(x)[name]


def check_save_and_load():
    x = torch.randn(3, 4)
    file = io.BytesIO()
    torch.save({"x": x.npu()}, file)
    for location in ("cpu", "npu:1"):
        file.seek(0)
        y = torch.load(file, map_location=location)["x"]
        assert y.device == torch.device(location)
        assert torch.equal(y.cpu(), x)


def saved(value, **arguments):
    file = io.BytesIO()
    torch.save(value, file, **arguments)
    file.seek(0)
    return file


@each(DTYPES)
def check_saved_tensors_come_back(dtype):
    x = sample(dtype, 3, 4)
    y = torch.load(saved(x.npu()), weights_only=True)
    assert y.device == torch.device("npu:0") and torch.equal(y.cpu(), x)


LOCATIONS = {
    "text": "npu:1",
    "device": torch.device("npu:1"),
    "dictionary": {"npu:0": "npu:1"},
    "function": lambda storage, location: storage.npu(1) if location.startswith("npu") else storage,
}


@each(LOCATIONS)
def check_map_location(location):
    y = torch.load(saved(torch.arange(3.0).npu()), map_location=location, weights_only=False)
    assert y.device == torch.device("npu:1") and y.tolist() == [0, 1, 2]


OBJECTS = {
    "nested": lambda: {"a": [torch.ones(2).npu(), (torch.zeros(1).npu(), 3)], "b": "text"},
    "parameter": lambda: torch.nn.Parameter(torch.ones(2).npu()),
    "state of a module": lambda: torch.nn.Linear(2, 3).npu().state_dict(),
    "view": lambda: torch.arange(12.0).npu().view(3, 4)[1:, ::2],
    "size": lambda: torch.ones(2, 3).npu().shape,
    "quantities of no elements": lambda: torch.empty(0, 3).npu(),
}


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.device == b.device and torch.equal(a.cpu(), b.cpu()) and a.requires_grad == b.requires_grad
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return all(map(equal, a, b)) if isinstance(a, (list, tuple)) else a == b


@each(OBJECTS)
def check_saved_objects_come_back(make):
    value = make()
    assert equal(torch.load(saved(value), weights_only=True), value)


@each(OBJECTS)
def check_old_format_comes_back(make):
    value = make()
    assert equal(torch.load(saved(value, _use_new_zipfile_serialization=False), weights_only=False), value)


@each(OBJECTS)
def check_pickled_objects_come_back(make):
    value = make()
    assert equal(pickle.loads(pickle.dumps(value)), value)


@each(OBJECTS)
def check_deep_copies(make):
    value = make()
    twin = copy.deepcopy(value)
    assert equal(twin, value)
    if isinstance(value, torch.Tensor) and value.numel():
        assert twin.data_ptr() != value.data_ptr()


def check_what_shares_memory_shares_it_after_loading():
    x = torch.arange(4.0).npu()
    a, b = torch.load(saved([x, x[1:]]), weights_only=True)
    a[1] = 9
    assert b[0].item() == 9


def check_a_module_comes_back_whole():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).npu()
    loaded = torch.load(saved(module), weights_only=False)
    x = torch.randn(4, 3).npu()
    assert torch.equal(loaded(x), module(x))


def check_an_optimiser_goes_on_where_it_was():
    def steps(count, parameter, optimiser):
        for _ in range(count):
            parameter.grad = parameter.detach() * 2
            optimiser.step()

    whole, part = (torch.ones(3).npu().requires_grad_() for _ in range(2))
    one, two = torch.optim.Adam([whole], lr=0.1), torch.optim.Adam([part], lr=0.1)
    steps(4, whole, one)
    steps(2, part, two)
    state = torch.load(saved([part.detach(), two.state_dict()]), weights_only=True)
    again = state[0].clone().requires_grad_()
    three = torch.optim.Adam([again], lr=0.5)
    three.load_state_dict(state[1])
    steps(2, again, three)
    assert torch.equal(again, whole)


def check_what_is_not_allowed_is_not_loaded():
    try:
        torch.load(saved({"x": torch.ones(1).npu(), "f": check_item}), weights_only=True)
    except pickle.UnpicklingError as error:
        assert "check_item was not an allowed global" in str(error), error
    else:
        raise AssertionError("a function was loaded")


def check_saving_in_the_background():
    import tempfile
    import time
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.pt"
        x = torch.arange(1000.0).npu()
        torch_npu.utils.save_async({"x": x}, str(file))
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                loaded = torch.load(file, map_location="cpu")["x"]
                break
            except (OSError, RuntimeError, EOFError):
                time.sleep(0.1)
        assert torch.equal(loaded, x.cpu())


STORAGES = {
    "resized": lambda s: (s.resize_(64), s.nbytes())[1],
    "filled": lambda s: bytes(s.fill_(7).cpu().tolist()),
    "cloned": lambda s: s.clone().cpu().tolist(),
    "sliced": lambda s: s[2:4].tolist() if s.device.type == "cpu" else s.cpu()[2:4].tolist(),
    "to the CPU": lambda s: s.cpu().tolist(),
    "size": lambda s: (s.nbytes(), len(s)),
}


@each(STORAGES)
def check_storages(function):
    x = torch.arange(4, dtype=torch.int16)
    assert function(x.npu().untyped_storage()) == function(x.clone().untyped_storage())
