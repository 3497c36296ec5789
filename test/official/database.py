"""torch's database of operators through the official wheel on softnpu: forward, and backward in float32, against the CPU.

Usage: python database.py [--types float32,float16] [--samples 2] [--workers 2] [--out FILE] [NAME...], in the environment of ci/official.sh
(`ci/sweep.sh official-opinfo`). The comparison is that of test/ops/opinfo.py. Every operator and type has one of these ends:

    passes      the client has a kernel, and all samples are the CPU's
    fails       it has one, and a result differs, softnpu refused a call of it, or does not have the operator it asked for
    cpu         the client says itself that it has no kernel and would compute on the CPU (TORCH_NPU_FALLBACK_CPU_DISABLE=1 makes it an error)
    refused     the client raised an error of its own, before it called the device
    none        the CPU takes no sample of this type

"Has kernels for" is passes + fails: all that is left when the client itself says no. Failures are listed with their reason; those of
expect.yaml beside this file are known, and any other one, or one of them that passes, ends the program with status 1.
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
FALLBACK = re.compile(r"not currently supported on the NPU|fall ?back")
# What the client says when the device has refused, or lacks, what it was asked.
DEVICE = re.compile(r"call (?:acl|Hccl)|error code is \d|E[A-Z]\d{4}|not in lib|not found|softnpu|aclop|AclSetCompileopt|ERR\d{3}100")


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

    def healthy():
        try:
            return (torch.ones(3).npu() + 1).sum().item() == 6
        except Exception:
            return False

    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        comparison = opinfo.Comparison(request["op"], getattr(torch, request["dtype"]), request["samples"])
        checks = {"forward": comparison.check(comparison.forward, requires_grad=False)}
        if comparison.dtype is torch.float32 and comparison.op.supports_autograd and healthy():
            checks["backward"] = comparison.check(comparison.backward, requires_grad=True)
        answer({"checks": {name: asdict(result) for name, result in checks.items()}, "healthy": healthy()})


def end_of(check):
    """The word of the list above for one check."""
    detail = check["detail"]
    if check["status"] != "fail":
        return {"pass": "passes", "none": "none"}.get(check["status"], "fails")
    if FALLBACK.search(detail):
        return "cpu"
    if DEVICE.search(detail) or "AssertionError" in detail:
        return "fails"
    return "refused"


def pair_end(checks):
    ends = [end_of(check) for check in checks.values()]
    return next(end for end in ("fails", "cpu", "refused", "passes", "none") if end in ends)


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
                report(op, dtype, given["checks"])
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

    def report(op, dtype, checks):
        rows.append({"op": op, "dtype": dtype, "end": pair_end(checks), "checks": checks})
        print(f"\r{len(rows)}/{len(todo)} {dict(Counter(row['end'] for row in rows))} {op[:40]:40}", end="", file=sys.stderr, flush=True)

    todo = [pair for pair in pairs(options.types.split(",")) if not options.names or pair[0] in options.names]
    compare_all(todo, options.samples, options.workers, report)
    print(file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(sorted(rows, key=lambda row: (row["op"], row["dtype"])), indent=1))


if __name__ == "__main__":
    sys.exit(main())
