"""What runs a compiled graph: captured with torch.npu.graph, and replayed.

A graph of AOTAutograd has no side effects but the copies at its end into inputs that the program changes. It is run eagerly the first
time its inputs have certain sizes and its parameters certain places, captured the second, replayed from then on.
  - Captures of one stream share their memory, for their replays follow one another. Note [Results in shared memory].
  - Inputs that are neither parameters nor results of another captured graph are copied to where the capture reads them.
  - What a run returned is not overwritten while it is in use: the graph is captured once more, and results that turn out to live long,
    such as losses that a program collects, are copied from then on.
  - What cannot be captured, such as operators that wait for the card or have tensors of the CPU, runs eagerly between captured parts
    (pieces.py), or if there is not much else the whole graph does, and a warning says why.
"""

from __future__ import annotations

import functools
import re
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils._pytree import tree_leaves

import torch_npu
from torch_npu import _C
from torch_npu.dynamo import pieces

MOST_CAPTURES = 64  # of one graph: its sizes, and the layers that share its code
_MOST_SIGHTS = 256  # places of inputs that are remembered
_capturing = threading.Lock()  # the stream that captures, which threads on streams of their own share


def count(what: str) -> None:
    """"captures", "replays", "eager runs", "graphs", "fused ..." of torch._dynamo.utils.counters["npu"]."""
    counters["npu"][what] += 1


class _Pool:
    """The memory that captures of one stream share.

    Note [Results in shared memory]
    A capture keeps its results, so later ones never get their memory. It gives back what it needed in between, so results of a later
    capture may lie there: while the program has one of these, the earlier capture must not run. Then it is captured anew, in what is free
    now, and the later one, whose results live long, gets memory of its own.
    """

    def __init__(self) -> None:
        self.handle = torch_npu.npu.graph_pool_handle()
        self.order = _C.CaptureOrder()
        self.lock = threading.RLock()  # from the choice of a capture until its results are in use
        self.instances: weakref.WeakSet[_Instance] = weakref.WeakSet()


@functools.cache
def _pool(device: int, stream: int) -> _Pool:
    return _Pool()


def captured(module: torch.fx.GraphModule, inputs: Sequence[Any], fixed: set[int]) -> Callable:
    """Inputs with a number in `fixed` stay where they are from run to run, as parameters do."""
    if reason := obstacle(module, inputs):
        return _in_pieces(module, pieces.leaves_card, fixed, reason) or eagerly(module)
    return _Captured(module, fixed)


def _in_pieces(module: torch.fx.GraphModule, is_refused: Callable, fixed: set[int], reason: str) -> Callable | None:
    """Says what becomes of a graph that cannot be captured as a whole."""
    if (whole := pieces.cut(module, is_refused, captured, fixed)) is None:
        say(reason)
        return None
    count("graphs in pieces")
    warnings.warn(f"torch.compile: a graph is captured in pieces, and runs eagerly between them: {reason}", stacklevel=3)
    return functools.partial(_run, whole)


def eagerly(module: torch.fx.GraphModule) -> Callable:
    return functools.partial(run_eagerly, module)


def run_eagerly(module: torch.fx.GraphModule, inputs: list[Any]) -> list[Any]:
    count("eager runs")
    return _run(module, inputs)


def _run(module: Callable, inputs: list[Any]) -> list[Any]:
    given = list(inputs)
    inputs.clear()
    with torch.no_grad():
        return module(*given)


def say(reason: str) -> None:
    warnings.warn(f"torch.compile: a graph is not captured and runs eagerly: {reason}", stacklevel=3)


def obstacle(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.device.type not in ("npu", "meta"):
            return f"it has an input on {value.device}"
        if isinstance(value, torch.Generator) and value.device.type == "npu":  # of random numbers that are drawn again
            continue
        if not isinstance(value, (torch.Tensor, torch.SymInt, int)):
            return f"it has an input of type {type(value).__name__}"
    devices = {leaf.device for node in module.graph.nodes for leaf in tree_leaves(node.meta.get("val"))
               if isinstance(leaf, torch.Tensor)}
    if others := sorted(str(device) for device in devices if device.type not in ("npu", "meta")):
        return f"it computes on {', '.join(others)} too"
    if sum(device.type == "npu" for device in devices) > 1:
        return "it computes on several cards"
    return None


def shares_memory(tensor: torch.Tensor) -> bool:
    """Whether elements lie over each other, as those of unfold() do. An expanded tensor is copied without its repetitions."""
    end = 0
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if stride and size > 1):
        if stride <= end:
            return True
        end += stride * (size - 1)
    return False


