"""Fused operators on npu beside their plain composition on the CPU, at the same number of threads. Run: python benchmarks/fused.py

Wall-clock time with a synchronise after each call, one call of each side in turn, medians. Attention is compared with the CPU's SDPA,
in memory too: the peak of one call beyond its inputs and outputs, on the host and on the card, in a process of its own.
Nothing is asserted; a figure that misses its "must" is marked.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from kernels import synchronized
from slices import interleaved, table

import torch_npu

EPS = 1e-6


def rms_norm(x, gamma):
    wide = x.float()
    return (wide * (wide.square().mean(-1, keepdim=True) + EPS).rsqrt() * gamma.float()).to(x.dtype)


def swiglu(x):
    gate, linear = x.chunk(2, -1)
    return F.silu(gate) * linear


def rotary(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def masked_softmax(x, mask, scale):
    return (x.float() * scale).masked_fill(mask, -10000.0).softmax(-1).to(x.dtype)


def cases(dtype: torch.dtype):
    """Name, function of the npu, plain composition, their arguments."""
    torch.manual_seed(0)
    for rows, width in ((512, 1024), (2048, 4096)):
        x, y, gamma = torch.randn(rows, width, dtype=dtype), torch.randn(rows, width, dtype=dtype), torch.randn(width, dtype=dtype)
        size = f"{rows} x {width}"
        yield f"rms_norm {size}", lambda x, g: torch_npu.npu_rms_norm(x, g, EPS), rms_norm, (x, gamma)
        yield (f"add_rms_norm {size}", lambda x, y, g: torch_npu.npu_add_rms_norm(x, y, g, EPS),
               lambda x, y, g: rms_norm(x + y, g), (x, y, gamma))
        yield f"swiglu {size}", torch_npu.npu_swiglu, swiglu, (x,)
    heads = torch.randn(2, 1024, 16, 64, dtype=dtype)
    angles = torch.randn(1, 1024, 1, 64, dtype=dtype)
    yield "rotary 2 x 1024 x 16 x 64", torch_npu.npu_rotary_mul, rotary, (heads, angles.cos(), angles.sin())
    scores, mask = torch.randn(4, 8, 512, 512, dtype=dtype), torch.rand(4, 1, 512, 512) > 0.5
    yield ("scaled masked softmax 4 x 8 x 512 x 512", lambda x, m: torch_npu.npu_scaled_masked_softmax(x, m, 0.125, False),
           lambda x, m: masked_softmax(x, m, 0.125), (scores, mask))


def attention(length: int, dtype: torch.dtype):
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 8, length, 64, dtype=dtype) for _ in range(3))
    on_card = [t.npu() for t in (query, key, value)]
    scale = 1 / math.sqrt(64)
    return (lambda: torch_npu.npu_fusion_attention(*on_card, 8, "BNSD", scale=scale)[:3],
            lambda: F.scaled_dot_product_attention(query, key, value))


def resident(field: str) -> int:
    """Bytes: VmRSS is the resident set now, VmHWM its peak."""
    return int(re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


def peak(side: str, length: int) -> int:
    """Bytes that one call of attention needs at its peak beyond its inputs and outputs: what the caching allocator gives away, and what
    the resident set grows by. For a process of its own: a call before leaves the pages of the card in place, and none of the heap."""
    which = ("npu", "cpu").index(side)
    function = attention(length, torch.float32)[which]
    outputs = sum(t.nbytes for t in function() if t.dim()) if side == "npu" else function().nbytes
    torch.npu.synchronize()
    ctypes.CDLL(None).malloc_trim(0)
    torch.npu.reset_peak_memory_stats()
    on_card = torch.npu.memory_allocated()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    on_host = resident("VmRSS")
    function()
    torch.npu.synchronize()
    return torch.npu.max_memory_allocated() - on_card + resident("VmHWM") - on_host - outputs


def peak_of_fresh_process(side: str, length: int, threads: int) -> int:
    command = [sys.executable, __file__, "--peak", side, str(length), "--threads", str(threads)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of the process instead of wall-clock time, for a busy machine")
    parser.add_argument("--peak", nargs=2, metavar=("SIDE", "LENGTH"), help="only print the memory of attention on npu or cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    if options.peak:
        print(peak(options.peak[0], int(options.peak[1])))
        return
    clock = time.process_time_ns if options.cpu_time else time.perf_counter_ns
    rows = []

    def compare(name: str, dtype: torch.dtype, npu, cpu, must: float, faster: bool) -> None:
        times = interleaved({"cpu": cpu, "npu": synchronized(npu)}, slices=options.slices, calls=1, clock=clock)
        ratio = times["cpu"] / times["npu"] if faster else times["npu"] / times["cpu"]
        met = ratio >= must if faster else ratio <= must
        rows.append((name, str(dtype).removeprefix("torch."), f"{times['npu'] / 1e6:.2f}", f"{times['cpu'] / 1e6:.2f}",
                     f"{ratio:.2f}", f"{'>=' if faster else '<='} {must}" + ("" if met else "  missed")))

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for name, fused, plain, arguments in cases(dtype):
            on_card = [a.npu() for a in arguments]
            compare(name, dtype, lambda f=fused, a=on_card: f(*a), lambda f=plain, a=arguments: f(*a), 2.0, faster=True)
    memory = []
    for length in (1024, 2048, 4096):
        npu, cpu = (statistics.median(peak_of_fresh_process(side, length, options.threads) for _ in range(3)) for side in ("npu", "cpu"))
        memory.append((f"attention, {length} keys : SDPA", f"{npu / 2**20:.2f}", f"{cpu / 2**20:.2f}", f"{npu / cpu:.2f}",
                       "<= 1.2" + ("" if npu <= 1.2 * cpu else "  missed")))
        compare(f"attention, {length} keys : SDPA", torch.float32, *attention(length, torch.float32), 1.0, faster=False)
    print(f"{options.threads} threads, TASK_QUEUE_ENABLE at its default; composition : fused, for attention fused : SDPA")
    print(table(rows, ("operator", "type", "npu ms", "cpu ms", "ratio", "must")))
    print("\nMemory of attention at the peak of one call, beyond its inputs and outputs")
    print(table(memory, ("operator", "npu MiB", "cpu MiB", "ratio", "must")))


if __name__ == "__main__":
    main()
