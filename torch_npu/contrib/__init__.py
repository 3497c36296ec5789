"""Modules and functions that models for Ascend import, and helpers for code that was written for other devices.

Everything is plain torch underneath, so it runs and differentiates on any device. Loaded when first used.
"""

from importlib import import_module as _import_module


def __getattr__(name: str):
    if name == "__all__":
        return sorted(n for package in ("module", "function") for n in _import_module(f"torch_npu.contrib.{package}").__all__)
    if not name.startswith("_"):
        for package in ("module", "function"):
            found = getattr(_import_module(f"torch_npu.contrib.{package}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module 'torch_npu.contrib' has no attribute '{name}'")
