"""Whether mixed precision on npu is out of the question."""

from torch_npu.npu.devices import is_available

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    """Whether there is no npu."""
    return not is_available()
