"""Attention that is split over ranks equals attention in one process on the CPU. Runs in the ranks."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh

SHAPE = (4, 4, 16, 8)  # batch, heads, sequence, numbers of a head
BIASES = {"none": None, "matrix": (16, 16), "for each batch": (4, 1, 16, 16), "for each head": (1, 4, 16, 16), "whole": (4, 4, 16, 16)}


def alone(bias=None, causal=False):
    """(query, key, value, gradient of the output), (output, gradients of query, key and value), bias."""
    generator = torch.Generator().manual_seed(3)
    *given, grad = (torch.randn(SHAPE, generator=generator) for _ in range(4))
    bias = torch.randn(bias, generator=generator) if bias else None
    query, key, value = (tensor.clone().requires_grad_() for tensor in given)
    out = F.scaled_dot_product_attention(query, key, value, bias, is_causal=causal)
    out.backward(grad)
    return [*given, grad], [out.detach(), query.grad, key.grad, value.grad], bias


def same(results, expected):
    for result, right in zip(results, expected, strict=True):
        torch.testing.assert_close(result.cpu(), right, rtol=1e-4, atol=1e-5)


def of_dtensors(dim, bias):
    """Split along the batch or the heads, nothing moves; a split that attention cannot have is undone first."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    placement = Replicate() if dim is None else Shard(dim)
    given, expected, bias = alone(BIASES[bias])
    query, key, value, grad = (distribute_tensor(tensor.npu(), mesh, [placement]) for tensor in given)
    for tensor in (query, key, value):
        tensor.requires_grad_()
    mask = None if bias is None else distribute_tensor(bias.npu(), mesh, [Replicate()])
    out = F.scaled_dot_product_attention(query, key, value, mask)
    assert out.placements == ((placement,) if dim in (None, 0, 1) else (Replicate(),))
    out.backward(grad)
    same([tensor.full_tensor() for tensor in (out.detach(), query.grad, key.grad, value.grad)], expected)


def along_the_sequence(causal, rotate, balanced):
    """torch's context parallelism: every rank has a part of the sequence, and keys and values go round."""
    from torch.distributed.tensor.experimental import _attention, context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    given, expected, _ = alone(causal=causal)
    buffers = [tensor.npu() for tensor in given]
    _attention.set_rotate_method(rotate)
    _attention._cp_options.enable_load_balance = balanced
    with context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2] * 4):
        leaves = [buffer.detach().requires_grad_() for buffer in buffers[:3]]
        out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
        assert out.shape[2] == SHAPE[2] // dist.get_world_size()
        out.backward(buffers[3])
        results = context_parallel_unshard(mesh, [out.detach(), *[leaf.grad for leaf in leaves]], [2] * 4)
    same(results, expected)
    whole = F.scaled_dot_product_attention(*[tensor.npu() for tensor in given[:3]], is_causal=causal)
    same([whole], expected[:1])  # and it ends with the block


def a_mask_along_the_sequence():
    from torch.distributed.tensor.experimental import context_parallel

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    query = torch.randn(SHAPE).npu()
    mask = torch.randn(1, 1, SHAPE[2] // dist.get_world_size(), SHAPE[2]).npu()
    with context_parallel(mesh, buffers=[query], buffer_seq_dims=[2]):
        try:
            F.scaled_dot_product_attention(query, query, query, mask)
        except Exception as error:  # whoever sees it first refuses it
            return str(error)
    return ""
