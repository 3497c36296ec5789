"""Options of the official graph compilers. What they are set to is read when a graph is compiled, and refused if it would change it."""

from __future__ import annotations


class _Options:
    """Any option may be set; compiling with one that is not at its default names it in an error."""

    def __init__(self, path: str = "config") -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_set", {})
        object.__setattr__(self, "_parts", {})

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._set:
            return self._set[name]
        return self._parts.setdefault(name, _Options(f"{self._path}.{name}"))

    def __setattr__(self, name: str, value) -> None:
        self._set[name] = value

    def changed(self) -> dict[str, object]:
        """Dotted names of the options that were set, and their values."""
        found = {f"{self._path}.{name}": value for name, value in self._set.items()}
        for part in self._parts.values():
            found |= part.changed()
        return found


class CompilerConfig(_Options):
    """As in `config = CompilerConfig(); config.mode = "reduce-overhead"`, which is what torch_npu's backend does anyway."""

    # (values that say what this backend does: it captures graphs, keeps operators, dumps nothing)
    _AGREES = {"config.mode": ("reduce-overhead", "npugraph_ex")}

    def __init__(self):
        super().__init__()

    def check(self) -> None:
        """Raises for options that would have to change what is compiled."""
        refused = [f"{name} = {value!r}" for name, value in self.changed().items()
                   if value not in (None, False, "") and value not in self._AGREES.get(name, ())]
        if refused:
            given = ", ".join(refused)
            raise NotImplementedError(f"options of CANN's graph compiler are not supported: {given}; leave them at their defaults")
