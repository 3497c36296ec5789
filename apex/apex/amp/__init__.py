"""apex.amp: initialize() a model and its optimisers for mixed precision, then scale_loss() around backward."""

from apex.amp.casting import (
    disable_casts,
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from apex.amp.frontend import initialize, load_state_dict, state_dict
from apex.amp.handle import scale_loss
from apex.amp.optimizer import master_params

__all__ = [
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]
