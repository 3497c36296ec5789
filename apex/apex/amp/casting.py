"""O1: operators cast their inputs. The lists are those of torch.autocast; batch norm modules are added to its float32 ones.

Autocast is on for the calling thread from amp.initialize() on. Functions of the user's are cast by decorators or by name.
"""

from functools import wraps

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_leaves, tree_map_only

_active: dict = {"device": None, "user_cast_preferred": False}


def enable(device: str, user_cast_preferred: bool) -> None:
    """Turns casting on. The cache of cast weights is off: nothing marks the end of a step, at which it would be emptied."""
    disable()
    _active.update(device=device, user_cast_preferred=bool(user_cast_preferred))
    torch.set_autocast_dtype(device, torch.float16)
    torch.set_autocast_enabled(device, True)
    torch.set_autocast_cache_enabled(False)
    _apply_registrations()


def disable() -> None:
    if _active["device"] is None:
        return
    torch.set_autocast_enabled(_active["device"], False)
    torch.set_autocast_cache_enabled(True)
    _active["device"] = None
    for module, name, original in reversed(_patched):
        setattr(module, name, original)
    _patched.clear()


def disable_casts():
    """A context in which O1 casts nothing."""
    return torch.autocast(_active["device"] or "cpu", enabled=False)


def cast_batch_norm_inputs(model: torch.nn.Module) -> None:
    """Batch norm computes in float32 and returns float32; the next convolution casts as it needs."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.register_forward_pre_hook(_inputs_to_float32)


def _inputs_to_float32(module, inputs):
    return tree_map_only(torch.Tensor, lambda t: t.float() if t.is_floating_point() else t, inputs)


def _decorator(choose_dtype):
    def decorate(function):
        @wraps(function)
        def cast_and_call(*args, **kwargs):
            if _active["device"] is None or not torch.is_autocast_enabled(_active["device"]):
                return function(*args, **kwargs)
            dtype = choose_dtype((args, kwargs))
            args, kwargs = tree_map_only(
                torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, (args, kwargs)
            )
            with disable_casts():
                return function(*args, **kwargs)

        return cast_and_call

    return decorate


def _widest(arguments) -> torch.dtype:
    tensors = [t for t in tree_leaves(arguments) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    return torch.float32 if any(t.dtype != torch.float16 for t in tensors) else torch.float16


half_function = _decorator(lambda _: torch.float16)
float_function = _decorator(lambda _: torch.float32)
promote_function = _decorator(_widest)

_registered: list = []
_patched: list = []


def _registrar(decorate):
    def register(module, name: str) -> None:
        if not hasattr(module, name):
            raise ValueError(f"No function named {name} in module {module}.")
        _registered.append((module, name, decorate))

    return register


register_half_function = _registrar(half_function)
register_float_function = _registrar(float_function)
register_promote_function = _registrar(promote_function)


def _apply_registrations() -> None:
    """Wraps the registered functions. One that torch's lists name is left to them unless user_cast_preferred is set."""
    builtin = {torch, torch.Tensor, torch.nn.functional, torch._C._nn}
    key = {"npu": "AutocastPrivateUse1"}.get(_active["device"], "Autocast" + _active["device"].upper())
    listed = {
        name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)
    }
    for module, name, decorate in _registered:
        if module in builtin and name in listed and not _active["user_cast_preferred"]:
            continue
        original = getattr(module, name)
        setattr(module, name, decorate(original))
        _patched.append((module, name, original))
