"""Operators whose time is the kernel's: npu : cpu at the same number of threads. Run: python benchmarks/kernels.py

Wall-clock time with a synchronise after each call, one call of each side in turn, medians. Nothing is asserted; a figure
over its "must" is marked.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from slices import interleaved, table

import torch_npu  # noqa: F401  (works without autoload too)


def cases(device: str) -> dict[str, tuple]:
    """Name -> (function, must)."""
    torch.manual_seed(0)

    def random(*shape):
        return torch.randn(*shape).to(device)

    matrix, image, kernel = random(1024, 1024), random(8, 32, 56, 56), random(64, 32, 3, 3)
    rows, more_rows, weight, bias = random(2048, 1024), random(4096, 1024), random(1024), random(1024)
    large = torch.ones(64 << 20, device=device)
    spare = torch.empty_like(large)
    query, key, value = (random(4, 8, 256, 64) for _ in range(3))
    table, ids = random(30000, 256), torch.randint(30000, (8192,)).to(device)
    numbers, places = random(1 << 20), torch.randint(1024, (2048, 512)).to(device)
    short_matrix, short_image, short_kernel = matrix[:256, :256].half(), image[:2, :, :28, :28].half(), kernel.half()
    short_query, short_key, short_value = (t[:, :, :128].half() for t in (query, key, value))
    return {
        "matmul 1024 x 1024": (lambda: matrix @ matrix, 1.05),
        "conv2d 8x32x56x56, 64 of 3x3": (lambda: F.conv2d(image, kernel, padding=1), 1.05),
        "softmax 2048 x 1024": (lambda: rows.softmax(-1), 1.05),
        "layer_norm 2048 x 1024": (lambda: F.layer_norm(rows, (1024,), weight, bias), 1.05),
        "layer_norm 4096 x 1024": (lambda: F.layer_norm(more_rows, (1024,), weight, bias), 1.05),
        "copy 256 MB": (lambda: spare.copy_(large), 1.05),
        "SDPA 4x8x256x64": (lambda: F.scaled_dot_product_attention(query, key, value), 1.05),
        "sort 2^20": (lambda: numbers.sort(), 1.05),
        "embedding 8192 of 30000 x 256": (lambda: F.embedding(ids, table), 1.2),
        "gather 2048 x 512 of 2048 x 1024": (lambda: rows.gather(1, places), 1.2),
        "float16 matmul 256 x 256": (lambda: short_matrix @ short_matrix, 1.05),
        "float16 conv2d 2x32x28x28, 64 of 3x3": (lambda: F.conv2d(short_image, short_kernel, padding=1), 1.05),
        "float16 SDPA 4x8x128x64": (lambda: F.scaled_dot_product_attention(short_query, short_key, short_value), 1.05),
    }


def synchronized(function):
    def run():
        function()
        torch.npu.synchronize()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--slices", type=int, default=60)
    parser.add_argument("--cpu-time", action="store_true", help="CPU time of the process instead of wall-clock time, for a busy machine")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cpu, npu = cases("cpu"), cases("npu")
    rows = []
    clock = time.process_time_ns if options.cpu_time else time.perf_counter_ns
    with torch.no_grad():
        for name, (function, must) in cpu.items():
            pair = {"cpu": function, "npu": synchronized(npu[name][0])}
            times = interleaved(pair, slices=options.slices, calls=1, clock=clock)
            ratio = times["npu"] / times["cpu"]
            mark = "" if ratio <= must else "  over"
            rows.append((name, f"{times['npu'] / 1e6:.2f}", f"{times['cpu'] / 1e6:.2f}", f"{ratio:.2f}", f"<= {must}{mark}"))
    print(table(rows, ("kernel", "npu ms", "cpu ms", "npu : cpu", "must")))


if __name__ == "__main__":
    main()
