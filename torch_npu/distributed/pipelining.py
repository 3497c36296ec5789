"""pipeline(): upstream's, with the arguments of the official plugin."""

from typing import Any

import torch

__all__ = ["pipeline"]


def pipeline(
    module: torch.nn.Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec=None,
    split_policy=None,
    mode: str | None = None,
    atomic_units: list[str] | None = None,
):
    """Splits a model into pipeline stages, as torch.distributed.pipelining.pipeline does."""
    if mode is not None or atomic_units is not None:
        raise NotImplementedError("mode and atomic_units are not supported; use split_spec or split_policy")
    from torch.distributed.pipelining import pipeline as upstream

    return upstream(module, mb_args, mb_kwargs, split_spec, split_policy)
