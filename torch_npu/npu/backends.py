"""torch.npu.backends: which kernels scaled_dot_product_attention may choose, and what torch.backends.cuda has beside.

The three switches are upstream's own (torch.backends.cuda has the same functions): the npu's fused attention is its "flash" kernel, the
composition of products and softmax the "math" one. There is no memory-efficient kernel of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

__all__: list[str] = []


def _switch(name: str, value) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def flash_sdp_enabled() -> bool:
    """Whether scaled_dot_product_attention may choose the fused kernel."""
    return torch.backends.cuda.flash_sdp_enabled()


def enable_flash_sdp(enabled: bool):
    """Allows or forbids the fused kernel of scaled_dot_product_attention."""
    torch.backends.cuda.enable_flash_sdp(_switch("enabled", enabled))


def mem_efficient_sdp_enabled() -> bool:
    """Upstream's switch of the memory-efficient kernel, which the npu does not have."""
    return torch.backends.cuda.mem_efficient_sdp_enabled()


def enable_mem_efficient_sdp(enabled: bool):
    """Sets upstream's switch of the memory-efficient kernel, which the npu does not have: other devices read it."""
    torch.backends.cuda.enable_mem_efficient_sdp(_switch("enabled", enabled))


def math_sdp_enabled() -> bool:
    """Whether scaled_dot_product_attention may be composed of products and softmax."""
    return torch.backends.cuda.math_sdp_enabled()


def enable_math_sdp(enabled: bool):
    """Allows or forbids the composition of scaled_dot_product_attention."""
    torch.backends.cuda.enable_math_sdp(_switch("enabled", enabled))


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True) -> Iterator[None]:
    """Sets the three switches for a block."""
    wanted = {"enable_flash": enable_flash, "enable_math": enable_math, "enable_mem_efficient": enable_mem_efficient}
    for name, value in wanted.items():
        _switch(name, value)  # before the first is set
    before = flash_sdp_enabled(), math_sdp_enabled(), mem_efficient_sdp_enabled()
    switches = enable_flash_sdp, enable_math_sdp, enable_mem_efficient_sdp
    try:
        for switch, value in zip(switches, wanted.values(), strict=True):
            switch(value)
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch(value)


def preferred_linalg_library(backend: None | str | torch._C._LinalgBackend = None) -> torch._C._LinalgBackend:
    """The library that computes linear algebra: always "default", as the npu has one implementation of each function."""
    if backend not in (None, "default", torch._C._LinalgBackend.Default):
        raise ValueError(f'backend must be None or "default": the npu has no other library for linear algebra, got {backend!r}')
    return torch._C._LinalgBackend.Default


class NPUFFTPlanCache:
    """Fourier transforms keep no plans: the cache is empty and cannot be made larger."""

    @property
    def size(self) -> int:
        return 0

    @property
    def max_size(self) -> int:
        return 0

    @max_size.setter
    def max_size(self, value: int) -> None:
        if value:
            raise ValueError(f"max_size must be 0: Fourier transforms on npu have no plans that could be kept, got {value!r}")

    def clear(self):
        """Nothing is ever in the cache."""


fft_plan_cache = NPUFFTPlanCache()
