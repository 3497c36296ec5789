"""The backends of torch.compile for npu: Dynamo's graph -> fused operators -> AOTAutograd -> captured graphs.

Operators are fused in Dynamo's graph, before there is a backward one: the gradients of the fused operators are their own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import default_partition
from torch.utils._pytree import tree_leaves

from torch_npu.dynamo import capture
from torch_npu.dynamo.output_code import GraphCode

# Below, a replay costs more than what the operators do. What AOTAutograd puts around the two graphs of a training step costs a lot more.
FEWEST_LAUNCHES, FEWEST_LAUNCHES_IN_TRAINING = 4, 12


def npu(model: torch.fx.GraphModule, inputs: Sequence[Any], **options) -> Callable:
    """backend="npu", and what the default backend does with graphs of npu tensors."""
    _refuse("npu", options)
    return compile_fused(model, inputs, captures=True)


def npugraph_ex(model: torch.fx.GraphModule, inputs: Sequence[Any], **options) -> Callable:
    """backend="npugraph_ex", the official name of a backend that captures: as backend="npu"."""
    _refuse("npugraph_ex", options)
    return compile_fused(model, inputs, captures=True)


def npugraphs(model: torch.fx.GraphModule, inputs: Sequence[Any], **options) -> Callable:
    """backend="npugraphs": the program's own operators, captured."""
    _refuse("npugraphs", options)
    return compile_graph(model, inputs, captures=True)


def _refuse(backend: str, options: dict) -> None:
    if options:
        raise ValueError(f"backend '{backend}' has no options, but got {', '.join(map(str, options))}")


def compile_fused(model: torch.fx.GraphModule, inputs: Sequence[Any], *, captures: bool) -> Callable:
    from torch_npu.dynamo import fusions

    fusions.apply(model)
    trains = torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)
    fewest = FEWEST_LAUNCHES_IN_TRAINING if trains else FEWEST_LAUNCHES
    if launches(model.graph) < fewest and not _has_bodies(model.graph) and not _is_to_be_saved():
        capture.count("small graphs")
        capture.say(f"it has fewer than {fewest} operators, which cost less than a replay")
        return model.forward
    return compile_graph(model, inputs, captures=captures)


