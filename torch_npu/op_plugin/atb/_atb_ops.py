"""The official plugin loads its library ATB when this is called."""


def _register_atb_extensions() -> None:
    """Nothing is left to do: torch.ops.atb.* is registered when torch_npu is imported."""
