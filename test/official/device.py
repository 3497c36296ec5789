"""Devices, names, properties, printing."""

from functools import partial

import torch
from rows import each

import torch_npu  # noqa: F401


def check_cards_are_there():
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 8
    assert torch.npu.get_device_name(0).startswith("Ascend910")


def check_current_device_follows_set_device():
    torch.npu.set_device(1)
    try:
        assert torch.npu.current_device() == 1
        assert torch.empty(1, device="npu").device == torch.device("npu:1")
    finally:
        torch.npu.set_device(0)


def check_properties():
    properties = torch.npu.get_device_properties(0)
    assert properties.total_memory > 0
    assert properties.name.startswith("Ascend910")


def check_mm_of_the_readme():
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    z = x.npu().mm(y.npu())
    assert z.device == torch.device("npu:0")
    torch.testing.assert_close(z.cpu(), x.mm(y))


def check_printing():
    x = torch.tensor([[1.5, -2.0], [3.25, float("inf")]])
    assert repr(x.npu()) == repr(x)[:-1] + ", device='npu:0')"
    assert repr(torch.arange(3).npu()) == "tensor([0, 1, 2], device='npu:0')"


def check_deterministic_mode():
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.randn(4, 4)
        torch.testing.assert_close(x.npu().mm(x.npu()).cpu(), x.mm(x))
    finally:
        torch.use_deterministic_algorithms(False)


@each(["npu", "npu:0", "npu:3", torch.device("npu", 2)])
def check_devices_by_name(device):
    x = torch.ones(2, device=device)
    index = torch.device(device).index
    assert x.device == torch.device("npu", index or 0) and x.get_device() == (index or 0) and x.is_npu and not x.is_cpu


# What creates a tensor on the second card, each in its own way.
WAYS = {
    "npu(1)": lambda x: x.npu(1),
    "npu(device)": lambda x: x.npu(torch.device("npu:1")),
    "to(1)": lambda x: x.to(1),
    "to(device)": lambda x: x.to("npu:1"),
    "to(other)": lambda x: x.to(torch.empty(0, device="npu:1")),
    "new_tensor": lambda x: torch.empty(0, device="npu:1").new_tensor(x.tolist()),
    "tensor": lambda x: torch.tensor(x.tolist(), device=1),
    "set_default_device": lambda x: with_default("npu:1", x),
    "device as a context": lambda x: in_context(torch.device("npu:1"), x),
    "npu.device": lambda x: in_context(torch.npu.device(1), x),
    "npu.device_of": lambda x: in_context(torch.npu.device_of(torch.empty(0, device="npu:1")), x, device="npu"),
}


def with_default(device, x):
    torch.set_default_device(device)
    try:
        return torch.tensor(x.tolist())
    finally:
        torch.set_default_device(None)


def in_context(context, x, **device):
    with context:
        return torch.tensor(x.tolist(), **({} if isinstance(context, torch.device) else {"device": "npu"}))


@each(WAYS)
def check_ways_to_the_second_card(way):
    x = torch.arange(3.0)
    y = way(x)
    assert y.device == torch.device("npu:1") and torch.equal(y.cpu(), x)
    assert torch.npu.current_device() == 0


@each(["cpu", "npu:0"])
def check_a_module_moves(device):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).npu()
    module = module.to(device)
    assert {t.device for t in (*module.parameters(), *module.buffers())} == {torch.device(device)}


def raised(function, *words):
    try:
        function()
    except (RuntimeError, ValueError, AssertionError, TypeError, IndexError) as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError("no error")


# A mistake, and words of the client's answer.
MISTAKES = {
    "a card that is not there": (lambda: torch.empty(1, device="npu:99"), "99"),
    "set_device to one": (lambda: torch.npu.set_device(99), "99"),
    "card and CPU": (lambda: torch.ones(2, device="npu:0") + torch.ones(2), "same device"),
    "numpy of a card's": (lambda: torch.ones(2).npu().numpy(), "Tensor.cpu()"),
    "shapes": (lambda: torch.ones(2).npu() + torch.ones(3).npu(), "must match"),
    "view that does not fit": (lambda: torch.ones(6).npu().view(4, 2), "invalid for input of size"),
    "item of many": (lambda: torch.ones(2).npu().item(), "Scalar"),
    "gradient of an integer": (lambda: torch.ones(2, dtype=torch.int64).npu().requires_grad_(), "floating point"),
    "index out of a dimension": (lambda: torch.ones(2).npu()[5], "out of bounds"),
    "a dimension that is not there": (lambda: torch.ones(2).npu().sum(3), "Dimension out of range"),
    "in place on a leaf": (lambda: torch.ones(2).npu().requires_grad_().add_(1), "leaf"),
    "backward twice": (lambda: [torch.autograd.backward(each) for each in [torch.ones(2).npu().requires_grad_().exp().sum()] * 2],
                       "second time"),
    "gradient of a changed tensor": (lambda: changed_in_place(), "modified by an inplace operation"),
}


