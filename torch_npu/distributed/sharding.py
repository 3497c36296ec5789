"""How operators that only an NPU has run on DTensors: which dimensions may be split, and what that makes of the other tensors.

A rule names the dimensions of every tensor by labels. Tensors that have a label are split along it together. A tensor that
lacks it, or has one number there, is whole on every rank; as a gradient it is a part of a sum over the ranks.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema, OpStrategy, PlacementList, RuntimeSchemaInfo
from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy, register_op_strategy
from torch.distributed.tensor._redistribute import redistribute_local_tensor

Labels = Sequence[Hashable]
WHOLE: Labels = ()


class Tensors(NamedTuple):
    outputs: Sequence[Labels | None]  # None: no tensor; WHOLE: never a part of a sum
    inputs: Mapping[str, Labels]  # by the arguments' names
    split: Sequence[Hashable]
    gradients: bool = False  # whether the outputs are
    sizes: Sequence[Sequence[int] | None] = ()  # of the outputs, where they may have one number along a label
    even: dict[Hashable, Sequence[int]] | None = None  # numbers of parts that the ranks must divide


def register() -> None:
    for name, rule in RULES.items():
        op = _overload(name)
        keys = [argument.name for argument in op._schema.arguments if argument.kwarg_only and argument.name not in _LISTS]
        register_op_strategy(op, schema_info=RuntimeSchemaInfo(1, keys))(_strategy(rule))
    for name in ("npu_fusion_attention", "npu_fusion_attention_grad"):
        DTensor._op_dispatcher._custom_op_handlers[_overload(name)] = _with_own_heads


def _overload(name: str) -> torch._ops.OpOverload:
    return getattr(torch.ops.npu, name).default


def _strategy(rule: Callable[[dict], Tensors]) -> Callable[[OpSchema], OpStrategy]:
    def strategy(schema: OpSchema) -> OpStrategy:
        given = _arguments(schema)
        tensors = rule(given)
        mesh = schema.get_mesh_from_args(validate=False)
        even = tensors.even or {}
        labels = [label for label in tensors.split if all(count % mesh.size() == 0 for count in even.get(label, ()))]
        placements = [_placements(tensors, given, label) for label in (None, *labels)]
        return expand_to_full_mesh_op_strategy(mesh, schema, placements, input_index=len(tensors.outputs))

    return strategy


def _arguments(schema: OpSchema) -> dict:
    """By name: those of the call in their order, then the defaults of the others."""
    arguments = schema.op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), schema.args_schema, strict=False)) | schema.kwargs_schema
    return given | {argument.name: argument.default_value for argument in arguments if argument.name not in given}


def _placements(tensors: Tensors, given: dict, label: Hashable | None) -> PlacementList:
    """Of outputs and inputs, where `label` is split; of a call with whole tensors, if it is None."""
    missing = Partial() if tensors.gradients and label is not None else Replicate()
    sizes = [*tensors.sizes, *[None] * len(tensors.outputs)]
    outputs = [
        None if labels is None else _place(labels, size, label, missing if labels else Replicate())
        for labels, size in zip(tensors.outputs, sizes, strict=False)
    ]
    inputs = [
        _place(tensors.inputs.get(name, WHOLE), value.shape, label, Replicate()) for name, value in given.items() if _is_tensor(value)
    ]
    return [*outputs, *inputs]


def _is_tensor(value) -> bool:
    return isinstance(value, OpStrategy)


def _place(labels: Labels, size: Sequence[int] | None, label: Hashable | None, missing):
    if label not in labels:
        return missing
    dim = labels.index(label)
    return missing if size is not None and size[dim] == 1 else Shard(dim)


# ---- Rules. They get the arguments by name, tensors as OpStrategy.


def _dims(tensor) -> list[int]:
    return list(range(tensor.ndim))


def _alike(*names: str, gradients: bool = False, outputs: int = 1) -> Callable[[dict], Tensors]:
    """Number by number."""

    def rule(given: dict) -> Tensors:
        dims = _dims(given[names[0]])
        return Tensors([dims] * outputs, dict.fromkeys(names, dims), dims, gradients)

    return rule


def _gate(*names: str, outputs: int = 1) -> Callable[[dict], Tensors]:
    """Halves of one dimension, which stays whole."""

    def rule(given: dict) -> Tensors:
        dims = _dims(given[names[0]])
        return Tensors([dims] * outputs, dict.fromkeys(names, dims), [dim for dim in dims if dim != given["dim"] % len(dims)])

    return rule


def _rms_norm(*names: str, outputs: int) -> Callable[[dict], Tensors]:
    """`outputs` have the input's dimensions, the reciprocal of the norm too, with one number for each row."""

    def rule(given: dict) -> Tensors:
        dims, rows = _norm_dims(given[names[0]], given["gamma"])
        return Tensors([dims] * outputs, {**dict.fromkeys(names, dims), "gamma": dims[len(rows) :]}, rows)

    return rule


