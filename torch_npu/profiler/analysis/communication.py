"""communication.json and communication_matrix.json: the collectives of each step, and what they moved how fast.

softnpu's ranks move data through shared memory, which the tools know as SDMA; nothing here tells waiting from moving, so that
all of a collective's time is transit time.
"""

from collections import defaultdict

from torch_npu.profiler.analysis import naming
from torch_npu.profiler.analysis.trace import Trace

_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIP")


def _bandwidth(size: float, milliseconds: float, packets: dict) -> dict:
    return {"Transit Size(MB)": size, "Transit Time(ms)": milliseconds, "Bandwidth(GB/s)": size / milliseconds if milliseconds else 0,
            "Large Packet Ratio": 0, "Size Distribution": packets}


def _entry(begin: int | None, milliseconds: float, size: float, packets: dict) -> dict:
    times = {"Elapse Time(ms)": milliseconds, "Transit Time(ms)": milliseconds, "Wait Time(ms)": 0, "Synchronization Time(ms)": 0,
             "Idle Time(ms)": 0, "Wait Time Ratio": 0, "Synchronization Time Ratio": 0}
    if begin is not None:
        times = {"Start Timestamp(us)": begin / 1000, **times}
    bandwidth = {kind: _bandwidth(0, 0, {}) for kind in _TRANSPORTS}
    bandwidth["SDMA"] = _bandwidth(size, milliseconds, packets)
    return {"Communication Time Info": times, "Communication Bandwidth Info": bandwidth}


def communication(trace: Trace) -> dict:
    """{step: {p2p or collective: {name@group: ..., "Total Op Info": ...}}}; empty without collectives."""
    names = naming.collective_names(trace.launches)
    steps: dict[str, dict] = defaultdict(lambda: {"p2p": {}, "collective": {}})
    sums: dict = defaultdict(lambda: [0.0, 0.0, {}])
    for launch in trace.launches:
        if launch.kind != "collective":
            continue
        step = f"step{'' if launch.step is None else launch.step}"
        kind = "p2p" if naming.collective(launch.name) in naming.POINT_TO_POINT else "collective"
        milliseconds, size = launch.duration / 1e6, launch.bytes / 1e6
        packets = {str(size): [1, milliseconds]} if size else {}
        name = f"{names[launch.correlation]}@{naming.group_number(launch.detail)}"
        steps[step][kind][name] = _entry(launch.begin, milliseconds, size, packets)
        whole = sums[step, kind]
        whole[0] += milliseconds
        whole[1] += size
        for packet, (count, time) in packets.items():
            before = whole[2].get(packet, [0, 0.0])
            whole[2][packet] = [before[0] + count, before[1] + time]
    for (step, kind), (milliseconds, size, packets) in sums.items():
        steps[step][kind]["Total Op Info"] = _entry(None, milliseconds, size, packets)
    return dict(steps)
