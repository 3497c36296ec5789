"""torch_npu.HiFloat8Tensor: numbers kept in 8 bits of hifloat8 that appear as a wider type.

Operators that only move numbers act on the bytes; any other computes in the wider type, and what it writes into such a tensor is rounded.
"""

import torch
from torch.utils._pytree import tree_map_only

__all__ = []

aten = torch.ops.aten
# On bytes as on numbers.
_MOVES = {
    aten.alias.default, aten.as_strided.default, aten.clone.default, aten.detach.default, aten.expand.default, aten.permute.default,
    aten.select.int, aten.slice.Tensor, aten.squeeze.default, aten.squeeze.dim, aten.t.default, aten.transpose.int, aten.unsqueeze.default,
    aten.view.default, aten._unsafe_view.default,
}  # fmt: skip


class _Round(torch.autograd.Function):
    """The gradient passes as if nothing had been rounded."""

    @staticmethod
    def forward(ctx, tensor):
        wide = tensor.detach().npu()
        if wide.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            wide = wide.float()
        return _HiFloat8Tensor(data=torch.ops.npu.npu_dtype_cast(wide, _number()), dtype=wide.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad


class _Widen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, dtype):
        return tensor._wide(dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def _number() -> int:
    from torch_npu._dtypes import NUMBERS

    return NUMBERS["hifloat8"]


class _HiFloat8Tensor(torch.Tensor):
    """`data` holds the codes, in a type of 8 bits; `dtype` is the type that the tensor appears in."""

    _data: torch.Tensor

    @staticmethod
    def __new__(cls, *, data: torch.Tensor, dtype: torch.dtype = torch.float32):
        if not isinstance(data, torch.Tensor):
            raise TypeError(f"data must be a tensor of codes, got {type(data).__name__}")
        if data.element_size() != 1:
            raise ValueError(f"data is of type {data.dtype}, expected one of 8 bits")
        if data.requires_grad:
            raise ValueError("data requires a gradient, expected codes, which have none")
        data = data.to("npu").view(torch.uint8)
        tensor = torch.Tensor._make_wrapper_subclass(cls, data.shape, strides=data.stride(), storage_offset=data.storage_offset(),
                                                     dtype=dtype, device=data.device)  # fmt: skip
        tensor._data = data
        return tensor

    @classmethod
    def make_like(cls, tensor, *, data, **kwargs):
        return cls(data=data, **{"dtype": tensor.dtype, **kwargs})

    @classmethod
    def to_hifloat8(cls, tensor: torch.Tensor):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"tensor must be a torch.Tensor, got {type(tensor).__name__}")
        return _Round.apply(tensor)

    def from_hifloat8(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        return _Widen.apply(self, dtype or self.dtype)

    def to_dtype(self, dtype: torch.dtype):
        """The same codes under another type."""
        return self.make_like(self, data=self._data, dtype=dtype)

    def _wide(self, dtype=None):
        return torch.ops.npu.npu_dtype_cast(self._data, dtype or self.dtype, _number())

    def _assign(self, source) -> None:
        self._data.copy_(torch.ops.npu.npu_dtype_cast(source.to(self._data.device), _number()))

    def float(self):
        return self.from_hifloat8(torch.float32)

    def bfloat16(self):
        return self.from_hifloat8(torch.bfloat16)

    def half(self):
        return self.from_hifloat8(torch.float16)

    def cpu(self):
        return self.from_hifloat8().cpu()

    def __repr__(self, **_):
        return f"HiFloat8Tensor(data={self.from_hifloat8()!r})"

    @classmethod
    def _make_in_reduce_ex(cls, data, dtype):
        return cls(data=data, dtype=dtype)

    def __reduce_ex__(self, protocol):
        return _HiFloat8Tensor._make_in_reduce_ex, (self._data, self.dtype)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, source):
        with torch.no_grad():
            self.copy_(source)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        if func in _MOVES:
            return cls.make_like(args[0], data=func(args[0]._data, *args[1:], **kwargs))
        if func is aten.copy_.default and isinstance(args[0], cls):
            source = args[1]._data if isinstance(args[1], cls) else None
            args[0]._data.copy_(source) if source is not None else args[0]._assign(args[1].expand(args[0].shape))
            return args[0]
        pairs = []  # a tensor of ours, and the wide one that the operator sees in its place

        def widen(tensor):
            pairs.append((tensor, tensor._wide()))
            return pairs[-1][1]

        result = func(*tree_map_only(cls, widen, args), **tree_map_only(cls, widen, kwargs))
        if func._schema.is_mutable:
            written = {id(v) for a, v in _named(func, args, kwargs) if a.alias_info is not None and a.alias_info.is_write}
            for ours, wide in pairs:
                if id(ours) in written:
                    ours._assign(wide)
                    result = ours if result is wide else result
        return result

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


def _named(func, args, kwargs):
    """The schema's arguments with what was given for them."""
    yield from zip(func._schema.arguments, args)
    yield from ((a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs)
