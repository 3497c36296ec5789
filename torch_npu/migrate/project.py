"""The files of a project to read, and the place where results are written. The input is only ever read."""

import io
import os
import shutil
import stat
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 8 << 20  # a larger source is generated, and takes minutes to parse
NATIVE_SUFFIXES = {".cu", ".cuh", ".cc", ".cpp", ".cxx", ".c", ".h", ".hpp"}
SKIPPED_FOLDERS = {".git", ".hg", ".svn", "__pycache__", ".venv", "node_modules"}


class Refusal(Exception):
    """The whole run cannot be done; the text says why, and what to do."""


@dataclass(frozen=True)
class Source:
    """A file of the project. `path` is relative to the input; `problem` says why it cannot be read as a source."""

    path: str
    absolute: Path
    problem: str = ""

    @property
    def suffix(self) -> str:
        return self.absolute.suffix

    @property
    def shown(self) -> str:
        """The path for reports, which are UTF-8: bytes of a name that are not, and line ends, are escaped."""
        return self.path.encode("utf-8", "backslashreplace").decode().replace("\n", "\\n").replace("\r", "\\r")


def sources(root: Path) -> Iterator[Source]:
    """All files below a folder, or the one file, in a fixed order. Links are named and not followed."""
    if root.is_file():
        yield _source(root.name, root)
        return
    for folder, folders, files in os.walk(root, onerror=None):
        for name in sorted(folders):
            entry = Path(folder, name)
            if entry.is_symlink():
                yield Source(str(entry.relative_to(root)), entry, "a symbolic link to a folder: not followed")
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not Path(folder, name).is_symlink())
        for name in sorted(files):
            entry = Path(folder, name)
            yield _source(str(entry.relative_to(root)), entry)


def _source(path: str, entry: Path) -> Source:
    if entry.is_symlink():
        return Source(path, entry, "a symbolic link: not followed")
    mode = entry.lstat()
    if not stat.S_ISREG(mode.st_mode):
        return Source(path, entry, "not a regular file")
    if entry.suffix == ".ipynb":
        return Source(path, entry, "a notebook: make it a script first (jupyter nbconvert --to script), then convert that")
    if mode.st_size > MAX_BYTES and entry.suffix in (".py", *NATIVE_SUFFIXES):
        return Source(path, entry, f"larger than {MAX_BYTES >> 20} MB: copied as it is")
    return Source(path, entry)


def read(source: Source) -> bytes:
    return source.absolute.read_bytes()


def decode(data: bytes) -> tuple[str, str]:
    """Text and encoding of a Python source, as Python finds them: byte order mark, coding line, else UTF-8.

    Raises SyntaxError, UnicodeDecodeError, or LookupError for a codec that makes no text. Line ends stay as they are.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return data.decode(encoding), encoding


class Output:
    """A file or folder that appears as a whole, at commit(), or not at all."""

    def __init__(self, final: Path, source: Path, force: bool, confirm=None) -> None:
        self.final, self.force = final, force
        final_, source_ = final.absolute().resolve(), source.resolve()
        if final_ == source_ or (source_.is_dir() and final_.is_relative_to(source_)):
            raise Refusal(f"the output {final} lies inside the input, which is not to be touched; cure: choose another place with -o")
        if source_.is_relative_to(final_):
            raise Refusal(f"the input lies inside the output {final}; cure: choose another place with -o")
        if final.exists() or final.is_symlink():
            if not force and not (confirm and confirm(final)):
                raise Refusal(f"{final} exists already; cure: --force replaces it")
        try:
            final.parent.mkdir(parents=True, exist_ok=True)
            self.work = final.parent / f".{final.name}.{os.getpid()}.part"
            self.work.mkdir()
        except OSError as error:
            raise Refusal(f"cannot write to {final.parent}: {error.strerror}; cure: choose another place with -o") from None

    def commit(self, produced: Path) -> None:
        """Moves what was made below `work` to its place."""
        old = None
        if self.final.exists() or self.final.is_symlink():
            old = self.work / "replaced"
            os.replace(self.final, old)
        try:
            os.replace(produced, self.final)
        except OSError:
            if old is not None:
                os.replace(old, self.final)
            raise

    def close(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