def _rms_norm_gradient(given: dict) -> Tensors:
    dims, rows = _norm_dims(given["input"], given["gamma"])
    gamma = dims[len(rows) :]
    return Tensors([dims, gamma], {"dy": dims, "input": dims, "gamma": gamma, "rstd": dims}, rows, gradients=True)


def _norm_dims(tensor, gamma) -> tuple[list[int], list[int]]:
    dims = _dims(tensor)
    return dims, dims[: tensor.ndim - gamma.ndim]


def _rotary(*names: str) -> Callable[[dict], Tensors]:
    """cos and sin may have one number where the others have many heads or batches."""

    def rule(given: dict) -> Tensors:
        dims = _dims(given[names[0]])
        sizes = [given[name].shape for name in names]
        return Tensors([dims] * len(names), {name: dims for name in given if _is_tensor(given[name])}, dims[:-1], sizes=sizes)

    return rule


def _rotary_gradient(given: dict) -> Tensors:
    dims = _dims(given["grad"])
    sizes = [given["grad"].shape, given["r1"].shape, given["r2"].shape]
    return Tensors([dims] * 3, dict.fromkeys(("grad", "input", "r1", "r2"), dims), dims[:-1], gradients=True, sizes=sizes)


def _hidden(outputs: Sequence[str], gradients: bool = False, **inputs: str) -> Callable[[dict], Tensors]:
    """Rows of tokens are moved whole; their numbers may be split."""
    labels = {name: tuple(letters) for name, letters in inputs.items()}
    return lambda given: Tensors([tuple(letters) for letters in outputs], labels, ["H"], gradients)


def _attention(given: dict) -> Tensors:
    inputs, split, even = _of_attention(given)
    query = inputs["query"]
    softmax = ("T", "N", "8") if given["input_layout"] == "TND" else ("B", "N", "S", "8")
    return Tensors([query, softmax, softmax, WHOLE, None, None, None], inputs, split, even=even)


def _attention_gradient(given: dict) -> Tensors:
    inputs, split, even = _of_attention(given)
    softmax = ("T", "N", "8") if given["input_layout"] == "TND" else ("B", "N", "S", "8")
    inputs |= {"dy": inputs["query"], "softmax_max": softmax, "softmax_sum": softmax, "attention_in": inputs["query"]}
    bias, sink = given["pse"], given["sink"]
    has_bias, has_sink = bias is not None, sink is not None
    outputs = [inputs["query"], inputs["key"], inputs["value"], inputs["pse"] if has_bias else WHOLE, inputs["sink"] if has_sink else WHOLE]
    return Tensors(outputs, inputs, split, gradients=True, sizes=[None, None, None, bias.shape if has_bias else None], even=even)


def _heads_first(layout: str) -> tuple[str, ...]:
    """BSH and SBH have the heads in H, one after the other."""
    return tuple(layout if "N" in layout else layout.replace("H", "N"))


def _of_attention(given: dict):
    """Along heads, and along batches if nothing counts tokens across them. Dropout is not split: its numbers belong to the whole."""
    layout = given["input_layout"]
    query = _heads_first(layout)
    key = tuple(letter.replace("S", "K") for letter in query)
    masks = {4: ("B", "N", "S", "K"), 3: ("B", "S", "K"), 2: ("S", "K")}
    biases = {4: ("B", "N", "S", "K"), 2: ("B", "N"), 1: ("N",)}
    inputs: dict[str, Labels] = {"query": query, "key": key, "value": key, "sink": ("N",)}
    inputs["atten_mask"] = WHOLE if given["atten_mask"] is None else masks.get(given["atten_mask"].ndim, WHOLE)
    inputs["pse"] = WHOLE if given["pse"] is None else biases.get(given["pse"].ndim, WHOLE)
    if given["keep_prob"] < 1 or given["padding_mask"] is not None or given.get("dropout_mask") is not None:
        return inputs, [], {}
    if layout == "TND" and given["softmax_layout"] != "TND":
        return inputs, [], {}  # the numbers of softmax_max lie otherwise than its shape says
    heads, size = given["head_num"], given["query"].shape[query.index("N")]
    few = given["key"].shape[key.index("N")] * heads // size
    across = any(given[name] for name in ("prefix", "actual_seq_qlen", "actual_seq_kvlen"))
    return inputs, ["N"] if across or "B" not in query else ["B", "N"], {"N": (heads, few)}


