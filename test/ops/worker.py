"""A process that runs comparisons one at a time: a request per line on stdin, an answer per line on stdout (JSON)."""

import json
import os
import re
import sys
import time
import warnings
from dataclasses import asdict

# Operators may print; only answers go to the pipe.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import errors  # noqa: E402
import hidden_copies  # noqa: E402
import large_inputs  # noqa: E402
import modules  # noqa: E402
import opinfo  # noqa: E402
import optimizers  # noqa: E402
import random_inputs  # noqa: E402
import refused_types  # noqa: E402
import torch  # noqa: E402

import torch_npu  # noqa: E402

warnings.simplefilter("ignore")
torch.set_num_threads(1)


DATABASES = {"ops": opinfo, "errors": errors, "modules": modules, "optim": optimizers, "random": random_inputs,
             "trace": hidden_copies, "types": refused_types}


def answer(value: dict) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def launched() -> list[str]:
    """Names of the device operators in softnpu's trace, which the parent empties before each request."""
    text = os.pread(2, os.fstat(2).st_size, 0).decode(errors="replace")
    return sorted(set(re.findall(r"\b(?:aclnn|softnpu)[A-Z]\w*", text)))


torch.zeros(1, device="npu")
answer({"ready": True})
for line in sys.stdin:
    request = json.loads(line)
    torch_npu.utils.reset_fallback_counts()
    start = time.monotonic()
    database = large_inputs if request["op"].startswith(large_inputs.PREFIX) else DATABASES[request["database"]]
    comparison = database.Comparison(request["op"], getattr(torch, request["dtype"]), request["limit"])
    if request.get("tolerances"):
        comparison.tolerances = request["tolerances"]
    checks = {name: asdict(result) for name, result in comparison.run().items()}
    answer({"checks": checks, "missing": sorted(torch_npu.utils.fallback_counts()),
            "fallback_calls": torch_npu.utils.fallback_counts(), "launched": launched(),
            "found": sorted(getattr(comparison, "found", ())), "seconds": round(time.monotonic() - start, 3)})
