"""torch.compile(backend="npugraphs"), and what mode="reduce-overhead" means on npu: each compiled graph is captured and replayed.

AOTAutograd makes graphs without side effects. The first run of one is eager, the second is captured, further ones are replays, unless
  - it has symbolic sizes, tensors of other devices or an operator that cannot be captured: it stays eager, and the reason is said;
  - what it returned is still in use, which a replay would overwrite, or parameters have moved: it is captured once more, and after a few
    captures such runs are eager.
Inputs that are neither parameters nor results of another captured graph are copied to where the capture reads them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

import torch_npu

_MOST_CAPTURES = 4  # of one graph
counters = {"captures": 0, "replays": 0, "eager runs": 0}  # of this process, for tests and curious users


@functools.cache
def _pool() -> tuple[int, int]:
    return torch_npu.npu.graph_pool_handle()


def npugraphs(model: torch.fx.GraphModule, inputs: Sequence[Any], **options) -> Callable:
    if options:
        raise ValueError(f"backend 'npugraphs' has no options, but got {', '.join(map(str, options))}")
    return aot_autograd(fw_compiler=_compile_forward, bw_compiler=_compile_backward, inference_compiler=_compile_forward,
                        keep_inference_input_mutations=False)(model, inputs)


def _compile_forward(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable:
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return _compile(module, inputs, set(metadata.static_input_indices or ()) if metadata is not None else set())


def _compile_backward(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable:
    from torch._inductor.utils import count_tangents

    return _compile(module, inputs, set(range(count_tangents(module))))


def _compile(module: torch.fx.GraphModule, inputs: list[Any], fixed: set[int]) -> Callable:
    if reason := _obstacle(module, inputs):
        warnings.warn(f"torch.compile: a graph is not captured and runs eagerly: {reason}", stacklevel=2)
        return torch._dynamo.backends.debugging.boxed_nop(module, inputs)
    captured = _Captured(module, fixed)

    def run(inputs: list[Any]):
        given = list(inputs)
        inputs.clear()
        return captured(given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _obstacle(module: torch.fx.GraphModule, inputs: list[Any]) -> str | None:
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            return "it has inputs that are no tensors, such as symbolic sizes; compile with dynamic=False"
        if value.device.type != "npu":
            return f"it has an input on {value.device}"
        if any(isinstance(size, torch.SymInt) for size in value.shape):
            return "its sizes are symbolic; compile with dynamic=False"
    devices = {leaf.device for node in module.graph.nodes for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val"))
               if isinstance(leaf, torch.Tensor)}
    others = sorted(str(device) for device in devices if device.type not in ("npu", "meta"))
    if others:
        return f"it computes on {', '.join(others)} too"
    if len(devices) > 1:
        return "it computes on several cards"
    return None


def _uses(tensor: torch.Tensor) -> int:
    return torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)


class _Captured:
    """One graph of AOTAutograd, and its captures."""

    def __init__(self, module: torch.fx.GraphModule, fixed: set[int]) -> None:
        self.module, self.fixed = module, fixed
        self.warm, self.refused = False, False
        self.instances: list[_Instance] = []

    def __call__(self, inputs: list[torch.Tensor]):
        instance = self._instance(inputs)
        self.warm = True
        if instance is not None:
            return instance.replay(inputs)
        counters["eager runs"] += 1
        with torch.no_grad():
            return self.module(*inputs)

    def _instance(self, inputs: list[torch.Tensor]) -> _Instance | None:
        """One that reads these inputs and whose results nobody has; a new one; or none, and the run is eager."""
        if not self.warm or self.refused or torch_npu.npu.is_current_stream_capturing():
            return None
        for instance in self.instances:
            if instance.reads(inputs) and not instance.is_in_use():
                return instance
        if len(self.instances) == _MOST_CAPTURES:
            return None
        try:
            instance = _Instance(self.module, self.fixed, inputs)
        except RuntimeError as error:
            self.refused = True
            reason = str(error).partition("\n")[0]
            warnings.warn(f"torch.compile: a graph is not captured and runs eagerly: {reason}", stacklevel=2)
            return None
        self.instances.append(instance)
        return instance


class _Instance:
    """One capture: where it reads and where it writes."""

    _addresses: set[int] = set()  # that captures write their results to

    def __init__(self, module: torch.fx.GraphModule, fixed: set[int], inputs: list[torch.Tensor]) -> None:
        # Inputs that are read where they are, which their owners keep; and where the others are copied to.
        self.stays = {i: x.data_ptr() for i, x in enumerate(inputs) if i in fixed or x.data_ptr() in _Instance._addresses}
        self.copies = [None if i in self.stays else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
                       for i, x in enumerate(inputs)]
        read = [x if copy is None else copy for copy, x in zip(self.copies, inputs, strict=True)]
        self.graph = torch_npu.npu.NPUGraph()
        with torch_npu.npu.graph(self.graph, pool=_pool(), capture_error_mode="thread_local"), torch.no_grad():
            self.outputs = list(module(*read))
        counters["captures"] += 1
        others = {inputs[i].untyped_storage().data_ptr() for i in self.stays}
        self.results = [value for value in self.outputs
                        if isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() not in others]
        self.uses = [_uses(result) for result in self.results]  # while nobody has them
        _Instance._addresses.update(result.data_ptr() for result in self.results)

    def __del__(self) -> None:
        _Instance._addresses.difference_update(result.data_ptr() for result in getattr(self, "results", ()))

    def reads(self, inputs: list[torch.Tensor]) -> bool:
        return all(inputs[i].data_ptr() == address for i, address in self.stays.items())

    def is_in_use(self) -> bool:
        return any(_uses(result) > uses for result, uses in zip(self.results, self.uses, strict=True))

    def replay(self, inputs: list[torch.Tensor]) -> list[Any]:
        for copy, given in zip(self.copies, inputs, strict=True):
            if copy is not None:
                copy.copy_(given)
        self.graph.replay()
        counters["replays"] += 1
        return [value.detach() if isinstance(value, torch.Tensor) else value for value in self.outputs]
