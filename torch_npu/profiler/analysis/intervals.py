"""Unions and differences of time spans: what was computed, communicated, both at once, neither."""

from bisect import bisect_left

Spans = list[tuple[int, int]]


def union(spans) -> Spans:
    """Merged and in order."""
    merged: Spans = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > begin:
            merged.append((begin, end))
    return merged


def cut_at(functions: list, ranges: list) -> None:
    """A range that one function begins and another one ends: the first then ends where it begins, the second begins where it ends.

    In a viewer slices of a lane are apart or inside each other; it leaves out what is neither.
    """
    ranges = sorted(ranges, key=lambda entry: (entry.begin, -entry.end))
    begins = [entry.begin for entry in ranges]
    outer: list[int] = []  # the range around each, by its place
    open_ranges: list[int] = []
    for place, entry in enumerate(ranges):
        while open_ranges and ranges[open_ranges[-1]].end <= entry.begin:
            open_ranges.pop()
        outer.append(open_ranges[-1] if open_ranges else -1)
        open_ranges.append(place)

    def around(time: int):
        place = bisect_left(begins, time) - 1
        while place >= 0:
            if ranges[place].end > time:
                yield ranges[place]
            place = outer[place]

    for function in functions:
        function.end = min((entry.begin for entry in around(function.end) if entry.begin > function.begin), default=function.end)
        function.begin = max((entry.end for entry in around(function.begin) if entry.end < function.end), default=function.begin)


def minus(spans: Spans, other: Spans) -> Spans:
    """What of `spans` is not in `other`; both merged and in order."""
    rest: Spans = []
    place = 0
    for begin, end in spans:
        while place < len(other) and other[place][1] <= begin:
            place += 1
        at = place
        while at < len(other) and other[at][0] < end:
            if other[at][0] > begin:
                rest.append((begin, other[at][0]))
            begin = max(begin, other[at][1])
            at += 1
        if begin < end:
            rest.append((begin, end))
    return rest


def total(spans: Spans) -> int:
    return sum(end - begin for begin, end in spans)


class Overlap:
    """How a card's time divides: `launches` are those of one card, in one step or in all."""

    def __init__(self, launches):
        launches = list(launches)
        self.computing = union((entry.begin, entry.end) for entry in launches if entry.kind in ("kernel", "graph"))
        self.communication = union((entry.begin, entry.end) for entry in launches if entry.kind == "collective")
        self.uncovered = minus(self.communication, self.computing)
        busy = union([*self.computing, *self.communication])
        self.whole = (min((entry.begin for entry in launches), default=0), max((entry.end for entry in launches), default=0))
        self.free = minus([self.whole], busy) if launches else []
        self.receiving = union((entry.begin, entry.end) for entry in launches if entry.kind == "collective" and "recv" in entry.name)
