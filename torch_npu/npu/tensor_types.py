"""The legacy types torch.npu.FloatTensor and torch.npu.FloatStorage, one for each of torch.cuda's."""

import sys

import torch
from torch._utils import classproperty
from torch.storage import _LegacyStorage, _LegacyStorageMeta, _warn_typed_storage_removal

_DTYPES = {
    "BFloat16": torch.bfloat16,
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Short": torch.int16,
}
_STORAGES_ONLY = {"ComplexDouble": torch.complex128, "ComplexFloat": torch.complex64}


class _TensorType(type):
    dtype: torch.dtype
    is_npu = True
    is_sparse = False
    # Tensor.type() reads the C name of a type, which for one made in Python is the name that it was made with.
    __name__ = property(lambda cls: cls.__qualname__)

    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, torch.Tensor) and instance.device.type == "npu" and instance.dtype == cls.dtype

    def __subclasscheck__(cls, subclass) -> bool:
        """Dynamo asks this of a tensor's class instead of the above, which knows the tensor: that must end its graph."""
        if sys._getframe(1).f_globals.get("__name__", "").startswith("torch._dynamo."):
            from torch._dynamo.exc import unimplemented

            unimplemented(
                gb_type="isinstance with a legacy tensor type of npu",
                context=f"isinstance(tensor, {cls.__name__})",
                explanation="the answer depends on the tensor's device and dtype, which Dynamo does not hand on",
                hints=[f"Write tensor.is_npu and tensor.dtype == {cls.dtype}"],
            )
        return super().__subclasscheck__(subclass)

    def __call__(cls, *args):
        """Takes sizes (uninitialised), a sequence or a tensor, like torch.FloatTensor."""
        return getattr(torch, cls.__name__)(*args).npu()


class _StorageType(_LegacyStorage):
    _dtype: torch.dtype

    @classproperty
    def dtype(cls) -> torch.dtype:
        _warn_typed_storage_removal()
        return cls._dtype

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        raise RuntimeError("from_buffer: Not available for NPU storage")

    @classmethod
    def _new_shared_filename(cls, manager, obj, size, *, device=None, dtype=None):
        raise RuntimeError("_new_shared_filename: Not available for NPU storage")


__all__ = []
for _name, _dtype in {**_DTYPES, **_STORAGES_ONLY}.items():
    # torch finds the device of a legacy storage type in the last part of its module's name.
    _body: dict[str, object] = {"__module__": "torch.npu", "__doc__": f"Legacy type: {_dtype} on the npu."}
    globals()[f"{_name}Storage"] = _LegacyStorageMeta(f"{_name}Storage", (_StorageType,), {**_body, "_dtype": _dtype})
    __all__.append(f"{_name}Storage")
    if _name in _DTYPES:
        _body |= {"__qualname__": f"{_name}Tensor", "dtype": _dtype}
        globals()[f"{_name}Tensor"] = _TensorType(f"torch.npu.{_name}Tensor", (), _body)
        __all__.append(f"{_name}Tensor")