def compile_graph(model: torch.fx.GraphModule, inputs: Sequence[Any], *, captures: bool) -> Callable:
    def finish(module: torch.fx.GraphModule, inputs: list[Any], fixed: set[int]) -> Callable:
        capture.count("graphs")
        change_in_place(module)
        return GraphCode(module, inputs, fixed, captures=captures)

    def forward(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable:
        metadata = _metadata()
        return finish(module, inputs, set(metadata.static_input_indices or ()) if metadata is not None else set())

    def backward(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable:
        from torch._inductor.utils import count_tangents

        return finish(module, inputs, set(range(count_tangents(module))))

    plain: Callable | None = None

    def inference(module: torch.fx.GraphModule, inputs: list[Any]) -> Callable:
        nonlocal plain
        run, metadata = forward(module, inputs), _metadata()
        if len(inputs) == arguments and _needs_no_wrapper(metadata):
            plain = _without_wrapper(run, metadata.mutated_graph_handled_indices_seen_by_autograd)
        return run

    arguments = len(inputs)
    # What the forward graph computed is kept for the backward one, as eagerly: computing it again would cost launches.
    compiled = aot_autograd(fw_compiler=forward, bw_compiler=backward, inference_compiler=inference, partition_fn=default_partition,
                            keep_inference_input_mutations=True)(model, inputs)
    return plain or compiled


def _without_wrapper(run: Callable, changed: list[int]) -> Callable:
    if not changed:
        return lambda *inputs: run(list(inputs))

    def call(*inputs: Any) -> list[Any]:
        torch.autograd.graph.increment_version([inputs[i] for i in changed])
        return run(list(inputs))

    return call


def _metadata() -> Any:
    context = torch._guards.TracingContext.try_get()
    return context.fw_metadata if context is not None else None


def _needs_no_wrapper(metadata: Any) -> bool:
    """Whether what AOTAutograd puts around a graph without gradients would do nothing, but count versions of what the graph changes.

    It costs as much as several small operators.
    """
    from torch._functorch._aot_autograd.schemas import PlainTensorMeta

    if metadata is None or torch._C._is_any_autocast_enabled() or _is_to_be_saved():
        return False
    if not all(isinstance(meta, PlainTensorMeta) for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)):
        return False
    return not (metadata.tokens or metadata.aliased_out_indices or metadata.num_intermediate_bases or metadata.mutated_inp_runtime_indices
                or metadata.num_graphsafe_rng_states or metadata.act_input_indices or metadata.grad_enabled_mutation is not None)


def _is_to_be_saved() -> bool:
    """By aot_compile: what AOTAutograd makes is the form that upstream saves."""
    from torch._functorch._aot_autograd.autograd_cache import should_bundle_autograd_cache

    return should_bundle_autograd_cache()


def _has_bodies(graph: torch.fx.Graph) -> bool:
    """Whether operators of higher order, such as checkpointed activations, have graphs of their own, which AOTAutograd knows to run."""
    return any(isinstance(node.target, torch._ops.HigherOrderOperator) for node in graph.nodes)


def launches(graph: torch.fx.Graph) -> int:
    """How many calls of Dynamo's graph compute something, not views of it."""
    values = {node: node.meta.get("example_value") for node in graph.nodes}
    made = {storage for node, value in values.items() if node.op == "placeholder" for storage in _storages(value)}
    count = 0
    for node, value in values.items():
        storages = _storages(value)
        if node.op.startswith("call_") and not storages <= made:
            count += 1
        made |= storages
    return count


def _storages(value: Any) -> set[int]:
    """Of the tensors in `value`; one of torch.func stands for the tensor that it wraps."""
    tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
    for i, tensor in enumerate(tensors):
        while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            tensor = tensors[i] = torch._C._functorch.get_unwrapped(tensor)
    return {tensor.untyped_storage()._cdata for tensor in tensors}


def change_in_place(module: torch.fx.GraphModule) -> None:
    """A functional operator whose result is copied to its first argument, an input of the graph, becomes its in-place form.

    So a cache is written where it is, not copied as a whole.
    """
    graph = module.graph
    order = {node: place for place, node in enumerate(graph.nodes)}
    for copy in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        given, value = copy.args[:2]
        if given.op != "placeholder" or value.op != "call_function" or not value.args or value.args[0] is not given:
            continue
        in_place = _in_place(value.target)
        # Nobody may read the old value later; and views of it could.
        if in_place is None or any(order[user] > order[value] for user in given.users if user is not copy) or _has_views(given):
            continue
        old, new = given.meta["val"], value.meta["val"]
        if any(user.op == "output" for user in value.users) or old.dtype != new.dtype or old.shape != new.shape:
            continue
        with graph.inserting_before(value):
            changed = graph.call_function(in_place, value.args, value.kwargs)
        changed.meta.update(value.meta)
        value.replace_all_uses_with(changed, delete_user_cb=lambda user, copy=copy: user is not copy)
        copy.replace_all_uses_with(changed)
        graph.erase_node(copy)
        graph.erase_node(value)
        order[changed] = order[value]
    module.recompile()


def _has_views(node: torch.fx.Node) -> bool:
    return any(isinstance(user.target, torch._ops.OpOverload) and user.target.is_view for user in node.users)


def _in_place(target: Any) -> torch._ops.OpOverload | None:
    """aten.index_copy.default -> aten.index_copy_.default, where the two have the same arguments."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    name = target._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, f"{name}_", None)
    overload = getattr(packet, target._overloadname, None) if packet is not None else None
    if overload is None or [a.name for a in overload._schema.arguments] != [a.name for a in target._schema.arguments]:
        return None
    return overload
