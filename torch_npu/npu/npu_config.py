"""Settings of torch.npu: precision of the matrix unit, options of CANN's operator compiler, storage formats.

Each value is checked, kept for the process and can be read back; all threads see it. docs/options.md says what each one
changes on CANN and on softnpu.
"""

import threading
import warnings
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from torch_npu import _C

__all__ = ["get_mm_bmm_format_nd", "is_jit_compile_false", "set_compile_mode", "set_mm_bmm_format_nd", "set_option"]

_lock = threading.RLock()
_state: dict[str, Any] = {"conv_hf32": True, "matmul_hf32": False, "cube_math_type": None, "internal_format": False, "mm_bmm_nd": True}
_JIT_COMPILE, _ALLOW_HF32 = 10, 14  # ACL_OP_JIT_COMPILE, ACL_ALLOW_HF32


class CubeMathType(IntEnum):
    """How the matrix unit computes with float32."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3
    FORCE_GRP_ACC_FOR_FP32 = 4
    USE_FP32_ADD = 4


def _set_precision(**changes) -> None:
    """Hands the flags to CANN's compiler, then to the operators, then keeps them: what is refused changes nothing."""
    with _lock:
        wanted = _state | changes
        _C.set_compile_option(_ALLOW_HF32, f"{wanted['conv_hf32']:d}{wanted['matmul_hf32']:d}")
        product = wanted["cube_math_type"]
        if product is None:
            product = CubeMathType.USE_HF32 if wanted["matmul_hf32"] else CubeMathType.KEEP_DTYPE
        convolution = CubeMathType.USE_HF32 if wanted["conv_hf32"] else CubeMathType.KEEP_DTYPE
        _C.set_product_math_type(int(product))
        _C.set_convolution_math_type(int(convolution))
        _state.update(wanted)


def _bool(name: str, value) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but got {value!r}")
    return value


class _Settings:
    """A fixed set of attributes: an unknown one raises an error that names those there are."""

    def __setattr__(self, name: str, value) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            self.__getattr__(name)
        super().__setattr__(name, value)

    def __getattr__(self, name: str):
        known = sorted(key for cls in type(self).__mro__ for key, value in vars(cls).items() if isinstance(value, property))
        raise AttributeError(f"torch.npu.{type(self).__name__.lower()[1:]} has no setting '{name}'; it has: {', '.join(known)}")


def _cuda_name(name: str) -> property:
    """A setting of torch.backends.cuda.matmul that programs carry over: never in effect, and setting it says so."""

    def ignored(self, value) -> None:
        warnings.warn(
            f"torch.npu.matmul.{name} is CUDA's setting and changes nothing; the npu's is torch.npu.matmul.allow_hf32", stacklevel=3
        )

    return property(lambda self: False, ignored, doc="CUDA's setting. Always False; setting it changes nothing and warns.")


class _Matmul(_Settings):
    @property
    def allow_hf32(self) -> bool:
        """Whether products of float32 may be computed in HF32 (11 bits of precision). False by default.

        softnpu computes in float32 either way.
        """
        return _state["matmul_hf32"]

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        _set_precision(matmul_hf32=_bool("torch.npu.matmul.allow_hf32", value))

    @property
    def cube_math_type(self) -> CubeMathType | None:
        """Precision of products, a torch.npu.CubeMathType; overrides allow_hf32. None until it is set."""
        return _state["cube_math_type"]

    @cube_math_type.setter
    def cube_math_type(self, value: CubeMathType) -> None:
        if not isinstance(value, CubeMathType):
            names = ", ".join(CubeMathType.__members__)
            raise TypeError(f"torch.npu.matmul.cube_math_type must be one of torch.npu.CubeMathType ({names}), but got {value!r}")
        _set_precision(cube_math_type=value)

    allow_tf32 = _cuda_name("allow_tf32")
    allow_bf16_reduced_precision_reduction = _cuda_name("allow_bf16_reduced_precision_reduction")
    allow_fp16_reduced_precision_reduction = _cuda_name("allow_fp16_reduced_precision_reduction")


class _Conv(_Settings):
    @property
    def allow_hf32(self) -> bool:
        """Whether convolutions of float32 may be computed in HF32. True by default, as with the official plugin.

        softnpu computes in float32 either way.
        """
        return _state["conv_hf32"]

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        _set_precision(conv_hf32=_bool("torch.npu.conv.allow_hf32", value))


class _Config(_Settings):
    @property
    def allow_internal_format(self) -> bool:
        """Whether torch_npu.unsafe_empty_with_format keeps a private format (NC1HWC0, FRACTAL_NZ). False by default.

        npu_format_cast() makes the format it is asked for either way, and no other operator chooses a private one.
        """
        return _state["internal_format"]

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        _state["internal_format"] = _bool("torch.npu.config.allow_internal_format", value)


config, conv, matmul = _Config(), _Conv(), _Matmul()


def set_mm_bmm_format_nd(is_nd=True) -> None:
    """Whether matrix products take their operands as ND. They always do: False changes nothing, and warns."""
    if not _bool("is_nd", is_nd):
        warnings.warn("torch_npu passes every matrix as ND: set_mm_bmm_format_nd(False) changes nothing", stacklevel=2)
    _state["mm_bmm_nd"] = is_nd


def get_mm_bmm_format_nd() -> bool:
    """What set_mm_bmm_format_nd() was given; True by default."""
    return _state["mm_bmm_nd"]


def set_compile_mode(jit_compile=False) -> None:
    """Whether CANN compiles operators when they are first used (True) or takes its prebuilt kernels (False).

    CANN's aclOpJitCompile option, handed over at once or when the npu is initialised. softnpu has no compiler: it keeps the
    value, and computes the same.
    """
    _set_jit_compile("enable" if _bool("jit_compile", jit_compile) else "disable")


