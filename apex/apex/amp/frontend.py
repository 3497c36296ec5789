"""amp.initialize and the state that it leaves: options and one loss scaler per loss."""

import torch

from apex.amp import casting, model as model_casts, optimizer as amp_optimizer
from apex.amp.properties import resolve
from apex.amp.scaler import DYNAMIC_DEFAULTS, LossScaler

_state: dict = {"properties": None, "enabled": False, "scalers": [], "verbosity": 1}


def initialize(
    models,
    optimizers=None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type=None,
    patch_torch_functions=None,
    keep_batchnorm_fp32=None,
    master_weights=None,
    loss_scale=None,
    cast_model_outputs=None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale=None,
    max_loss_scale: float = 2.0**24,
    dynamic_init_scale: float = 2.0**16,
    scale_growth_factor: float = 2.0,
    scale_backoff_factor: float = 0.5,
    scale_window: int = 2000,
    combine_grad=None,
    combine_ddp=None,
    ddp_replica_count: int = 4,
    user_cast_preferred=None,
    check_combined_tensors=None,
):
    """Prepares models and optimisers for an opt level and returns them in the shape in which they were given.

    Call it after the model is on its device and before it is wrapped for distributed training.
    """
    arguments = dict(locals())
    properties = resolve(**{name: value for name, value in arguments.items() if name not in ("models", "optimizers")})
    scaler_options = {name: arguments[name] for name in DYNAMIC_DEFAULTS}
    casting.disable()
    _state.update(properties=properties, enabled=enabled, verbosity=verbosity)
    _state["scalers"] = [LossScaler(properties.loss_scale, **scaler_options) for _ in range(num_losses)]
    if enabled:
        model_list = models if isinstance(models, (list, tuple)) else [models]
        optimizer_list = _as_list(optimizers)
        _check_types(model_list, optimizer_list)
        for model in model_list:
            _prepare(model, properties, cast_model_outputs)
        if properties.patch_torch_functions and model_list:
            casting.enable(_device_of(model_list[0]), properties.user_cast_preferred)
        for optimizer in optimizer_list:
            amp_optimizer.attach(optimizer, properties)
    return models if optimizers is None else (models, optimizers)


def _as_list(optimizers) -> list:
    if optimizers is None:
        return []
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def _check_types(models, optimizers) -> None:
    for model in models:
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"models must be torch.nn.Modules, not {type(model).__name__}")
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise RuntimeError("pass the model to amp.initialize() before it is wrapped in DistributedDataParallel")
        for name, parameter in model.named_parameters():
            if parameter.is_floating_point() and parameter.dtype != torch.float32:
                raise RuntimeError(f"Found param {name} with type {parameter.dtype}, expected float32: "
                                   "amp.initialize() casts the model itself, do not call .half() on it")
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizers must be torch.optim.Optimizers, not {type(optimizer).__name__}")


def _prepare(model: torch.nn.Module, properties, output_dtype) -> None:
    if properties.cast_model_type is not None:
        keep = bool(properties.keep_batchnorm_fp32)
        model_casts.cast(model, properties.cast_model_type, keep, output_dtype or torch.float32)
    if properties.patch_torch_functions:
        casting.cast_batch_norm_inputs(model)


def _device_of(model: torch.nn.Module) -> str:
    return next((p.device.type for p in model.parameters()), "npu")


def is_initialized() -> bool:
    return _state["properties"] is not None


def is_enabled() -> bool:
    return _state["enabled"]


def scaler(loss_id: int) -> LossScaler:
    if not 0 <= loss_id < len(_state["scalers"]):
        raise IndexError(f"loss_id {loss_id}: amp.initialize() was told num_losses={len(_state['scalers'])}")
    return _state["scalers"][loss_id]


def say(text: str) -> None:
    if _state["verbosity"]:
        print(text)


def state_dict(destination: dict | None = None) -> dict:
    """The loss scales: {"loss_scaler0": {"loss_scale": ..., "unskipped": ...}, ...}."""
    destination = {} if destination is None else destination
    for index, scaler in enumerate(_state["scalers"]):
        destination[f"loss_scaler{index}"] = scaler.state_dict()
    return destination


def load_state_dict(state: dict) -> None:
    """Restores the loss scales; call it after amp.initialize() with as many losses as were saved."""
    expected = [f"loss_scaler{index}" for index in range(len(_state["scalers"]))]
    if sorted(state) != sorted(expected):
        raise RuntimeError(f"the state holds {sorted(state)}, but amp.initialize() made {expected}")
    for scaler, name in zip(_state["scalers"], expected):
        scaler.load_state_dict(state[name])
