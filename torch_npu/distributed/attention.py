"""scaled_dot_product_attention of DTensors, and context parallelism: upstream's rules and rings for CUDA's operators, for the one npu has.

Upstream asks by operator and knows the flash, memory-efficient and cuDNN ones; the fused operator of another device has no rule.
"""

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._op_schema import OpSchema, OpStrategy, PlacementList, RuntimeSchemaInfo
from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy, register_op_strategy

FORWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default

_BATCH, _HEADS, _SEQUENCE = 0, 1, 2


def register() -> None:
    register_op_strategy(FORWARD, schema_info=RuntimeSchemaInfo(4))(_forward_strategy)
    register_op_strategy(BACKWARD)(_backward_strategy)


def register_rings(module) -> None:
    """`module`: upstream's context parallelism, which puts the handlers of this table in place while it is on."""
    module.custom_ops |= {FORWARD: _ring, BACKWARD: _ring}


def _forward_strategy(schema: OpSchema) -> OpStrategy:
    bias = schema.args_schema[3] if len(schema.args_schema) > 3 else None
    return _expand(schema, [_forward_placements(dim, bias) for dim in (None, _BATCH, _HEADS)], outputs=9)


def _backward_strategy(schema: OpSchema) -> OpStrategy:
    bias = schema.args_schema[4]
    return _expand(schema, [_backward_placements(dim, bias) for dim in (None, _BATCH, _HEADS)], outputs=4)


def _expand(schema: OpSchema, placements: list[PlacementList], outputs: int) -> OpStrategy:
    mesh = schema.get_mesh_from_args(validate=outputs == 9)  # the forward operator has looked at the meshes
    return expand_to_full_mesh_op_strategy(mesh, schema, placements, input_index=outputs)


def _forward_placements(dim: int | None, bias) -> PlacementList:
    """Of the nine outputs, then of the inputs. Seed and offset are scalars; the other outputs after logsumexp are absent."""
    split = Replicate() if dim is None else Shard(dim)
    return [split, split, *[None] * 7, split, split, split, *_of_bias(dim, bias)]


def _backward_placements(dim: int | None, bias) -> PlacementList:
    """Of the gradients (the bias has none), then of gradient, query, key, value, bias, output, logsumexp, seed and offset."""
    split = Replicate() if dim is None else Shard(dim)
    return [split, split, split, None, split, split, split, split, *_of_bias(dim, bias), split, split, Replicate(), Replicate()]


def _of_bias(dim: int | None, bias) -> PlacementList:
    """The bias is broadcast: it may have fewer dimensions, and one number where the others have many."""
    if not isinstance(bias, OpStrategy):
        return []
    own = None if dim is None else dim - 4 + bias.ndim
    return [Replicate() if own is None or own < 0 or bias.shape[own] == 1 else Shard(own)]


def _ring(op, args, kwargs):
    """The operator on tensors that are split along the sequence: keys and values go round, as upstream has it for flash attention."""
    from torch.distributed.tensor.experimental._context_parallel import _attention

    info = DTensor._op_dispatcher.unwrap_to_op_info(op, args, kwargs)
    names = [argument.name for argument in op._schema.arguments]
    given = dict(zip(names, info.local_args, strict=False)) | info.local_kwargs
    tensors = dict(zip(names, args, strict=False))
    if given.pop("attn_bias", None) is not None:
        raise NotImplementedError("context parallelism does not support attn_mask; is_causal=True is supported")
    given.pop("return_debug_mask", None)
    group = info.compute_mesh.get_group()
    causal = given.pop("is_causal", False)
    if op is FORWARD:
        results = _attention._templated_ring_attention(group, _SEQUENCE, _forward, is_causal=causal, **given)
        query = tensors["query"]
        return (_split_as(query, results[0], query.shape), _split_as(query, results[1], query.shape[:3]), *results[2:])
    grad = given.pop("grad_out")
    results = _attention._templated_ring_attention_backward(
        group, _SEQUENCE, _backward, grad_out=grad, grad_out_name="grad_out", is_causal=causal, **given
    )
    of = [tensors[name] for name in ("query", "key", "value")]
    return (*[_split_as(like, result, like.shape) for like, result in zip(of, results, strict=False)], None)


def _forward(query, key, value, is_causal, dropout_p=0.0, scale=None):
    return FORWARD(query, key, value, None, dropout_p, is_causal, scale=scale)


def _backward(is_causal, **given):
    return BACKWARD(attn_bias=None, is_causal=is_causal, **given)


def _split_as(like: DTensor, local: torch.Tensor, shape) -> DTensor:
    strides = torch.empty(shape, device="meta").stride()
    spec = DTensorSpec(like.device_mesh, like.placements, tensor_meta=TensorMeta(torch.Size(shape), strides, local.dtype))
    return DTensor(local, spec, requires_grad=False)
