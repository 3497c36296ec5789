"""In place of vllm-ascend's compiled module, in its folder: what a dense model needs of its kernels, from torch and torch_npu.

It is imported under the name vllm_ascend.vllm_ascend_C, in each process that serves, before a model runs. fla_npu, kernels of linear
attention that are not on PyPI, has names here and no kernels: vllm-ascend imports them for every model.
"""

import functools
import sys
import types

import torch
from vllm_ascend.worker import block_table

import torch_npu

operators = torch.library.Library("_C_ascend", "DEF")
operators.define(
    "npu_add_rms_norm_bias(Tensor x1, Tensor x2, Tensor gamma, Tensor? beta=None, float epsilon=1e-6) -> (Tensor, Tensor, Tensor)"
)
operators.define("device_print(str text) -> ()")
operators.define("device_print_tensor(Tensor value) -> ()")


@torch.library.impl(operators, "device_print", "CompositeExplicitAutograd")
@torch.library.impl(operators, "device_print_tensor", "CompositeExplicitAutograd")
def device_print(value):
    print(value)


@torch.library.impl(operators, "npu_add_rms_norm_bias", "PrivateUse1")
def add_rms_norm_bias(x1, x2, gamma, beta=None, epsilon=1e-6):
    y, deviation, total = torch_npu.npu_add_rms_norm(x1, x2, gamma, epsilon)
    return (y if beta is None else y + beta), deviation, total


@torch.library.impl(operators, "npu_add_rms_norm_bias", "Meta")
def add_rms_norm_bias_shapes(x1, x2, gamma, beta=None, epsilon=1e-6):
    return torch.empty_like(x1), x1.new_empty((*x1.shape[:-1], 1), dtype=torch.float32), torch.empty_like(x1)


class SlotMapping:
    """The Triton kernel, for caches that are not divided between ranks: each token's place in the cache."""

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid[0] - 1)

    @staticmethod
    def launch(requests, tokens, _most, starts, positions, table, _stride, block, slots, *, TOTAL_CP_WORLD_SIZE, IS_CIRCULAR, PAD_ID, **_):
        if TOTAL_CP_WORLD_SIZE != 1 or IS_CIRCULAR:
            raise NotImplementedError("compute_slot_mapping is here for caches of one rank that are not circular")
        token = torch.arange(tokens, device=starts.device, dtype=starts.dtype)
        request = torch.searchsorted(starts[1 : requests + 1].contiguous(), token, right=True)
        positions = positions[:tokens].long()
        slot = table[request.clamp(max=requests - 1), positions // block] * block + positions % block
        slots.fill_(PAD_ID)
        slots[:tokens] = torch.where(request < requests, slot, PAD_ID).to(slots.dtype)


block_table._compute_slot_mapping_kernel = SlotMapping()


def absent_kernels(package: str, names: tuple[str, ...]) -> types.ModuleType:
    def refuse(name, *_, **__):
        raise NotImplementedError(f"{package}.{name} is a compiled kernel that has no reference here")

    module = types.ModuleType(package)
    for name in names:
        setattr(module, name, functools.partial(refuse, name))
    return module


KERNELS = ("causal_conv1d_fn", "causal_conv1d_update", "recurrent_gated_delta_rule", "recurrent_kda", "chunk_kda_fwd")
for package in ("fla_npu", "fla_npu.ops", "fla_npu.ops.ascendc"):
    sys.modules[package] = absent_kernels(package, KERNELS)
