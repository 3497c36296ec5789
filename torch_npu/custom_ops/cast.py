"""Casts of type and format. Storage is always in base format: a format cast changes no value and no layout."""

import torch

# torch's ScalarType numbers, which `int dtype` arguments carry; the dispatcher also takes a torch.dtype there.
_DTYPES = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32,
           7: torch.float64, 8: torch.complex32, 9: torch.complex64, 10: torch.complex128, 11: torch.bool, 15: torch.bfloat16,
           23: torch.float8_e5m2, 24: torch.float8_e4m3fn}
FORMAT_NCHW, FORMAT_ND, FORMAT_NCDHW = 0, 2, 30


def dtype_of(number: int) -> torch.dtype:
    if number not in _DTYPES:
        raise ValueError(f"{number} is no dtype that the npu computes in")
    return _DTYPES[number]


def npu_dtype_cast_(self, src):
    return self.copy_(src)


def npu_format_cast(self, acl_format, *, customize_dtype=None, input_dtype=None):
    return self.view_as(self)


def npu_format_cast_Tensor(self, dst, *, customize_dtype=None, input_dtype=None):
    return self.view_as(self)


def npu_format_cast_(self, src, *, customize_dtype=None, input_dtype=None):
    return self.copy_(src)


def npu_format_cast__acl_format(self, acl_format, *, customize_dtype=None, input_dtype=None):
    return self


def get_npu_format(self):
    return {4: FORMAT_NCHW, 5: FORMAT_NCDHW}.get(self.dim(), FORMAT_ND)


def get_storage_size(self):
    """In elements."""
    return self.untyped_storage().nbytes() // self.element_size()


def copy_memory_(self, src, non_blocking=False):
    return self.copy_(src, non_blocking)


def one_(self):
    return self.fill_(1)


def npu_alloc_float_status(self):
    """Eight zeros. In the INF/NaN mode, the only one here, the card reports no overflow flag."""
    return torch.zeros(8, device=self.device)


def npu_get_float_status(self, mode=0):
    return torch.zeros_like(self)


def npu_clear_float_status(self, mode=0):
    return torch.zeros_like(self)
