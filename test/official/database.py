"""torch's database of operators through the official wheel on softnpu: forward, and backward in float32, against the CPU.

Usage: python database.py [--types float32,float16] [--samples 2] [--workers 2] [--out FILE] [NAME...], in the environment of ci/official.sh
(`ci/sweep.sh official-opinfo`). The comparison is that of test/ops/opinfo.py. Every operator and type has one of these ends:

    passes      the client has a kernel, and its results are the CPU's
    fails       it has one, and a result differs, softnpu refused a call of it, or does not have the operator that it asked for
    cpu         the client says itself that it computes on the CPU (an error with TORCH_NPU_FALLBACK_CPU_DISABLE=1, else a warning)
    refused     the client raised an error of its own for every sample, before it called the device
    none        the CPU takes no sample of this type

"Has kernels for" is passes + fails: what is left when the client itself says no. A sample that the client refuses is left out. Failures are
listed with their reason: one that is not in KNOWN, or one of KNOWN that passes, ends the program with status 1.
"""

import argparse
import json
import os
import re
import sys
import threading
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ops"), str(HERE.parents[1] / "torch_npu/verify")]  # of this project, whatever torch_npu is installed
SECONDS = 300  # for one operator and type
FALLBACK = re.compile(r"CPU fallback is disabled|currently supported on the NPU backend and will fall back|no kernel is registered")
# What the client says without a word from the device.
REFUSED = re.compile(r"ERR\d{2}00[1-9]|is not differentiable with respect to|Could not run 'aten::")
DEVICE = re.compile(r"error code is \d|softnpu|Inner error|ERR\d{2}100")  # and with one
# Operators whose results differ by the client's own doing.
KNOWN = {
    "_native_batch_norm_legit": "the client keeps the statistics of half precision in float32",
    "native_batch_norm": "the same",
    "native_layer_norm": "the same; and those of no rows have one dimension",
    "double": "the client has no float64 and gives float32",
    "float_power": "the same",
    "nn.functional.adaptive_max_pool3d": "the client's indices are int32",
    "nn.functional.max_pool3d": "the same",
    "nn.functional.max_pool1d": "the client's indices are the device's mask, 64 numbers for each window",
    "nn.functional.max_pool2d": "the same",
    "nn.functional.gelu": "the client sends aclnnGelu, without a word of which, for both approximations",
    "nn.functional.binary_cross_entropy_with_logits": "the client has no gradient for the target",
}


