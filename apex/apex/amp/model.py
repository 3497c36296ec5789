"""O2 and O3: the model is cast as a whole; inputs are cast on the way in, outputs on the way out."""

import types
from functools import wraps

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map_only


def cast(model: torch.nn.Module, dtype: torch.dtype, keep_batchnorm_fp32: bool, output_dtype: torch.dtype) -> None:
    """Casts parameters and buffers, and the tensors that enter and leave model.forward."""
    for module in model.modules():
        if keep_batchnorm_fp32 and isinstance(module, _BatchNorm) and module.affine:
            _run_in_float32(module)
        else:
            _cast_own_tensors(module, dtype)
    forward = model.forward

    @wraps(forward)
    def cast_forward(self, *args, **kwargs):
        args, kwargs = _to((args, kwargs), dtype)
        return _to(forward(*args, **kwargs), output_dtype)

    model.forward = types.MethodType(cast_forward, model)
    if dtype != torch.float32:
        model._register_state_dict_hook(_save_as_float32)


def _to(tree, dtype: torch.dtype):
    return tree_map_only(torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, tree)


def _cast_own_tensors(module: torch.nn.Module, dtype: torch.dtype) -> None:
    for parameter in module.parameters(recurse=False):
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
            if parameter.grad is not None:
                parameter.grad.data = parameter.grad.data.to(dtype)
    for name, buffer in module.named_buffers(recurse=False):
        if buffer.is_floating_point():
            module._buffers[name] = buffer.to(dtype)


def _run_in_float32(module: _BatchNorm) -> None:
    module.float()
    module.register_forward_pre_hook(lambda _, inputs: (inputs[0].float(), *inputs[1:]))
    module.register_forward_hook(lambda _, inputs, output: output.half())


def _save_as_float32(module, state, prefix, metadata) -> None:
    """Checkpoints do not depend on the opt level they were written at."""
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and value.dtype == torch.float16:
            state[name] = value.float()
