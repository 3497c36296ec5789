"""A bar that shows how many files are done. Only a terminal sees it."""

import sys
from collections.abc import Iterable, Iterator

_WIDTH = 30


class Progress:
    def __init__(self, stream=None) -> None:
        self._stream = stream or sys.stderr

    def over(self, entries: Iterable) -> Iterator:
        """Yields the entries (which have a `path`) and draws the bar as they are taken."""
        entries = list(entries)
        shown = self._stream.isatty()
        for count, entry in enumerate(entries, 1):
            if shown:
                bar = "#" * (_WIDTH * count // len(entries))
                print(f"\r[{bar:<{_WIDTH}}] {count}/{len(entries)} {entry.shown[-40:]:<40}", end="", file=self._stream, flush=True)
            yield entry
        if shown and entries:
            print(file=self._stream)
