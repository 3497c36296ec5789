"""A strict reader of Chrome's trace format: what a viewer would draw wrongly, or leave out, is a sentence."""

from collections import defaultdict

NEEDED = {"X": ("name", "ts", "dur", "pid", "tid"), "B": ("name", "ts", "pid", "tid"), "E": ("ts", "pid", "tid"), "i": ("name", "ts"),
          "s": ("name", "cat", "id", "ts", "pid", "tid"), "t": ("name", "cat", "id", "ts", "pid", "tid"),
          "f": ("name", "cat", "id", "ts", "pid", "tid", "bp"), "M": ("name", "pid", "args"), "C": ("name", "ts", "pid", "args")}
ROUNDING = 1  # nanosecond: times are written as microseconds with three digits


def nanoseconds(value) -> int:
    """From a number or, as profiles of torch_npu write it, a text: no digit is lost in a double."""
    whole, _, part = (value if isinstance(value, str) else f"{value:.3f}").partition(".")
    return int(whole) * 1000 + int((part + "000")[:3])


def problems(events):
    """All that is wrong with the events of a trace."""
    yield from missing_fields(events)
    yield from flows(events)
    yield from unbalanced(events)
    yield from crossing(events)
    yield from nameless(events)


def missing_fields(events):
    for event in events:
        phase = event.get("ph")
        if phase not in NEEDED:
            yield f"there is no phase {phase!r}: {event}"
            continue
        for field in NEEDED[phase]:
            if field not in event:
                yield f"{phase} without {field}: {event}"
        if phase == "X" and float(event["dur"]) < 0:
            yield f"negative duration: {event}"


def flows(events):
    """Both ends of each arrow, in order, and each inside of a slice of its lane."""
    ends = defaultdict(lambda: defaultdict(list))
    slices = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            ends[event["cat"], event["name"], str(event["id"])][event["ph"]].append(event)
        elif event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            slices[event["pid"], event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
    for key, phases in ends.items():
        if len(phases["s"]) != 1 or len(phases["f"]) < 1:
            yield f"flow {key} has {len(phases['s'])} begins and {len(phases['f'])} ends"
            continue
        for event in phases["s"] + phases["f"]:
            at = nanoseconds(event["ts"])
            if not any(begin - ROUNDING <= at <= end + ROUNDING for begin, end in slices[event["pid"], event["tid"]]):
                yield f"flow {key} touches no slice: {event}"
        if min(nanoseconds(end["ts"]) for end in phases["f"]) < nanoseconds(phases["s"][0]["ts"]) - ROUNDING:
            yield f"flow {key} ends before it begins"


def unbalanced(events):
    depth = defaultdict(int)
    for event in sorted((event for event in events if event["ph"] in "BE"), key=lambda event: nanoseconds(event["ts"])):
        lane = event["pid"], event["tid"]
        depth[lane] += 1 if event["ph"] == "B" else -1
        if depth[lane] < 0:
            yield f"E without B in lane {lane}"
    yield from (f"{count} B without E in lane {lane}" for lane, count in depth.items() if count > 0)


def crossing(events):
    """Slices of a lane are apart or inside each other."""
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            begin = nanoseconds(event["ts"])
            lanes[event["pid"], event["tid"]].append((begin, begin + nanoseconds(event["dur"]), event["name"]))
    for lane, slices in lanes.items():
        open_slices = []
        for begin, end, name in sorted(slices, key=lambda entry: (entry[0], -entry[1])):
            while open_slices and open_slices[-1][0] <= begin + ROUNDING:
                open_slices.pop()
            if open_slices and end > open_slices[-1][0] + ROUNDING:
                yield f"lane {lane}: {name} begins in {open_slices[-1][1]} and ends {end - open_slices[-1][0]} ns after it"
            open_slices.append((end, name))


def nameless(events):
    """Each lane with slices has a name, and its process too."""
    named = {kind: set() for kind in ("process_name", "thread_name")}
    for event in events:
        if event["ph"] == "M" and event["name"] in named:
            named[event["name"]].add((event["pid"], event.get("tid")) if event["name"] == "thread_name" else event["pid"])
    lanes = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    for pid, tid in sorted(lane for lane in lanes if isinstance(lane[0], int)):  # kineto's own lanes have texts for numbers
        if pid not in named["process_name"]:
            yield f"process {pid} has no name"
        if (pid, tid) not in named["thread_name"]:
            yield f"lane {tid} of process {pid} has no name"
