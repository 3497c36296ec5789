"""torch.npu of a process in which this package could not be loaded: nothing is available, and every call says why."""

import types
import warnings

import torch


class _Unavailable:
    """Any name of torch.npu: calling it, and reading or setting what is behind it, says why there is none."""

    def __init__(self, reason: str) -> None:
        object.__setattr__(self, "_reason", reason)

    def _refuse(self, *args, **kwargs):
        raise RuntimeError(self._reason)

    __call__ = __enter__ = __setattr__ = _refuse

    def __exit__(self, *error) -> None:
        """Never reached: __enter__ has raised."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()


class _Npu(types.ModuleType):
    def __init__(self, reason: str) -> None:
        super().__init__("torch.npu", "The npu device could not be loaded.")
        self._reason = reason

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None:
        """Nothing to seed: torch.manual_seed() goes on working."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def _lazy_init(self) -> None:
        raise RuntimeError(self._reason)

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)

        return _Unavailable(self._reason)


def register(reason: str) -> None:
    reason = f"torch_npu could not be loaded: {reason}"
    try:
        torch.utils.rename_privateuse1_backend("npu")
        torch._register_device_module("npu", _Npu(reason))
        torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    except RuntimeError:
        pass  # another backend has taken the place of "npu", which the reason says
    try:
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:
        pass  # under -W error; import torch goes on