def _set_jit_compile(value: str) -> None:
    if _C.is_initialized():
        from torch_npu.npu.devices import synchronize

        synchronize()  # operators in the queue keep the mode in which they were called
    _C.set_compile_option(_JIT_COMPILE, value)


def is_jit_compile_false() -> bool:
    """Whether operators come from prebuilt kernels. Initialises the npu."""
    _C.init()
    return _C.compile_option(_JIT_COMPILE) == "disable"


def _switch(change: Callable[[bool], None]) -> tuple:
    return ("disable", "enable"), lambda value: change(value == "enable")


def _compiler(number: int, values: tuple | None = None) -> tuple:
    return values, lambda value: _C.set_compile_option(number, value)


# name: (the accepted values or None for any text, what a value does). Numbers are those of CANN's aclCompileOpt.
_OPTIONS: dict[str, tuple] = {
    "ACL_PRECISION_MODE": _compiler(0, ("allow_fp32_to_fp16", "must_keep_origin_dtype")),
    "ACL_AICORE_NUM": _compiler(1, tuple(str(number) for number in range(1, 33))),
    "ACL_OP_SELECT_IMPL_MODE": _compiler(3, ("high_performance", "high_precision")),
    "ACL_OPTYPELIST_FOR_IMPLMODE": _compiler(4),
    "ACL_OP_DEBUG_LEVEL": _compiler(5, ("0", "1", "2", "3", "4")),
    "ACL_DEBUG_DIR": _compiler(6),
    "ACL_OP_COMPILER_CACHE_MODE": _compiler(7, ("disable", "enable", "force")),
    "ACL_OP_COMPILER_CACHE_DIR": _compiler(8),
    "ACL_OP_DEBUG_OPTION": _compiler(16),
    "jitCompile": (("disable", "enable"), _set_jit_compile),
    "ALLOW_CONV_HF32": _switch(lambda value: setattr(conv, "allow_hf32", value)),
    "ALLOW_MATMUL_HF32": _switch(lambda value: setattr(matmul, "allow_hf32", value)),
    "ALLOW_INTERNAL_FORMAT": _switch(lambda value: setattr(config, "allow_internal_format", value)),
    "CUBE_MATH_TYPE": (
        tuple(str(int(member)) for member in CubeMathType),
        lambda value: setattr(matmul, "cube_math_type", CubeMathType(int(value))),
    ),
    "MM_BMM_ND_ENABLE": _switch(set_mm_bmm_format_nd),
}


def set_option(option) -> None:
    """Sets options by name, as in `torch.npu.set_option({"ACL_OP_DEBUG_LEVEL": "1"})`. Nothing is set if one is refused.

    The ACL_* options are CANN's and go to its operator compiler at once, or when the npu is initialised. softnpu has no
    compiler: it keeps them, and computes the same.
    """
    if not isinstance(option, dict):
        raise TypeError(f"option must be a dict of names and values, but got {option!r}")
    wanted = {name: str(value) for name, value in option.items()}
    for name, value in wanted.items():
        if name not in _OPTIONS:
            raise ValueError(f"unknown npu option {name!r}; the options are: {', '.join(_OPTIONS)}")
        accepted = _OPTIONS[name][0]
        if accepted is None and not isinstance(option[name], (str, int)):
            raise TypeError(f"value of {name} must be a text, but got {option[name]!r}")
        if accepted is not None and value not in accepted:
            raise ValueError(f"value of {name} must be one of {', '.join(accepted)}, but got {value!r}")
    for name, value in wanted.items():
        _OPTIONS[name][1](value)


def _switched(setting: bool) -> str:
    return "enable" if setting else "disable"


# What reads an option; the others are the compiler's, by their number.
_READ: dict[str, Callable[[], str]] = {
    "ALLOW_CONV_HF32": lambda: _switched(conv.allow_hf32),
    "ALLOW_MATMUL_HF32": lambda: _switched(matmul.allow_hf32),
    "ALLOW_INTERNAL_FORMAT": lambda: _switched(config.allow_internal_format),
    "MM_BMM_ND_ENABLE": lambda: _switched(get_mm_bmm_format_nd()),
    "CUBE_MATH_TYPE": lambda: "" if matmul.cube_math_type is None else str(int(matmul.cube_math_type)),
    "jitCompile": lambda: _C.compile_option(_JIT_COMPILE),
}


def _npu_getOption(name: str) -> bytes | None:  # noqa: N802 (the official name)
    """torch_npu._C._npu_getOption, which programs call: the value of an option of set_option() that is one of torch_npu's own, in bytes.

    None for an option that has no value, and for those of CANN's compiler, which are only set.
    """
    if name not in _OPTIONS:
        raise ValueError(f"unknown npu option {name!r}; the options are: {', '.join(_OPTIONS)}")
    read = _READ.get(name)
    return (read() or "").encode() or None if read else None


_C._npu_getOption = _npu_getOption


def __getattr__(name: str):
    """The official plugin has these here too; they need this module."""
    from torch_npu.npu import _dump, _further, core_limits
    from torch_npu.utils._path_manager import PathManager

    if name == "set_aoe":
        return _further.set_aoe
    if name in _dump.__all__:
        return getattr(_dump, name)
    if name in _LIMITS:
        return getattr(core_limits, name)
    if name == "PathManager":
        return PathManager
    raise AttributeError(f"module 'torch_npu.npu.npu_config' has no attribute '{name}'")


_LIMITS = ("get_device_limit", "get_stream_limit", "reset_stream_limit", "set_device_limit", "set_stream_limit")
