"""Formats in which memory holds a tensor. FRACTAL_NZ and NC1HWC0 are blocks that the device's units read; the others that are taken
here are the order of the elements. The cast itself is npu::_npu_format_cast, in csrc/ops/families/formats.cpp."""

import torch

BLOCKS = {29: "FRACTAL_NZ", 3: "NC1HWC0"}


def npu_format_cast(input, acl_format, *, customize_dtype=None, input_dtype=None):
    now = torch.ops.npu.get_npu_format(input)
    if now == acl_format or (now not in BLOCKS and (acl_format in (0, 2, 30, 47) or acl_format == 29 and input.dim() < 2)):
        return input.view_as(input)
    if input_dtype is not None:
        return torch.ops.npu._npu_format_cast.input_dtype(
            input, acl_format, input_dtype if customize_dtype is None else customize_dtype, input_dtype
        )
    if customize_dtype is not None:
        return torch.ops.npu._npu_format_cast.aclnn(input, acl_format, customize_dtype)
    return torch.ops.npu._npu_format_cast(input, acl_format)


def npu_format_cast_Tensor(input, dst, *, customize_dtype=None, input_dtype=None):
    return npu_format_cast(input, torch.ops.npu.get_npu_format(dst), customize_dtype=customize_dtype, input_dtype=input_dtype)


def npu_format_cast_(input, src, *, customize_dtype=None, input_dtype=None):
    """The values of `src`, in the format of `input`."""
    _own_widths(customize_dtype, input_dtype)
    return input.copy_(src)


def npu_format_cast__acl_format(input, acl_format, *, customize_dtype=None, input_dtype=None):
    """`input` gets other memory: views that were made of it before keep the old one."""
    with torch.no_grad():
        cast = npu_format_cast(input, acl_format, customize_dtype=customize_dtype, input_dtype=input_dtype)
        if torch.ops.npu.get_npu_format(cast) != torch.ops.npu.get_npu_format(input):
            input.set_(cast)
    return input


def _own_widths(customize_dtype, input_dtype):
    if customize_dtype is not None or input_dtype is not None:
        raise NotImplementedError("npu_format_cast_ with a tensor keeps the blocks of input: customize_dtype and input_dtype must be None")


def empty_with_format(size, *, dtype=None, layout=None, device=None, pin_memory=None, acl_format=2, base_addr_aligned_kb=None):
    device = torch.device("npu" if device is None else device)
    if device.type != "npu":
        raise ValueError(f"empty_with_format: device must be an npu, got {device}")
    if base_addr_aligned_kb is not None:
        return _aligned(size, dtype, layout, device, acl_format, base_addr_aligned_kb)
    plain = torch.empty(size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
    return npu_format_cast(plain, acl_format)


def _aligned(size, dtype, layout, device, acl_format, kilobytes):
    """Memory that begins at a multiple of so many kilobytes."""
    if acl_format in BLOCKS:
        raise NotImplementedError(f"empty_with_format: base_addr_aligned_kb is not supported for {BLOCKS[acl_format]}")
    if kilobytes <= 0:
        raise ValueError(f"empty_with_format: base_addr_aligned_kb must be positive, got {kilobytes}")
    step = kilobytes * 1024
    item = torch.empty(0, dtype=dtype).element_size()
    count = torch.Size(size).numel()
    room = torch.empty(count * item + step, dtype=torch.uint8, layout=layout, device=device)
    start = -room.data_ptr() % step
    return room[start : start + count * item].view(dtype or torch.get_default_dtype()).view(size)


def unsafe_empty_with_format(size, *, dtype=None, layout=None, device=None, pin_memory=None, acl_format=2, keep_format=False):
    """Private formats are for those who ask for them: keep_format, or torch.npu.config.allow_internal_format."""
    if not keep_format and not torch.npu.config.allow_internal_format:
        acl_format = {29: 2, 3: 0}.get(acl_format, acl_format)
    return empty_with_format(size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, acl_format=acl_format)
