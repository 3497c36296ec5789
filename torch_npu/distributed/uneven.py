"""Collectives in which ranks have shares of different size."""

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from torch_npu.distributed.backend import hccl_backend


def _finish(work, async_op: bool):
    if async_op:
        return work
    work.wait()
    return None


def all_gather_into_tensor_uneven(output, input, output_split_sizes=None, group=None, async_op=False):
    """Gathers every rank's input into output; output_split_sizes[i] rows of it come from rank i (default: equal shares)."""
    work = hccl_backend(group).allgather_uneven(output, input, output_split_sizes or [], async_op)
    return _finish(work, async_op)


def reduce_scatter_tensor_uneven(output, input, input_split_sizes=None, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces input over the ranks; rank i gets input_split_sizes[i] rows of the result (default: equal shares)."""
    op = op if isinstance(op, ReduceOp) else ReduceOp(op)
    work = hccl_backend(group).reduce_scatter_uneven(output, input, input_split_sizes or [], op, async_op)
    return _finish(work, async_op)


def all_to_all_vc(output, input, send_count_matrix, group=None, async_op=False):
    """All-to-all in which rank i sends send_count_matrix[i][j] rows to rank j; all ranks give the same matrix."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    matrix = torch.as_tensor(send_count_matrix, device="cpu").reshape(ranks, ranks)
    received = matrix[:, rank].tolist()
    sent = matrix[rank].tolist()
    return dist.all_to_all_single(output, input, received, sent, group=group, async_op=async_op)
