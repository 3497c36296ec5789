"""Names of torch.npu that the official plugin has beside torch.cuda's: tuning, compatibility, handles that an npu lacks."""

from __future__ import annotations

import warnings

from torch_npu._refusal import refuse

__all__ = [
    "are_compatible_impl_enabled",
    "current_blas_handle",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "set_aoe",
    "use_compatible_impl",
]

_compatible = False
_SERVICE = "it talks to a service of CANN's driver that is not published; keep weights secret by other means"

npurt = refuse(
    "torch.npu.npurt", "the runtime is not handed out; use tensor.pin_memory() for host memory and torch.npu.Stream for streams", "")
obfuscation_initialize = refuse(
    "torch.npu.obfuscation_initialize", _SERVICE,
    "hidden_size, tp_rank, cmd, *, data_type=None, model_obf_seed_id=0, data_obf_seed_id=0, thread_num=4, obf_coefficient=1.0")
obfuscation_calculate = refuse("torch.npu.obfuscation_calculate", _SERVICE, "fd, x, param, *, obf_coefficient=1.0")
obfuscation_finalize = refuse("torch.npu.obfuscation_finalize", _SERVICE, "fd_to_close")
set_aoe = refuse("torch.npu.set_aoe", "CANN's tuner takes graphs of its older operator interface, which torch_npu does not call; tune "
                 "models with CANN's own tools", "dump_path")


def use_compatible_impl(is_enable):
    """Whether operators that the official plugin has in two forms take the one that agrees with torch.

    Here every operator agrees with torch: False is kept for are_compatible_impl_enabled(), changes nothing, and warns.
    """
    global _compatible
    if not isinstance(is_enable, bool):
        raise TypeError(f"is_enable must be True or False, but got {is_enable!r}")
    if not is_enable:
        warnings.warn("every operator of torch_npu agrees with torch: use_compatible_impl(False) changes nothing", stacklevel=2)
    _compatible = is_enable


def are_compatible_impl_enabled():
    """What use_compatible_impl() was given; False before, as with the official plugin."""
    return _compatible


def current_blas_handle():
    """None, with a warning: matrix products of an npu have no handle."""
    warnings.warn("an npu has no blas handle", stacklevel=2)
