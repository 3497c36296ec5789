"""Unions and differences of time spans: what was computed, communicated, both at once, neither."""

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
