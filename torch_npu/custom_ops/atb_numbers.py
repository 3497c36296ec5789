"""Operators torch.ops.atb.* that are no attention: a product, quantised numbers, choice of experts."""

import torch

npu = torch.ops.npu


def _npu_matmul_add_fp32(x, weight, C):
    """C += x.t() @ weight, both [tokens, ...], multiplied and added up in float32."""
    operator = "_npu_matmul_add_fp32"
    if C.dtype != torch.float32:
        raise ValueError(f"{operator}: C is {C.dtype}, expected torch.float32")
    if x.dtype != weight.dtype:
        raise ValueError(f"{operator}: weight is {weight.dtype}, expected the type of x, {x.dtype}")
    if x.dim() != 2 or weight.dim() != 2 or len(x) != len(weight):
        raise ValueError(f"{operator}: x and weight have the shapes {tuple(x.shape)} and {tuple(weight.shape)}, expected as many rows")
    if tuple(C.shape) != (x.shape[1], weight.shape[1]):
        raise ValueError(f"{operator}: C has the shape {tuple(C.shape)}, expected {(x.shape[1], weight.shape[1])}")
    if not x.numel() or not weight.numel():
        return
    if x.dtype == torch.float32:
        C.addmm_(x.t(), weight)
    else:  # one group, of all rows
        npu.npu_grouped_matmul_add_(C, x, weight, torch.full((1,), len(x), dtype=torch.int64, device=x.device))


def _npu_quantize_per_tensor(x, scale, zero_point, y):
    """round(x / scale) + zero_point within int8. scale and zero_point have one number, or those of the last dimensions of x."""
    if y.dtype != torch.int8 or y.shape != x.shape:
        raise ValueError(f"_npu_quantize_per_tensor: y is {y.dtype} of the shape {tuple(y.shape)}, expected int8 of {tuple(x.shape)}")
    steps = (x / scale).round_()
    y.copy_((steps + zero_point if zero_point.numel() else steps).clamp_(-128, 127))


def _npu_group_topk(self, k=0, group_num=1, n=1):
    """Keeps the k groups of each row, [tokens, experts], whose n largest numbers have the largest sum, and zeros the others in place."""
    operator = "_npu_group_topk"
    if self.dim() != 2 or group_num < 1 or self.shape[1] % group_num:
        raise ValueError(f"{operator}: group_num is {group_num}, expected groups of equal size of {tuple(self.shape)}[1] experts")
    if not 1 <= k <= group_num:
        raise ValueError(f"{operator}: k is {k}, expected 1 to the {group_num} groups")
    if not 1 <= n <= self.shape[1] // group_num:
        raise ValueError(f"{operator}: n is {n}, expected 1 to the {self.shape[1] // group_num} experts of a group")
    groups = self.unflatten(1, (group_num, -1))
    order = groups.float().topk(n).values.sum(-1).argsort(dim=-1, descending=True, stable=True)
    groups.scatter_(1, order[:, k:, None].expand(-1, -1, groups.shape[2]), 0)
