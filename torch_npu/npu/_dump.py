"""torch.npu.init_dump, set_dump, finalize_dump, and ACL_DUMP_DATA=1: what every operator read and wrote, as files (docs/debug.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torch_npu import _C, _dump_settings

if TYPE_CHECKING:
    from torch_npu.npu._dump_modules import ModuleNames

__all__ = ["finalize_dump", "init_dump", "set_dump"]

_running = False
_modules: ModuleNames | None = None


def _start(settings: dict[str, str], where: str) -> None:
    global _running, _modules
    arguments = _dump_settings.parse(settings, where)
    _stop()
    _running = True
    if arguments is not None:
        from torch_npu.npu._dump_modules import ModuleNames

        _modules = ModuleNames()
        _C.start_dump(**arguments)


def _stop() -> None:
    global _running, _modules
    if _modules is not None:
        _modules.remove()
    _running, _modules = False, None
    _C.stop_dump()


def init_dump():
    """Begins a dump of what operators read and write; TORCH_NPU_DUMP says of which. ./npu_dump_<pid> is made by the first launch."""
    _start(_dump_settings.of_environment(), "TORCH_NPU_DUMP")


def set_dump(cfg_file):
    """Goes on with the settings of a JSON file, in a new folder. Call init_dump() first."""
    path = os.path.realpath(cfg_file)
    if not os.path.exists(path):
        raise FileNotFoundError(f"cfg_file {path} does not exist")
    if not _running:
        raise RuntimeError("there is no dump to be set; call torch.npu.init_dump() first")
    _start(_dump_settings.of_file(path), f"cfg_file {path}")


def finalize_dump():
    """Ends the dump. Its files are complete after every launch; without this call it lasts as long as the process."""
    if not _running:
        raise RuntimeError("there is no dump to be ended; call torch.npu.init_dump() first")
    _stop()