_LISTS = ("prefix", "actual_seq_qlen", "actual_seq_kvlen")


def _with_own_heads(op, args, kwargs):
    """Attention takes the number of heads, of which a rank has its own."""
    dispatcher = DTensor._op_dispatcher
    info = dispatcher.unwrap_to_op_info(op, args, kwargs)
    if any(info.local_kwargs.get(name) for name in _LISTS):  # lists are no part of the key under which rules are kept
        info.output_sharding = dispatcher.sharding_propagator.propagate_op_sharding_non_cached(info.schema)
    else:
        dispatcher.sharding_propagator.propagate(info)
    sharding = info.output_sharding
    if sharding.needs_redistribute:
        dispatcher.redistribute_local_args(info, sharding.redistribute_schema, sharding.use_val_from_redistribute_schema)
        _redistribute_keywords(op, args, kwargs, info)
    local = list(info.local_args)
    heads = [argument.name for argument in op._schema.arguments].index("head_num")
    dim = _heads_first(local[heads + 1]).index("N")  # the layout follows
    local[heads] = local[heads] * local[0].shape[dim] // args[0].shape[dim]
    return dispatcher.wrap(op(*local, **info.local_kwargs), sharding.output_spec)


def _redistribute_keywords(op, args, kwargs, info) -> None:
    """Tensors given by name, which upstream leaves as they are, to the labels that query is split along."""
    arguments = op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | kwargs
    given |= {argument.name: argument.default_value for argument in arguments if argument.name not in given}
    labels = _attention_gradient(given).inputs
    query = info.output_sharding.redistribute_schema.args_schema[0].placements
    split = [labels["query"][placement.dim] if placement.is_shard() else None for placement in query]
    for name, tensor in kwargs.items():
        if isinstance(tensor, DTensor):
            places = [_place(labels.get(name, WHOLE), tensor.shape, label, Replicate()) for label in split]
            spec = DTensorSpec(tensor.device_mesh, tuple(places), tensor_meta=tensor._spec.tensor_meta)
            info.local_kwargs[name] = redistribute_local_tensor(info.local_kwargs[name], tensor._spec, spec)


RULES: dict[str, Callable[[dict], Tensors]] = {
    "npu_rms_norm": _rms_norm("input", outputs=2),
    "npu_gemma_rms_norm": _rms_norm("input", outputs=2),
    "npu_rms_norm_backward": _rms_norm_gradient,
    "npu_add_rms_norm": _rms_norm("x1", "x2", outputs=3),
    "npu_swiglu": _gate("input"),
    "npu_swiglu_backward": _gate("grad_output", "input"),
    "npu_geglu": _gate("input", outputs=2),
    "npu_geglu_grad": _gate("grad_output", "input", "gelu"),
    "npu_rotary_mul": _rotary("input"),
    "npu_rotary_mul_backward": _rotary_gradient,
    "npu_apply_rotary_pos_emb": _rotary("query", "key"),
    "npu_fusion_attention": _attention,
    "npu_fusion_attention_grad": _attention_gradient,
    "npu_gelu": _alike("input"),
    "npu_gelu_backward": _alike("grad_output", "input"),
    "fast_gelu": _alike("input"),
    "npu_fast_gelu": _alike("input"),
    "npu_fast_gelu_backward": _alike("grad", "input"),
    "npu_silu": _alike("input"),
    "npu_silu_backward": _alike("grad_output", "x0", "x1"),
    "npu_dtype_cast": _alike("input"),
    "npu_dtype_cast_backward": _alike("grad"),
    "npu_moe_token_permute": _hidden(["RH", ""], tokens="TH"),
    "npu_moe_token_permute_grad_v2": _hidden(["TH"], grad_permuted_tokens="RH"),
    "npu_moe_token_unpermute": _hidden(["TH"], permuted_tokens="RH"),
    "npu_moe_token_unpermute_grad": _hidden(["RH", "TC"], gradients=True, permuted_tokens="RH", grad_unpermuted_tokens="TH"),
}
