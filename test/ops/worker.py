"""A process that runs comparisons one at a time: a request per line on stdin, an answer per line on stdout (JSON)."""

import json
import os
import sys
import time
import warnings
from dataclasses import asdict

# Operators may print; only answers go to the pipe.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import torch  # noqa: E402
from opinfo import Comparison  # noqa: E402

import torch_npu  # noqa: E402

warnings.simplefilter("ignore")
torch.set_num_threads(1)


def answer(value: dict) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


torch.zeros(1, device="npu")
answer({"ready": True})
for line in sys.stdin:
    request = json.loads(line)
    torch_npu.utils.reset_fallback_counts()
    start = time.monotonic()
    comparison = Comparison(request["op"], getattr(torch, request["dtype"]), request["limit"])
    checks = {name: asdict(result) for name, result in comparison.run().items()}
    answer({"checks": checks, "missing": sorted(torch_npu.utils.fallback_counts()), "seconds": round(time.monotonic() - start, 3)})
