"""Reads tables: YAML whose rows know their lines. Errors name file, line and row."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


class Row(dict):
    """A mapping of a table."""

    file: Path
    line: int  # the first one
    lines: dict[str, int]  # of each key

    def fail(self, message: str, key: str = "") -> SystemExit:
        """Of this row, or of one of its keys: `raise row.fail(...)`."""
        name = f"{self['op']}: " if "op" in self else ""
        return SystemExit(f"{self.file}:{self.lines.get(key, self.line)}: {name}{message}")


class _Loader(yaml.CSafeLoader):
    file = Path()


def _row(loader: _Loader, node: yaml.MappingNode):
    row = Row()
    row.file, row.line, row.lines = loader.file, node.start_mark.line + 1, {}
    yield row
    for key, value in node.value:
        name, line = loader.construct_object(key, deep=True), key.start_mark.line + 1
        if name in row.lines:
            raise SystemExit(f"{row.file}:{line}: {name} is written twice, first in line {row.lines[name]}")
        row.lines[name], row[name] = line, loader.construct_object(value, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _row)


def read(file: Path) -> Row:
    """The mapping that a file holds; an empty one for a file without content."""
    loader = _Loader(file.read_text())
    loader.file = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    try:
        table = loader.get_single_data()
    except yaml.YAMLError as error:
        raise SystemExit(f"{loader.file}: {error}") from None
    finally:
        loader.dispose()
    if table is None:
        table = Row()
        table.file, table.line, table.lines = loader.file, 1, {}
    return table


def attributed(code: str, file: Path, line: int) -> str:
    """Code of a row, in which the compiler's messages name the row."""
    return "".join(f'#line {line} "{file.as_posix()}"\n{text}\n' for text in code.splitlines())
