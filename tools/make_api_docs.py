#!/usr/bin/env python3
"""Writes docs/api/: a page per public module with every public name, its signature and one line. Usage: make_api_docs.py [--check]

Public is what a module lists in __all__, and the operators torch_npu.npu_*. Text comes from docstrings, the examples at the
head of a page from tools/api_examples/. --check writes nothing and ends with code 1 if a page is missing or out of date.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import re
import sys
from pathlib import Path

import torch_npu  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs/api"
EXAMPLES = ROOT / "tools/api_examples"

# page -> (title, modules whose __all__ it lists)
MODULES = {
    "torch_npu.npu": (
        "torch.npu",
        [f"torch_npu.npu.{part}" for part in ("devices", "core_limits", "streams", "memory", "random", "autocast_utils", "npu_config",
                                              "deterministic", "_recovery", "sync_debug", "_further")],
    ),
    "torch_npu.npu.mstx": ("torch.npu.mstx", ["torch_npu.npu.mstx"]),
    "torch_npu.npu.amp": ("torch.npu.amp", ["torch_npu.npu.amp"]),
    "torch_npu.npu.nvtx": ("torch.npu.nvtx", ["torch_npu.npu.nvtx"]),
    "torch_npu.npu.utils": ("torch.npu.utils", ["torch_npu.npu.utils"]),
    "torch_npu.utils": ("torch_npu.utils", ["torch_npu.utils"]),
    "torch_npu.profiler": (
        "torch_npu.profiler",
        [f"torch_npu.profiler.{part}" for part in ("profiler", "scheduler", "experimental_config", "dynamic_profile")],
    ),
    "torch_npu.optim": ("torch_npu.optim", ["torch_npu.optim"]),
    "torch_npu.testing": ("torch_npu.testing", ["torch_npu.testing"]),
    "torch_npu.contrib": ("torch_npu.contrib", ["torch_npu.contrib"]),
    "torch_npu.contrib.transfer_to_npu": ("torch_npu.contrib.transfer_to_npu", ["torch_npu.contrib.transfer_to_npu"]),
    "torch_npu.distributed": ("torch_npu.distributed", ["torch_npu.distributed"]),
    "torch_npu.migrate": ("torch_npu.migrate", ["torch_npu.migrate"]),
}


def first_line(value) -> str:
    text = (inspect.getdoc(value) or "").strip()
    if isinstance(value, type) and value.__doc__ is None:
        text = ""
    text = re.sub(r"^\w+\(.*\) -> .*\n+", "", text)  # of functions written in C++: their signature comes first
    sentence = re.split(r"\n\s*\n|(?<=[.!?])\s", text, maxsplit=1)[0]
    return " ".join(sentence.split()).replace("|", "\\|")


def signature(value) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"<module '([\w.]+)' from '[^']*'>", r"\1", text)
    return text.replace("|", "\\|")


def row(name: str, value) -> str:
    call = f"`{name}{signature(value)}`" if callable(value) else f"`{name}`"
    return f"| {call} | {first_line(value)} |"


def public_names(module) -> list[str]:
    return sorted(getattr(module, "__all__", ()), key=str.lower)


def module_page(page: str) -> str | None:
    title, sources = MODULES[page]
    lines = []
    for source in sources:
        try:
            module = importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name == source:
                return None
            raise
        lines += [row(name, getattr(module, name)) for name in public_names(module)]
    about = first_line(importlib.import_module(page))
    return assemble(page, title, about, ["| name | what |", "| --- | --- |", *lines])


def operators_page() -> str:
    from torch_npu import custom_ops

    lines = []
    for family, schemas in custom_ops.SCHEMAS.items():
        module = importlib.import_module(f"torch_npu.custom_ops.{family}")
        lines += ["", f"## {family}", "", first_line(module), "", "| operator | what |", "| --- | --- |"]
        for schema in schemas:
            name = schema.partition("(")[0]
            function = getattr(module, name.replace(".", "_"), None)
            lines.append(f"| `{schema.replace('|', chr(92) + '|')}` | {first_line(function) if function else ''} |")
    about = "Called as `torch_npu.<name>(...)` or `torch.ops.npu.<name>(...)`; on npu and CPU tensors."
    return assemble("torch_npu.operators", "Custom operators", about, lines)


def assemble(page: str, title: str, about: str, lines: list[str]) -> str:
    head = [f"# {title}", "", "<!-- written by tools/make_api_docs.py from docstrings; change those -->", about, ""]
    example = EXAMPLES / f"{page}.py"
    if example.exists():
        head += ["```python", example.read_text().rstrip(), "```", ""]
    return "\n".join([*head, *lines]) + "\n"


def pages() -> dict[str, str]:
    texts: dict[str, str | None] = {"torch_npu.operators": operators_page()}
    with contextlib.redirect_stderr(io.StringIO()):  # transfer_to_npu says that it redirects
        texts |= {page: module_page(page) for page in MODULES}
    importlib.import_module("torch_npu.contrib.transfer_to_npu").undo()
    return {page: text for page, text in texts.items() if text is not None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for page, text in pages().items():
        path = PAGES / f"{page}.md"
        if path.exists() and path.read_text() == text:
            continue
        if options.check:
            stale.append(path.name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"docs/api is out of date: {', '.join(stale)}; run python tools/make_api_docs.py", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
