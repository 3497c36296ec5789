"""Many tensors as views of one buffer, so that one launch treats them all."""

from collections.abc import Sequence

import torch

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


def npu_combine_tensors(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """Moves the tensors' data into one new buffer, in order, and returns it, or None for no tensors.

    Shapes stay, memory becomes contiguous. The tensors must have one dtype and one device. require_copy_value=False leaves the
    values undefined.
    """
    if not isinstance(list_of_tensor, Sequence) or not all(isinstance(tensor, torch.Tensor) for tensor in list_of_tensor):
        raise TypeError("list_of_tensor must be a list or tuple of tensors")
    return combine(list_of_tensor, require_copy_value) if list_of_tensor else None


def combine(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor:
    """npu_combine_tensors of at least one tensor."""
    first = list_of_tensor[0]
    for tensor in list_of_tensor:
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise RuntimeError(
                f"tensors of different dtype or device cannot share a buffer: {first.dtype} on {first.device}, "
                f"{tensor.dtype} on {tensor.device}"
            )
    sizes = [tensor.numel() for tensor in list_of_tensor]
    combined = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
    views = [part.view(tensor.shape) for part, tensor in zip(combined.split(sizes), list_of_tensor)]
    if require_copy_value:
        torch._foreach_copy_(views, [tensor.detach() for tensor in list_of_tensor])
    for tensor, view in zip(list_of_tensor, views):
        tensor.data = view
    return combined


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor | None]) -> bool:
    """Whether the tensors still are, one after the other and without gaps, the buffer's memory."""
    if combined_tensor is None:
        return not list_of_tensor
    address, itemsize = combined_tensor.data_ptr(), combined_tensor.element_size()
    end = address + combined_tensor.numel() * itemsize
    for tensor in list_of_tensor:
        if tensor is None or tensor.dtype != combined_tensor.dtype:
            return False
        if tensor.numel() and (tensor.data_ptr() != address or not tensor.is_contiguous()):
            return False
        address += tensor.numel() * itemsize
    return address == end


def get_part_combined_tensor(combined_tensor: torch.Tensor, index: int, size: int) -> torch.Tensor:
    """The `size` elements that begin at element `index`, as a view."""
    if index < 0 or size < 0 or index + size > combined_tensor.numel():
        raise RuntimeError(f"elements {index} to {index + size} are not within the buffer's {combined_tensor.numel()}")
    return combined_tensor[index : index + size]