def failed_operator(error: BaseException) -> str:
    """"aten.nonzero.default" from the line of the graph's code that raised `error`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<eval_with_key>") and (name := re.search(r"torch\.ops\.([\w.]+)\(", frame.line or "")):
            return name[1]
    return ""


def changed_inputs(graph: torch.fx.Graph) -> set[int]:
    """The numbers of the inputs that the graph writes."""
    places = {node: i for i, node in enumerate(graph.find_nodes(op="placeholder"))}
    return {places[value] for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)
            for argument, value in zip(node.target._schema.arguments, node.args, strict=False)
            if argument.is_write and value in places}


class _Captured:
    """One graph of AOTAutograd, and its captures."""

    def __init__(self, module: torch.fx.GraphModule, fixed: set[int]) -> None:
        self.module, self.refused = module, False
        self.pieces: Callable | None = None
        placeholders = module.graph.find_nodes(op="placeholder")
        values = [node.meta.get("val") for node in placeholders]
        self.generators = [i for i, value in enumerate(values) if isinstance(value, torch.Generator)]
        self.numbers = [i for i, value in enumerate(values) if not isinstance(value, (torch.Tensor, torch.Generator))]
        self.fixed = [i for i, value in enumerate(values)
                      if isinstance(value, torch.Tensor) and (i in fixed or value.device.type == "meta")]
        # What a forward graph saved stays where its capture made it, if it was captured: AOTAutograd names the others primals.
        self.saved = {i for i in self.fixed if not placeholders[i].name.startswith(("primals", "arg"))}
        self.strangers = 0  # places of inputs that were new, since the last capture
        self.changed = changed_inputs(module.graph)
        devices = (leaf.device.index for node in module.graph.nodes for leaf in tree_leaves(node.meta.get("val"))
                   if isinstance(leaf, torch.Tensor) and leaf.device.type == "npu")
        self.card = next(devices, None)
        self.lock = threading.RLock()  # of what follows; taken after a pool's
        self.last: _Instance | None = None
        self.instances: dict[tuple, list[_Instance]] = {}
        self.count = 0
        self.sights: dict[tuple, None] = {}
        self.kept: set[int] = set()  # numbers of results that are copied, for they outlived another run
        self.shares_memory = True

    def __call__(self, inputs: list[Any]) -> list[Any]:
        if self.pieces is not None:
            return self.pieces(inputs)
        instance = self.last
        if instance is not None:
            with instance.pool.lock:
                if instance.can_run(inputs):
                    return self._replay(instance, inputs)
        with torch_npu.npu.device(self.card):
            pool = _pool(self.card, _C.current_stream().stream_id)
            with pool.lock:
                with self.lock:
                    instance = self.last = self._instance(inputs, pool)
                if instance is not None:
                    return self._replay(instance, inputs)
        return run_eagerly(self.module, inputs)

    def _replay(self, instance: _Instance, inputs: list[Any]) -> list[Any]:
        results = instance.call.replay(inputs)
        inputs.clear()
        count("replays")
        for i in self.kept:
            results[i] = results[i].clone()
        return results

    def _instance(self, inputs: list[Any], pool: _Pool) -> _Instance | None:
        """One that reads these inputs and may run; a new one; or none, and the run is eager."""
        if self.refused or _C.is_current_stream_capturing():
            return None
        key = (_C.current_stream().stream_id, *[inputs[i] for i in self.numbers], *[inputs[i].data_ptr() for i in self.fixed],
               *[id(inputs[i]) for i in self.generators])
        instances = self.instances.get(key, [])
        known = bool(instances)
        for instance in list(instances):
            if not instance.call.fits(inputs):
                continue
            if in_use := instance.call.in_use():
                self.kept.update(in_use)
            elif instance.call.can_run(inputs):
                return instance
            else:
                instances.remove(instance)
                for other in list(pool.instances):
                    if other.call.follows(instance.call) and other.call.in_use():
                        other.leave_shared_memory()
        if self.count == MOST_CAPTURES:
            return None
        if not known and key not in self.sights:
            if len(self.sights) == _MOST_SIGHTS:
                self.sights.pop(next(iter(self.sights)))
            self.sights[key] = None
            self.strangers += 1
            if self.strangers == MOST_CAPTURES:
                self._copy_saved()
            return None
        try:
            instance = _Instance(self, inputs, pool)
        except RuntimeError as error:
            self.refused = True
            self._refuse(failed_operator(error), str(error).partition("\n")[0])
            return None
        self.count += 1
        self.strangers = 0
        self.sights.pop(key, None)
        self.instances.setdefault(key, []).append(instance)
        return instance

    def _copy_saved(self) -> None:
        """They are elsewhere in each run, for the forward graph is eager or has pieces that are: they are copied, as other inputs."""
        self.fixed = [i for i in self.fixed if i not in self.saved]
        self.instances.clear()
        self.sights.clear()
        self.last = None

    def _refuse(self, name: str, reason: str) -> None:
        if not name:
            return say(reason)
        self.pieces = _in_pieces(self.module, lambda node: str(node.target) == name, set(self.fixed), f"{name}: {reason}")

    def leave_shared_memory(self) -> None:
        self.shares_memory = False
        self.instances.clear()
        self.last = None


class _Instance:
    """One capture: `call` replays it."""

    _addresses: set[int] = set()  # that captures write their results to

    def __init__(self, graph: _Captured, inputs: list[Any], pool: _Pool) -> None:
        self.graph, self.pool = weakref.ref(graph), pool
        read = list(inputs)  # what the capture is given
        self.generators = [(i, inputs[i]) for i in graph.generators]
        fixed = {*graph.fixed, *graph.numbers, *graph.generators}
        fixed.update(i for i, value in enumerate(inputs) if i not in fixed and value.data_ptr() in _Instance._addresses)
        copied = [i for i in range(len(inputs)) if i not in fixed]
        if any(shares_memory(inputs[i]) for i in copied):
            raise RuntimeError("it has an input whose elements share memory, of which no copy can be written")
        for i in copied:
            with torch.inference_mode(False):
                read[i] = torch.empty_strided(inputs[i].shape, inputs[i].stride(), dtype=inputs[i].dtype, device=inputs[i].device)
        captured = torch_npu.npu.NPUGraph()
        handle = pool.handle if graph.shares_memory else None
        with (_capturing, torch_npu.npu.graph(captured, pool=handle, capture_error_mode="thread_local"),
              torch.inference_mode(False), torch.no_grad()):
            results = list(graph.module(*read))
        count("captures")
        # Results that are inputs are given back as they came; copies of inputs are results like others, for the next run changes them.
        places = {id(read[i]): i for i in fixed}
        # Not by untyped_storage(): its object, once made, counts as a use as long as the memory lives, so the program's could not be seen.
        address = torch._C._storage_address  # type: ignore[attr-defined]
        theirs = {address(read[i]) for i in fixed if isinstance(read[i], torch.Tensor)}
        own = [(i, value) for i, value in enumerate(results) if isinstance(value, torch.Tensor) and address(value) not in theirs]
        self.own = {value.data_ptr() for _, value in own}
        self._addresses.update(self.own)
        self.call = _C.CapturedCall(
            replay=captured.replay,
            places=[(i, read[i].data_ptr()) for i in sorted(fixed) if isinstance(read[i], torch.Tensor)],
            numbers=[(i, read[i]) for i in graph.numbers],
            copies=[(i, read[i], i in graph.changed) for i in copied],
            results=[None if any(i == number for number, _ in own) else value for i, value in enumerate(results)],
            passed=[(i, places[id(value)]) for i, value in enumerate(results) if id(value) in places],
            own=own,
            order=pool.order if graph.shares_memory else None,
        )
        if graph.shares_memory:
            pool.instances.add(self)

    def can_run(self, inputs: list[Any]) -> bool:
        if not self.call.can_run(inputs):
            return False
        return not self.generators or all(inputs[i] is generator for i, generator in self.generators)

    def leave_shared_memory(self) -> None:
        if (graph := self.graph()) is not None:
            graph.leave_shared_memory()

    def __del__(self) -> None:
        self._addresses.difference_update(getattr(self, "own", ()))
