"""Operators that only an NPU has, on DTensors: whatever dimension is split, the results are those of whole tensors. Runs in the ranks."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

NPU = torch.ops.npu


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape)))


def with_tensor(name):
    """Attention with one tensor more, given by name."""
    return lambda q, k, v, tensor: attention("BNSD")(q, k, v, **{name: tensor})


def attention(layout, **options):
    return lambda q, k, v, **tensors: NPU.npu_fusion_attention(q, k, v, 4, layout, scale=0.3, **tensors, **options)


ROWS, HEADS, FEW, TOKENS, FLAT = normal(4, 6, 8), normal(4, 4, 6, 8), normal(4, 2, 6, 8), normal(6, 4, 8), normal(4, 6, 32)
ENDS = {"actual_seq_qlen": [2, 6], "actual_seq_kvlen": [2, 6]}
HIDDEN = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(1)) > 0.6

# name: the call, its tensors (those given by name last), and which of them have gradients
CASES = {
    "npu_rms_norm": (NPU.npu_rms_norm, [ROWS, normal(8)], (0, 1)),
    "npu_rms_norm of two dimensions": (NPU.npu_rms_norm, [ROWS, normal(6, 8)], (0, 1)),
    "npu_gemma_rms_norm": (NPU.npu_gemma_rms_norm, [ROWS, normal(8)], ()),
    "npu_add_rms_norm": (NPU.npu_add_rms_norm, [ROWS, normal(4, 6, 8) + 1, normal(8)], ()),
    "npu_swiglu": (NPU.npu_swiglu, [ROWS], (0,)),
    "npu_swiglu of the first dimension": (lambda x: NPU.npu_swiglu(x, 0), [ROWS], (0,)),
    "npu_geglu": (NPU.npu_geglu, [ROWS], (0,)),
    "npu_rotary_mul": (NPU.npu_rotary_mul, [normal(4, 6, 4, 8), normal(1, 6, 1, 8), normal(1, 6, 1, 8)], (0, 1, 2)),
    "npu_apply_rotary_pos_emb": (
        NPU.npu_apply_rotary_pos_emb,
        [tensor.half() for tensor in (normal(2, 6, 4, 128), normal(2, 6, 2, 128), normal(2, 6, 1, 128), normal(2, 6, 1, 128))],
        (),
    ),
    "npu_gelu": (NPU.npu_gelu, [ROWS], (0,)),
    "npu_gelu by tanh": (lambda x: NPU.npu_gelu(x, approximate="tanh"), [ROWS], (0,)),
    "npu_fast_gelu": (NPU.npu_fast_gelu, [ROWS], (0,)),
    "npu_silu": (NPU.npu_silu, [ROWS], (0,)),
    "npu_dtype_cast": (lambda x: NPU.npu_dtype_cast(x, torch.float16), [ROWS], (0,)),
    "attention": (attention("BNSD"), [HEADS, HEADS, HEADS], (0, 1, 2)),
    "attention of few heads": (attention("BNSD"), [HEADS, FEW, FEW], (0, 1, 2)),
    "attention of BSH": (attention("BSH"), [FLAT, FLAT, FLAT], (0, 1, 2)),
    "attention of BSND": (attention("BSND"), [normal(4, 6, 4, 8)] * 3, (0, 1, 2)),
    "attention with a mask": (with_tensor("atten_mask"), [HEADS, HEADS, HEADS, HIDDEN], (0, 1, 2)),
    "attention with a bias": (
        lambda q, k, v, p: attention("BNSD")(q, k, v, pse=p),
        [HEADS, HEADS, HEADS, normal(4, 4, 6, 6)],
        (0, 1, 2, 3),
    ),
    "attention with one bias": (
        lambda q, k, v, p: attention("BNSD")(q, k, v, pse=p),
        [HEADS, HEADS, HEADS, normal(1, 4, 6, 6)],
        (0, 1, 2, 3),
    ),
    "attention with a sink": (with_tensor("sink"), [HEADS, HEADS, HEADS, normal(4)], (0, 1, 2, 3)),
    "attention of TND": (attention("TND", **ENDS), [TOKENS] * 3, (0, 1, 2)),
    "attention of TND and its softmax": (attention("TND", softmax_layout="TND", **ENDS), [TOKENS] * 3, (0, 1, 2)),
    "npu_moe_token_permute": (
        NPU.npu_moe_token_permute,
        [normal(6, 8), torch.tensor([[0, 1], [1, 2], [3, 0], [2, 3], [1, 0], [0, 2]], dtype=torch.int32)],
        (0,),
    ),
    "npu_moe_token_unpermute": (
        NPU.npu_moe_token_unpermute,
        [normal(12, 8), torch.randperm(12, generator=torch.Generator().manual_seed(2)).int(), normal(6, 2).abs()],
        (0, 2),
    ),
}


def splits_as_whole(name):
    """All floating-point tensors that have the first one's dimensions are split along one of them, and along none."""
    call, tensors, with_gradient = CASES[name]
    for dim in (None, *range(tensors[0].ndim)):
        _compare(call, tensors, with_gradient, dim)


def same(result, expected, dim):
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, msg=lambda text: f"dimension {dim}: {text}")


def _compare(call, tensors, with_gradient, dim):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("npu", (dist.get_world_size(),))

    def placement(tensor):
        fits = dim is not None and tensor.is_floating_point() and tensor.ndim == tensors[0].ndim and tensor.shape[dim] > 1
        return [Shard(dim) if fits else Replicate()]

    whole = [tensor.npu().requires_grad_(i in with_gradient) for i, tensor in enumerate(tensors)]
    parts = [distribute_tensor(t.npu(), mesh, placement(t)).requires_grad_(i in with_gradient) for i, t in enumerate(tensors)]
    expected, result = call(*whole), call(*parts)
    expected, result = (value[0] if isinstance(value, tuple) else value for value in (expected, result))
    same(result.full_tensor(), expected, dim)
    if with_gradient:
        gradient = normal(*expected.shape).npu().to(expected.dtype)
        expected.backward(gradient)
        result.backward(distribute_tensor(gradient, mesh, [Replicate()]))
    for i in with_gradient:
        torch.testing.assert_close(
            parts[i].grad.full_tensor(), whole[i].grad, rtol=1e-4, atol=1e-4, msg=lambda text: f"dimension {dim}: {text}"
        )


def stays_where_it_is():
    """No collective runs for attention of heads that are split, nor for the norm of a sequence that is."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    heads = distribute_tensor(HEADS.npu(), mesh, [Shard(1)])
    rows, gamma = distribute_tensor(ROWS.npu(), mesh, [Shard(1)]), distribute_tensor(normal(8).npu(), mesh, [Replicate()])
    with CommDebugMode() as counts:
        assert NPU.npu_fusion_attention(heads, heads, heads, 4, "BNSD")[0].placements == (Shard(1),)
        assert NPU.npu_rms_norm(rows, gamma)[0].placements == (Shard(1),)
    assert counts.get_total_counts() == 0
