"""What follows from a case of an operator: the same call with fewer rows, and calls that are wrong in one place."""

import re

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

HUGE = 1 << 40
# What only a task can find out: a number in a tensor leads outside, or says other sizes than there are. With TASK_QUEUE_ENABLE=2
# refusals come as late.
OF_NUMBERS = re.compile(r"has the number|out of bounds|out of range|adds? up to|negative|there are \d+|names? a token|are not as many|"
                        r"actual_seq|fewer than the \d+ rows|dimension size|refused its arguments")


def with_rows(case, count):
    """(args, kwargs) with the first axis of the first tensor cut to `count`, and of every other one the first axis of its length."""
    first = next((t for t in tree_leaves((case.args, case.kwargs)) if isinstance(t, torch.Tensor) and t.dim()), None)
    length = len(first) if first is not None else 0

    def cut(t):
        return t.narrow(list(t.shape).index(length), 0, count).clone() if length in t.shape else t

    return tree_map_only(torch.Tensor, cut, (case.args, case.kwargs)) if length > count else None


class OnHost(torch.Tensor):
    """A tensor that is not moved to the card."""


def placed(tree, device):
    def place(t):
        return t.as_subclass(torch.Tensor).clone() if isinstance(t, OnHost) else t.detach().to(device, copy=True)

    return tree_map_only(torch.Tensor, place, tree)


def other_tensors(t):
    """(what is wrong, tensor)"""
    yield "absent", None
    yield "of the CPU", t.as_subclass(OnHost)
    yield "without elements", t.new_empty(0)
    yield "another axis", t[None]
    if t.dim() and len(t):
        yield "without its first axis", t[0]
    for axis, length in enumerate(t.shape):
        if length:
            yield f"axis {axis} longer", t.index_select(axis, torch.tensor([*range(length), length - 1]))
        if length > 1:
            yield f"axis {axis} shorter", t.narrow(axis, 0, length - 1).clone()
    for dtype in (torch.int64, torch.float32, torch.bool):
        if dtype != t.dtype:
            yield str(dtype).removeprefix("torch."), t.to(dtype)
    if t.dtype in (torch.int32, torch.int64) and t.numel():
        yield from ((f"numbers {n}", torch.full_like(t, n)) for n in (1000003, -7))


def others(value):
    """(what is wrong, value) in the place of an argument; nothing for numbers with a fraction, flags and types."""
    if isinstance(value, torch.Tensor):
        bits = value.dtype.itemsize == 1 and value.dtype.is_floating_point  # upstream has few operators for these
        for label, other in other_tensors(value.view(torch.uint8) if bits else value):
            yield label, other.view(value.dtype) if bits and other is not None and other.dtype == torch.uint8 else other
    elif isinstance(value, str):
        yield "a word", "nonsense"
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from ((str(n), n) for n in (-1000, -2, 0, 7, HUGE) if n != value)
    elif isinstance(value, (list, tuple)) and value:
        yield "without its last", list(value[:-1])
        yield "one more", [*value, value[-1]]
        yield "nothing", []
        for i in sorted({0, len(value) - 1}):
            yield from ((f"{i} {label}", [*value[:i], other, *value[i + 1 :]]) for label, other in others(value[i]))


def wrong_calls(case, names):
    """(argument, what is wrong, args, kwargs); `names` are those of the positional arguments."""
    for place, value in enumerate(case.args):
        for label, other in others(value):
            yield names[place], label, (*case.args[:place], other, *case.args[place + 1 :]), case.kwargs
    for name, value in case.kwargs.items():
        for label, other in others(value):
            yield name, label, case.args, {**case.kwargs, name: other}