def changed_in_place():
    x = torch.ones(2).npu().requires_grad_()
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@each(MISTAKES)
def check_mistakes_are_told(mistake):
    raised(*mistake)
    assert (torch.ones(2).npu() + 1).tolist() == [2, 2]  # and the card goes on


def check_an_error_ends_with_the_line_of_its_code():
    try:
        torch.npu.set_device("cpu:0")
    except (RuntimeError, ValueError, AssertionError) as error:
        assert "[ERROR]" in str(error) and "ERR00" in str(error) and "PID:" in str(error), error
    else:
        raise AssertionError("set_device took a CPU")


@each(range(4))
def check_memory_of_every_card(card):
    torch.npu.set_device(card)
    try:
        free, total = torch.npu.mem_get_info(card)
        assert 0 < free <= total == torch.npu.get_device_properties(card).total_memory
    finally:
        torch.npu.set_device(0)


# torch.accelerator's functions, and what they must agree with.
ACCELERATOR = {
    "current_accelerator": lambda: torch.accelerator.current_accelerator() == torch.device("npu"),
    "is_available": torch.accelerator.is_available,
    "device_count": lambda: torch.accelerator.device_count() == torch.npu.device_count(),
    "current_device_index": lambda: torch.accelerator.current_device_index() == torch.npu.current_device(),
    "current_stream": lambda: torch.accelerator.current_stream().stream_id == torch.npu.current_stream().stream_id,
    "synchronize": lambda: torch.accelerator.synchronize() is None,
    "memory_allocated": lambda: torch.accelerator.memory_allocated() == torch.npu.memory_allocated(),
    "memory_reserved": lambda: torch.accelerator.memory_reserved() == torch.npu.memory_reserved(),
    "max_memory_allocated": lambda: torch.accelerator.max_memory_allocated() == torch.npu.max_memory_allocated(),
}


@each(ACCELERATOR)
def check_torch_accelerator(agrees):
    torch.ones(3).npu()
    assert agrees()


def check_peers():
    assert torch.npu.can_device_access_peer(0, 1)


def check_utilization_is_a_percentage():
    assert 0 <= torch.npu.utilization(0) <= 100


def check_cards_are_limited_in_cores():
    whole = torch.npu.get_device_limit(1)
    torch.npu.set_device_limit(1, 4, 8)
    assert torch.npu.get_device_limit(1) == {"cube_core_num": 4, "vector_core_num": 8} != whole
    raised(lambda: torch.npu.set_device_limit(1, 2, 4), "already been called")  # a process may do so once


def check_streams_are_limited_in_cores():
    stream = torch.npu.Stream()
    whole = torch.npu.get_stream_limit(stream)
    torch.npu.set_stream_limit(stream, 3, 6)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 3, "vector_core_num": 6}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == whole


TYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")}


def as_legacy(name):
    legacy = {"float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "int8": "Char", "int16": "Short", "int32": "Int",
              "int64": "Long", "uint8": "Byte", "bool": "Bool"}
    return legacy[name]


@each(TYPES)
def check_legacy_type_of(dtype):
    name = as_legacy(str(dtype).removeprefix("torch."))
    x = torch.ones(2, dtype=dtype).npu()
    assert x.type() == f"torch.npu.{name}Tensor" and isinstance(x, getattr(torch.npu, f"{name}Tensor"))
    assert not isinstance(x.cpu(), getattr(torch.npu, f"{name}Tensor"))


# Switches that keep what they are given.
SWITCHES = {
    "matmul.allow_hf32": (*(partial(f, torch.npu.matmul, "allow_hf32") for f in (getattr, setattr)), (True, False)),
    "conv.allow_hf32": (*(partial(f, torch.npu.conv, "allow_hf32") for f in (getattr, setattr)), (False, True)),
    "mm_bmm_format_nd": (torch.npu.get_mm_bmm_format_nd, torch.npu.set_mm_bmm_format_nd, (False, True)),
    "compile mode": (torch.npu.is_jit_compile_false, lambda off: torch.npu.set_compile_mode(jit_compile=not off), (True,)),
    "compatible impl": (torch.npu.are_compatible_impl_enabled, torch.npu.use_compatible_impl, (True, False)),
    "sync debug mode": (torch.npu.get_sync_debug_mode, torch.npu.set_sync_debug_mode, (1, 2, 0)),
    "memory fraction": (torch.npu.get_per_process_memory_fraction, torch.npu.set_per_process_memory_fraction, (0.5, 1.0)),
    "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, (True, False)),
}


@each(SWITCHES)
def check_switches_keep_what_they_are_given(row):
    get, put, values = row
    for value in values:
        put(value)
        assert get() == value


def check_synchronising_is_an_error_in_debug_mode():
    x = torch.ones(3).npu()
    torch.npu.set_sync_debug_mode("error")
    try:
        raised(lambda: x.sum().item(), "synchroniz")
    finally:
        torch.npu.set_sync_debug_mode("default")
    assert x.sum().item() == 3
