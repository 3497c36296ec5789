"""The process that runs checks: a request per line on stdin, news and an answer per line on stdout (JSON). Started by the supervisor."""

from __future__ import annotations

import json
import os
import sys
import warnings

# Operators may print; only answers go to the pipe.
_answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def send(value: dict) -> None:
    _answers.write(json.dumps(value) + "\n")
    _answers.flush()


def main() -> None:
    import torch

    import torch_npu
    from torch_npu.verify import checks, machine
    from torch_npu.verify.outcome import Outcome, is_healthy

    warnings.simplefilter("ignore")
    functions = checks.functions("--quick" in sys.argv)
    threads = torch.get_num_threads()
    try:
        torch.zeros(1, device="npu")
    except RuntimeError as error:
        sys.exit(str(error).partition("\n")[0])
    send({"ready": True})
    for line in sys.stdin:
        name = json.loads(line)["check"]
        if not name:
            send(machine.describe())
            continue
        torch_npu.utils.reset_fallback_counts()
        torch.set_num_threads(threads if name.startswith("time.") else 1)  # small tensors: a team of threads costs more than it gives
        outcome = Outcome(lambda at: send({"at": at}))
        try:
            functions[name](outcome)
        except Exception as error:  # of the check itself, such as a CPU that lacks a kernel
            outcome.problem("failed", f"the check itself failed: {type(error).__name__}: {error}")
        healthy = outcome.status not in ("refused", "failed") or is_healthy()
        send({**outcome.as_dict(torch_npu.utils.fallback_counts()), "healthy": healthy})
        if not healthy:
            break  # a card in error answers every later call with the same error: the next worker begins anew


if __name__ == "__main__":
    main()
