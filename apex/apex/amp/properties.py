"""What an opt level means, and which options can be combined with it."""

from dataclasses import dataclass, fields, replace

import torch


@dataclass(frozen=True)
class Properties:
    """The settings of one amp.initialize() call. None: the level does not say, and the feature is off."""

    opt_level: str
    cast_model_type: torch.dtype | None = None
    patch_torch_functions: bool | None = None
    keep_batchnorm_fp32: bool | None = None
    master_weights: bool | None = None
    loss_scale: float | str = 1.0
    combine_grad: bool | None = None
    combine_ddp: bool | None = None
    ddp_replica_count: int = 4
    user_cast_preferred: bool | None = None
    check_combined_tensors: bool | None = None


LEVELS = {
    # float32 throughout
    "O0": Properties("O0", torch.float32, False, None, False, 1.0),
    # float32 model; operators cast their inputs by list
    "O1": Properties("O1", None, True, None, None, "dynamic"),
    # float16 model, float32 batch norm, float32 master weights in the optimiser
    "O2": Properties("O2", torch.float16, False, True, True, "dynamic"),
    # float16 throughout
    "O3": Properties("O3", torch.float16, False, False, False, 1.0),
}


def resolve(opt_level: str, **overrides) -> Properties:
    """The level's settings with the caller's on top; a combination without meaning is a ValueError."""
    if opt_level not in LEVELS:
        raise ValueError(
            f"opt_level {opt_level!r} is none of O0, O1, O2, O3 (a capital letter O and a digit); "
            "O1 and O2 are the mixed precision levels"
        )
    names = {field.name for field in fields(Properties)}
    given = {name: _parse(name, value) for name, value in overrides.items() if name in names and value is not None}
    properties = replace(LEVELS[opt_level], **given)
    _check(properties)
    return properties


def _parse(name: str, value):
    """Booleans and numbers may come as text, from a command line."""
    if name == "loss_scale" and value != "dynamic":
        return float(value)
    if isinstance(value, str) and name != "loss_scale":
        if value not in ("True", "False"):
            raise ValueError(f"{name} must be True or False, not {value!r}")
        return value == "True"
    return value


def _check(p: Properties) -> None:
    if p.opt_level == "O1":
        if p.cast_model_type is not None:
            raise ValueError("O1 keeps the model in float32; cast_model_type belongs to O2 and O3")
        if p.keep_batchnorm_fp32 is not None:
            raise ValueError("O1 runs batch norm in float32 by itself; keep_batchnorm_fp32 belongs to O2 and O3")
        if p.master_weights:
            raise ValueError("O1 keeps the model in float32; master_weights belongs to O2 and O3")
    elif p.patch_torch_functions:
        raise ValueError("patch_torch_functions=True belongs to O1; the model is cast as a whole at other levels")
    if p.user_cast_preferred and p.opt_level != "O1":
        raise ValueError("user_cast_preferred belongs to O1: other levels cast no functions")
    if p.check_combined_tensors and p.opt_level not in ("O1", "O2"):
        raise ValueError("check_combined_tensors belongs to O1 and O2")
    if p.combine_ddp and not p.combine_grad:
        raise ValueError("combine_ddp=True needs combine_grad=True: it reduces the combined gradients")
    if p.ddp_replica_count < 1:
        raise ValueError(f"ddp_replica_count must be at least 1, not {p.ddp_replica_count}")
    if p.loss_scale != "dynamic" and p.loss_scale <= 0:
        raise ValueError(f"loss_scale must be \"dynamic\" or positive, not {p.loss_scale}")
