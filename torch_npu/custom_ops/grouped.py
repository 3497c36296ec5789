"""Matrix products in groups, as mixtures of experts need them."""

import torch
from torch._subclasses.fake_tensor import is_fake

from torch_npu.custom_ops import refuse


def group_sizes(group_list, kind: int, total: int) -> list[int]:
    """Rows per group of a list of ends (kind 0), of sizes (1), or of pairs of group and size (2)."""
    if isinstance(group_list, torch.Tensor):
        if group_list.is_meta or is_fake(group_list):  # shapes do not depend on the values
            return [total] + [0] * (group_list.shape[0] - 1)
        group_list = group_list.tolist()
    if kind == 0:
        return [end - begin for begin, end in zip([0, *group_list], group_list)]
    if kind == 1:
        return list(group_list)
    raise NotImplementedError(f"group_list_type {kind}: use 0 (ends) or 1 (sizes)")


def npu_grouped_matmul(x, weight, *, bias=None, scale=None, offset=None, antiquant_scale=None, antiquant_offset=None,
                       per_token_scale=None, group_list=None, activation_input=None, activation_quant_scale=None,
                       activation_quant_offset=None, split_item=0, group_type=None, group_list_type=0, act_type=0,
                       tuning_config=None, output_dtype=None, x_dtype=None, weight_dtype=None, scale_dtype=None,
                       per_token_scale_dtype=None):
    """x[i] @ weight[i] (+ bias[i]) for every group i.

    group_type -1: x holds the groups. 0: the rows of one x are divided by group_list. 2: its columns are, and each group gives
    a result. split_item 2 and 3 join the results to one tensor.
    """
    refuse("npu_grouped_matmul", scale=scale, offset=offset, antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
           per_token_scale=per_token_scale, activation_input=activation_input, activation_quant_scale=activation_quant_scale,
           activation_quant_offset=activation_quant_offset, act_type=act_type)
    kind = -1 if group_type is None else group_type
    if kind == 2:
        return [_products_of_columns(x[0], weight[0], group_sizes(group_list, group_list_type or 0, x[0].shape[1]))]
    weights = list(weight[0]) if len(weight) == 1 and weight[0].dim() == 3 else list(weight)
    pieces = list(x)
    if len(x) == 1 and len(weights) > 1:
        pieces = list(x[0].split(group_sizes(group_list, group_list_type or 0, x[0].shape[0])))
    if len(pieces) != len(weights):
        raise ValueError(f"npu_grouped_matmul: {len(pieces)} groups of rows, but {len(weights)} weights")
    biases = [None] * len(weights) if not bias else list(bias[0]) if len(bias) == 1 and bias[0].dim() == 2 else list(bias)
    results = [a @ w if b is None else a @ w + b.to(a.dtype) for a, w, b in zip(pieces, weights, biases)]
    joined = [_join(results, x, weights)] if (split_item or 0) in (2, 3) else results
    return joined if output_dtype is None else [result.to(dtype_of(output_dtype)) for result in joined]


def _join(results, x, weights):
    """Rows behind the last group, if the groups do not cover x, are zeros."""
    joined = torch.cat(results)
    missing = x[0].shape[0] - joined.shape[0] if len(x) == 1 else 0
    return torch.cat([joined, joined.new_zeros(missing, weights[0].shape[-1])]) if missing else joined


def _products_of_columns(x, weight, sizes):
    return torch.stack([a @ b for a, b in zip(x.split(sizes, 1), weight.split(sizes, 0))])


def dtype_of(number: int):
    from torch_npu.custom_ops.cast import dtype_of as lookup

    return lookup(number)


def npu_grouped_matmul_List(x, weight, *, group_list=None, output_dtype=None, **options):
    results = npu_grouped_matmul(x, weight, group_list=group_list, **options)
    return results if output_dtype is None else [result.to(output_dtype) for result in results]


_ACTIVATIONS = {
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": lambda x: torch.nn.functional.silu(x),
    "geglu": lambda x: torch.mul(x.chunk(2, -1)[0], torch.nn.functional.gelu(x.chunk(2, -1)[1])),
    "swiglu": lambda x: torch.mul(torch.nn.functional.silu(x.chunk(2, -1)[0]), x.chunk(2, -1)[1]),
    "reglu": lambda x: torch.mul(x.chunk(2, -1)[0], torch.relu(x.chunk(2, -1)[1])),
}


def npu_ffn(x, weight1, weight2, activation, *, expert_tokens=None, expert_tokens_index=None, bias1=None, bias2=None, **options):
    """activation(x w1 + b1) w2 + b2; with expert_tokens, for each expert on its rows."""
    refuse("npu_ffn", **{name: value is not None for name, value in options.items() if name != "inner_precise"})
    if activation not in _ACTIVATIONS:
        raise ValueError(f"npu_ffn: activation must be one of {', '.join(_ACTIVATIONS)}, not {activation!r}")

    def layer(rows, w1, b1, w2, b2):
        hidden = rows @ w1 if b1 is None else rows @ w1 + b1.to(rows.dtype)
        result = _ACTIVATIONS[activation](hidden) @ w2
        return result if b2 is None else result + b2.to(rows.dtype)

    if expert_tokens is None and expert_tokens_index is None:
        return layer(x, weight1, bias1, weight2, bias2)
    sizes = group_sizes(expert_tokens or expert_tokens_index, 1 if expert_tokens else 0, x.shape[0])
    return torch.cat([
        layer(rows, weight1[e], None if bias1 is None else bias1[e], weight2[e], None if bias2 is None else bias2[e])
        for e, rows in enumerate(x.split(sizes))
    ])


def npu_grouped_matmul_add_(self, x, weight, group_list, *, transpose_x=True, transpose_weight=False, group_type=2, group_list_type=0):
    """Adds xᵀ weight of each group of rows to that group's part of self."""
    refuse("npu_grouped_matmul_add", transpose_x=not transpose_x, transpose_weight=transpose_weight, group_type=group_type != 2)
    sizes = group_sizes(group_list, group_list_type or 0, x.shape[0])
    products = torch.stack([a.float().t() @ b.float() for a, b in zip(x.split(sizes), weight.split(sizes))])
    return self.add_(products.view(self.shape).to(self.dtype))


def npu_grouped_matmul_add(self, x, weight, group_list, **options):
    return npu_grouped_matmul_add_(self.clone(), x, weight, group_list, **options)


def npu_transpose_batchmatmul(input, weight, *, bias=None, scale=None, perm_x1=None, perm_x2=None, perm_y=None, batch_split_factor=1):
    """permute(permute(input) @ permute(weight)); the permutation of the result must be given."""
    refuse("npu_transpose_batchmatmul", bias=bias is not None, scale=scale is not None,
           batch_split_factor=batch_split_factor not in (None, 1))
    if not perm_y:
        raise NotImplementedError("npu_transpose_batchmatmul needs perm_y")
    left = input.permute(perm_x1) if perm_x1 else input
    right = weight.permute(perm_x2) if perm_x2 else weight
    return (left @ right).permute(perm_y).contiguous()
