"""Runs one operator of the tables on the card and on the CPU: each type, rows with gaps, and gradients. Called in the worker process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.utils._pytree import tree_leaves

from torch_npu.verify.outcome import Outcome
from torch_npu.verify.samples import Operator
from torch_npu.verify.values import Difference, describe, measure, worst


def variants(operator: Operator, quick: bool) -> Iterator[tuple[torch.dtype, str]]:
    """(type, form): forward in each type; strided inputs and gradients in the first floating one, gradients in bfloat16 too."""
    types = [t for t in operator.types if not quick or t in (torch.float32, torch.float16) or t == operator.types[0]]
    for dtype in types:
        yield dtype, "forward"
    first = types[0]
    yield first, "strided"
    if operator.gradient and first.is_floating_point:
        yield first, "gradient"
        if torch.bfloat16 in types:
            yield torch.bfloat16, "gradient"


def with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, every other one of a larger tensor whose dimensions are in another order."""
    if tensor.dim() == 0:
        return tensor
    larger = torch.zeros([2 * n for n in reversed(tensor.shape)], dtype=tensor.dtype)
    view = larger.permute(list(reversed(range(tensor.dim()))))[tuple(slice(0, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor)


def place(tensor: torch.Tensor, device: str, strided: bool, gradient: bool) -> torch.Tensor:
    if strided:
        tensor = with_gaps(tensor)
        memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to(device)
        tensor = memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    else:
        tensor = tensor.to(device, copy=True)
    return tensor.requires_grad_(gradient and tensor.is_floating_point())


def results(function: Callable, inputs: list[torch.Tensor], gradient: bool) -> list[torch.Tensor]:
    """What the operator gives, or the gradients of its inputs."""
    found = [t for t in tree_leaves(function(*inputs)) if isinstance(t, torch.Tensor)]
    if not gradient:
        return [t.detach().cpu() for t in found]
    outputs = [t for t in found if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    generator = torch.Generator().manual_seed(7)
    seeds = [torch.rand(t.shape, generator=generator).add(0.5).to(t.dtype).to(t.device) for t in outputs]
    grads = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    return [torch.zeros(0) if g is None else g.cpu() for g in grads]


def compare(actual: list[torch.Tensor], references: list[list[torch.Tensor]], dtype: torch.dtype, loose: float) -> Difference:
    """With the nearest of the references: the CPU's own half precision rounds more often than a card does."""
    found = []
    for expected in references:
        if len(actual) != len(expected):
            return Difference("wrong", text=f"{len(actual)} results where the CPU has {len(expected)}")
        found.append(worst([measure(a, e, dtype, loose) for a, e in zip(actual, expected)]))
    return min(found, key=lambda d: (("close", "near", "wrong").index(d.verdict), d.max_rel))


def expected(operator: Operator, inputs: list[torch.Tensor], gradient: bool, dtype: torch.dtype) -> list[list[torch.Tensor]]:
    """The CPU's results; for half types also those of float32, rounded."""
    function, found = operator.reference or operator.function, []
    try:
        found.append(results(function, [place(t, "cpu", False, gradient) for t in inputs], gradient))
    except RuntimeError:  # the CPU has no such kernel
        if dtype.itemsize != 2:
            raise
    if dtype in (torch.float16, torch.bfloat16):
        wide = [place(t.float() if t.dtype == dtype else t, "cpu", False, gradient) for t in inputs]
        rounded = results(function, wide, gradient)
        types = [t.dtype for t in found[0]] if found else [dtype if t.dtype == torch.float32 else t.dtype for t in rounded]
        found.append([t.to(as_type) for t, as_type in zip(rounded, types)])
    return found


def run(operator: Operator, quick: bool, outcome: Outcome) -> None:
    for dtype, form in variants(operator, quick):
        gradient = form == "gradient"
        inputs = [spec.make(dtype, 11 * number + 1) for number, spec in enumerate(operator.inputs)]
        references = expected(operator, inputs, gradient, dtype)
        arguments = ", ".join(describe(with_gaps(t) if form == "strided" else t) for t in inputs)
        with outcome.attempt(f"{str(dtype).removeprefix('torch.')} {form}", arguments):
            on_card = [place(t, "npu", form == "strided", gradient) for t in inputs]
            actual = results(operator.function, on_card, gradient)
            outcome.compared(compare(actual, references, dtype, operator.loose * (4 if gradient else 1)))
