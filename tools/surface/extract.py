"""Makes official.txt and demand.txt, the facts that measure.py compares with.

    bash ci/official.sh                                               # once: the official wheel's virtual environment
    OFFICIAL_VENV/bin/python tools/surface/extract.py wheel > wheel.json     # in that environment, on softnpu
    python tools/surface/extract.py merge api_surface.json demand.json wheel.json

api_surface.json lists the public names of the official 2.13.0 plugin with kind and signature, and which of them its own test freezes;
demand.json the names that packages use. The wheel adds what a frozen class has inside and the modules that api_surface.json leaves out.
Only names, kinds and signatures are taken over. A line is: name, kind, flags (s: of api_surface.json, c: frozen), signature.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import types
from pathlib import Path

HERE = Path(__file__).parent
NOT_WALKED = ("torch_npu.dynamo.torchair", "torch_npu.testing", "torch_npu.contrib.transfer_to_npu")  # listed in api_surface.json


def signature(value) -> str | None:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return None


def own_functions(cls):
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not name.startswith("__") and name not in ("_generate_next_value_", "_member_type_") and callable(function):
            yield name, function


def wheel() -> None:
    """Public names of every public module and the functions of its classes: the rule of the official test."""
    import torch_npu

    found = {}
    modules = [torch_npu]
    for info in pkgutil.walk_packages(torch_npu.__path__, "torch_npu.", onerror=lambda name: None):
        if not info.name.startswith(NOT_WALKED) and not any(part.startswith("_") for part in info.name.split(".")):
            try:
                modules.append(importlib.import_module(info.name))
            except (ImportError, OSError, RuntimeError) as error:
                print(f"{info.name}: {error}", file=sys.stderr)
    for module in modules:
        named = getattr(module, "__all__", None)
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        names = named if named is not None else [name for name in own if not name.startswith("_")]
        for name in names:
            value = getattr(module, name, None)
            if value is None or isinstance(value, types.ModuleType) or signature(value) is None:
                continue
            found[f"{module.__name__}.{name}"] = ["class" if isinstance(value, type) else "function", signature(value)]
            if isinstance(value, type):
                found |= {f"{module.__name__}.{name}.{key}": ["method", signature(function)] for key, function in own_functions(value)
                          if signature(function) is not None}
    json.dump(found, sys.stdout)


def merge(surface: str, demand: str, from_wheel: str) -> None:
    modules = json.loads(Path(surface).read_text())["modules"]
    walked = json.loads(Path(from_wheel).read_text().splitlines()[-1])  # set_env.sh may have printed before
    entries: dict[str, tuple[str, str, str]] = {}
    frozen = set()
    for module, content in modules.items():
        for entry in content["names"]:
            is_frozen = entry.get("in_official_contract") or module.startswith("torch_npu.testing.")
            entries[entry["name"]] = (entry.get("kind") or "", "sc" if is_frozen else "s", entry.get("signature") or "")
            frozen |= {entry["name"]} if is_frozen else set()
    for name, (kind, text) in walked.items():
        owner = name.rpartition(".")[0]
        module = owner if kind != "method" else owner.rpartition(".")[0]
        if name not in entries and (module not in modules or owner in frozen):
            entries[name] = (kind, "c", text)
    lines = ["\t".join([name, *entry]).replace("\n", " ") for name, entry in sorted(entries.items())]
    (HERE / "official.txt").write_text("\n".join(lines) + "\n")
    wanted = json.loads(Path(demand).read_text())
    uses = {name: numbers[0] for group in ("names", "mindspeed") for name, numbers in wanted[group].items()}
    (HERE / "demand.txt").write_text("".join(f"{name}\t{count}\n" for name, count in sorted(uses.items())))


if __name__ == "__main__":
    wheel() if sys.argv[1] == "wheel" else merge(*sys.argv[2:])
