"""One dumped operator again, from its dumped inputs: on the CPU, and on the npu if there is one."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from torch_npu.compare.difference import Difference, of_values, tolerance
from torch_npu.compare.folder import Launch, Tensor


def tensor(dumped: Tensor, device: str) -> torch.Tensor:
    """What numpy has not was widened, without loss; this is the way back."""
    values = torch.from_numpy(dumped.values().copy())
    dtype = getattr(torch, dumped.dtype, None)
    if dtype is None or list(values.shape) != dumped.shape:
        raise ValueError(f"{dumped.file} has the bytes of {dumped.dtype}, which torch cannot make a tensor of")
    return values.to(dtype).to(device)


def _overload(launch: Launch):
    if not launch.operator or not launch.arguments:
        raise ValueError(f"launch {launch.order} ({launch.aclnn}) was not made by an operator of the dispatcher, so it cannot be repeated")
    namespace, _, name = launch.operator.partition("::")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), launch.overload or "default")
    except AttributeError:
        raise ValueError(f"launch {launch.order} is one of {launch.operator}, which this process does not know: the program that was "
                         "dumped had registered it") from None


def run(launch: Launch, device: str) -> list[torch.Tensor]:
    """The results of the operator on `device`."""
    function = _overload(launch)
    made: dict[int, torch.Tensor] = {}

    def value(form):
        if isinstance(form, list):
            return [value(each) for each in form]
        if not isinstance(form, dict):
            return form
        if "tensor" in form:
            place = launch.tensors[form["tensor"]]
            if place is None or place >= len(launch.inputs):
                raise ValueError(
                    f"launch {launch.order} ({launch.aclnn}) did not read every tensor of {launch.operator}: the operator makes several "
                    "launches, or an input was not dumped or is in a private format, so it cannot be repeated")
            return made.setdefault(place, tensor(launch.inputs[place], device))
        if "number" in form:
            return float(form["number"])
        if "complex" in form:
            return complex(*form["complex"])
        if "device" in form:
            return torch.device(device)
        raise ValueError(f"{launch.operator} cannot be repeated: an argument is {form['unsupported']}")

    if torch.Tag.nondeterministic_seeded in function.tags:
        raise ValueError(f"{launch.operator} draws random numbers, which the dump does not keep, so it cannot be repeated")
    schema = function._schema.arguments
    values = [value(form) for form in launch.arguments]
    positional = [v for v, argument in zip(values, schema, strict=False) if not argument.kwarg_only]
    named = {argument.name: v for v, argument in zip(values, schema, strict=False) if argument.kwarg_only}
    result = function(*positional, **named)
    if result is None:  # in place, of lists
        result = positional[0]
    results = result if isinstance(result, tuple | list) else [result]
    return [each for each in results if isinstance(each, torch.Tensor)]


def _numbers(t: torch.Tensor):
    t = t.detach().cpu()
    if t.dtype in (torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu):
        t = t.float()
    return t.to(torch.complex64).numpy() if t.dtype == torch.complex32 else t.numpy()


def _results(launch: Launch) -> tuple[dict[str, list[torch.Tensor]], dict[str, str]]:
    """Of each device that can compute it; of the others, why they cannot."""
    found, reasons = {}, {}
    for device in ("cpu", "npu") if torch.accelerator.is_available() else ("cpu",):
        try:
            found[device] = run(launch, device)
        except RuntimeError as error:  # NotImplementedError is one
            reasons[device] = (str(error).strip() or type(error).__name__).splitlines()[0]
    return found, reasons


def differences(launch: Launch, rtol: float | None, atol: float | None) -> Iterator[tuple[str, Difference | str]]:
    """What was compared, and how far it is apart; or which device cannot repeat it, and why."""
    found, reasons = _results(launch)
    for device, why in reasons.items():
        yield device, f"cannot repeat it: {why}"
    compared = len(found) == 2
    if compared:
        for i, (a, b) in enumerate(zip(found["cpu"], found["npu"], strict=True)):
            limits = tolerance(str(a.dtype).removeprefix("torch."), rtol, atol)
            yield f"output {i}: cpu and npu", of_values(_numbers(a), _numbers(b), *limits)
    for name, results in found.items():
        for i, (a, dumped) in enumerate(zip(results, launch.outputs, strict=False)):
            if list(a.shape) == dumped.shape and dumped.file is not None:
                limits = tolerance(dumped.dtype, rtol, atol)
                yield f"output {i}: {name} and the dump", of_values(_numbers(a), dumped.values(), *limits)
                compared = True
    if not compared:
        raise ValueError(f"nothing of launch {launch.order} could be compared: the dump has no outputs of it, or of other sizes")