def run_worker():
    """A process that answers one request after the other: {"op", "dtype", "samples"} on stdin, a line of JSON on stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # operators may print
    import opinfo
    import torch

    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.zeros(1, device="npu")

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    class Comparison(opinfo.Comparison):
        """Without the samples that the client refuses, which are counted."""

        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.refusals = []

        def check(self, function, requires_grad):
            def tried(sample):
                try:
                    return function(sample)
                except Exception as error:
                    detail = opinfo.describe_error(error)
                    if not FALLBACK.search(detail) and REFUSED.search(detail) and not DEVICE.search(detail):
                        self.refusals.append(detail)
                        return False
                    raise

            return super().check(tried, requires_grad)

    def healthy():
        try:
            return (torch.ones(3).npu() + 1).sum().item() == 6
        except Exception:
            return False

    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        comparison = Comparison(request["op"], getattr(torch, request["dtype"]), request["samples"])
        checks = {"forward": comparison.check(comparison.forward, requires_grad=False)}
        if comparison.dtype is torch.float32 and comparison.op.supports_autograd and healthy():
            checks["backward"] = comparison.check(comparison.backward, requires_grad=True)
        warned = os.pread(2, os.fstat(2).st_size, 0).decode(errors="replace")
        answer({"checks": {name: asdict(result) for name, result in checks.items()}, "refusals": comparison.refusals[:3],
                "on_cpu": bool(FALLBACK.search(warned)), "healthy": healthy()})


def end_of(given):
    """One of the words above for an operator and type."""
    failed = [check["detail"] for check in given["checks"].values() if check["status"] not in ("pass", "none")]
    if given.get("on_cpu") or any(FALLBACK.search(detail) for detail in failed):
        return "cpu"
    if failed:
        return "fails"
    if any(check["status"] == "pass" for check in given["checks"].values()):
        return "passes"
    return "refused" if given.get("refusals") else "none"


def pairs(types):
    import opinfo
    import torch

    return [(name, str(dtype).removeprefix("torch.")) for name, dtype in opinfo.pairs([getattr(torch, t) for t in types])]


def compare_all(todo, samples, workers, report):
    from process import Worker

    environment = {**os.environ, "TORCH_NPU_FALLBACK_CPU_DISABLE": "1", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    waiting, lock = list(reversed(todo)), threading.Lock()

    def serve():
        worker = None
        while True:
            with lock:
                if not waiting:
                    break
                op, dtype = waiting.pop()
            try:
                worker = worker or Worker([sys.executable, __file__, "--worker"], environment)
                given = worker.ask({"op": op, "dtype": dtype, "samples": samples}, SECONDS)
            except (TimeoutError, ChildProcessError, BrokenPipeError) as error:
                given = {"checks": {"forward": {"status": "crash", "samples": 0, "detail": str(error)}}, "healthy": False}
            if not given["healthy"]:
                if worker:
                    worker.stop()
                worker = None
            with lock:
                report(op, dtype, given)
        if worker:
            worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    if sys.argv[1:] == ["--worker"]:
        return run_worker()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operators of the database (default: all)")
    parser.add_argument("--types", default="float32,float16", help="with commas")
    parser.add_argument("--samples", type=int, default=2, help="of each operator, type and pass")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("build/sweep/official-opinfo.json"))
    options = parser.parse_args()
    rows = []

    def report(op, dtype, given):
        rows.append({"op": op, "dtype": dtype, "end": end_of(given), **given})
        print(f"\r{len(rows)}/{len(todo)} {dict(Counter(row['end'] for row in rows))} {op[:40]:40}", end="", file=sys.stderr, flush=True)

    todo = [pair for pair in pairs(options.types.split(",")) if not options.names or pair[0] in options.names]
    compare_all(todo, options.samples, options.workers, report)
    print(file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows.sort(key=lambda row: (row["op"], row["dtype"]))
    options.out.write_text(json.dumps(rows, indent=1))
    return summary(rows)


def summary(rows):
    failing = {row["op"] for row in rows if row["end"] == "fails"}
    for row in rows:
        if row["end"] == "fails":
            for name, check in row["checks"].items():
                if check["status"] not in ("pass", "none"):
                    print(f"fails: {row['op']} {row['dtype']} {name}: {KNOWN.get(row['op'], 'NOT KNOWN')}\n    {check['detail'][:300]}")
    for dtype in sorted({row["dtype"] for row in rows}):
        print(f"{dtype}: {told([row['end'] for row in rows if row['dtype'] == dtype])}")
    by_operator = {}
    for row in rows:
        by_operator.setdefault(row["op"], []).append(row["end"])
    worst = [next(end for end in ("fails", "passes", "cpu", "refused", "none") if end in ends) for ends in by_operator.values()]
    print(f"operators: {told(worst)}")
    new, stale = sorted(failing - KNOWN.keys()), sorted((KNOWN.keys() & by_operator.keys()) - failing)
    print(f"failing and not in KNOWN: {', '.join(new) or 'none'}; in KNOWN and not failing: {', '.join(stale) or 'none'}")
    return int(bool(new or stale))


def told(ends):
    count = Counter(ends)
    kernels = count["passes"] + count["fails"]
    return (f"{len(ends)}, the client has kernels for {kernels}: {count['passes']} pass ({100 * count['passes'] / max(kernels, 1):.1f} %), "
            f"{count['fails']} fail; it computes {count['cpu']} on the CPU, refuses {count['refused']}; no samples of {count['none']}")


if __name__ == "__main__":
    sys.exit(main())
