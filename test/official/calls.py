"""What this project's adapter sends to the device for a custom operator is what the official client sends.

Usage: python calls.py OFFICIAL_PYTHON [CASE...], with the python that has this project's torch_npu; ci/official.sh does it. Both clients
run the cases of custom_ops.py on softnpu, whose trace has the operators that run and their arguments; the two traces are compared.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase

MARK, CALL = "== ", "softnpu: card 0 stream "  # lines before and of the calls of a case
# Cases in which the two differ for a reason. `gradient`: what its backward pass sends.
OTHERWISE = {
    "_gru_npu*": "the steps are views of one tensor here, and stacked there",
    "_lstm_npu*": "the same; a gradient that is not there is zeros here",
    "_npu_dtype_cast*-empty*": "to the type that it has, of no elements: a conversion here",
    "_npu_dtype_cast*-bfloat16*": "to the type that it has: a copy there, a conversion here",
    "_npu_format_cast*-five dimensions*": "the client returns its argument where nothing changes",
    "_npu_format_cast*-ND*": "the client returns its argument where nothing changes",
    "batch_norm_gather_stats_update*": "a composition: the counts are converted, and what is missing is made, in another order",
    "fft_*_backward*": "the client multiplies by the matrix of the transform",
    "matmul_double_backward*": "a composition: upstream's products here, a sum with zeros there",
    "npu_add_rms_norm_dynamic_quant-*": "a second result that is not asked for has no elements here, and one there",
    "npu_anchor_response_flags*": "a composition; the client refuses bfloat16",
    "npu_apply_rotary_pos_emb-*": "the operator writes query and key: they are copied here, and changed there",
    "npu_fusion_attention_v2-rows in order*": "the client does not send softmax_layout without a sink",
    "npu_gather_sparse_index* gradient": "the index of an addition has one dimension here",
    "npu_gather_sparse_index_backward*": "the same",
    "npu_grouped_matmul_add*": "the client adds to the input and copies then",
    "npu_convert_weight_to_int4pack*": "the client packs on the host",
    "*npu_moe_token_unpermute-shape said* gradient": "the same, and restore_shape is read with padded_mode only",
    "*npu_moe_token_unpermute-without probs gradient": "the client leaves out the tokens from CANN 9 on; they are always sent here",
    "npu_moe_token_unpermute_grad*": "the client sends a list that is no longer there for restore_shape",
    "npu_moe_token_unpermute_with_routing_map-padded* gradient": "the order of the rows is found again here, and kept there",
    "npu_mrope*": "the client sends a list that is no longer there for mrope_section",
    "npu_renorm_backward*": "a composition: upstream's formula here",
    "npu_reshape.out*": "the result of the form without out is copied here",
    "npu_sign_bits_pack*": "a composition; the client refuses bfloat16",
    "one_*": "aclnnInplaceFillScalar here",
    "stft_backward*": "a composition around the Fourier transform",
}


def run_here(chosen):
    """Either client: marks on stderr, between the lines of the trace."""
    from functools import partial

    import torch
    from custom_ops import arguments, cases, exceptions, gradients, operator
    from torch.utils._pytree import tree_leaves, tree_map_only

    def recorded(name, function):
        torch.npu.synchronize()
        os.write(2, f"{MARK}{name}\n".encode())
        try:
            function()
            torch.npu.synchronize()
        except RuntimeError as error:
            os.write(2, f"{CALL}0: refused\n{error}\n".encode())
        os.write(2, f"{MARK}\n".encode())

    def narrow(tree):
        return tree_map_only(torch.Tensor, lambda t: t.bfloat16() if t.dtype == torch.float32 else t, tree)

    apart = exceptions()
    for case in cases():
        if chosen and str(case) not in chosen:
            continue
        variants = {str(case): case}
        if torch.bfloat16 not in {t.dtype for t in tree_leaves((case.args, case.kwargs)) if isinstance(t, torch.Tensor)}:
            variants[f"{case} bfloat16"] = replace(case, args=narrow(case.args), kwargs=narrow(case.kwargs))
        for name, each in variants.items():
            args, kwargs = arguments(each, "npu")
            recorded(name, partial(operator(each), *args, **kwargs))
            if case.grad and f"{case} gradient" not in apart:
                recorded(f"{name} gradient", partial(gradients, each, "npu", operator(each)))


def run_unknown():
    """Either client: operators that softnpu refuses. What they were given stands in the recording."""
    import torch
    from torch.utils._pytree import tree_map_only

    sys.path.append(os.path.join(os.path.dirname(__file__), "../custom_ops"))
    from unknown_calls import CASES

    import torch_npu  # noqa: F401

    for name, *arguments, _ in CASES:
        args, kwargs = tree_map_only(torch.Tensor, lambda t: t.npu(), arguments)
        try:
            getattr(torch.ops.npu, name)(*args, **kwargs)
        except RuntimeError:
            continue
        sys.exit(f"{name} was not refused")


def record_unknown(python, environment):
    """[(operator, arguments)] of the calls that softnpu refused."""
    with tempfile.NamedTemporaryFile("r") as file:
        subprocess.run([python, __file__, "--unknown"], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       env={**os.environ, **environment, "SOFTNPU_RECORD": file.name, "TASK_QUEUE_ENABLE": "0"})
        lines = [json.loads(line) for line in file]
    return [(line["f"], line["a"]) for line in lines if line["f"].startswith("aclnn") and line["rc"]]


def compare_unknown(official):
    theirs = record_unknown(official, {"PYTHONPATH": ""})
    ours = record_unknown(sys.executable, {"TORCH_NPU_RUNTIME": "soft"})
    wrong = [pair for pair in zip(theirs, ours, strict=False) if pair[0] != pair[1]]
    for there, here in wrong:
        print(f"  official {there}\n  here     {here}")
    print(f"calls of operators that only CANN computes: {len(theirs)} there, {len(ours)} here, {len(wrong)} otherwise")
    return bool(wrong) or len(theirs) != len(ours) or not theirs


def normal(call):
    """A copy or a change of type is one whoever makes it; copies of inputs, and what happens to a tensor without elements, do not count."""
    copy = re.fullmatch(r"aclnnInplaceCopy\(self: (.*), src: (.*)\)", call)
    if copy and copy[1] == copy[2]:
        return "copy"
    cast = re.fullmatch(r"aclnnCast\(self: (.*), dtype: \w+, out: (.*)\)", call)
    if cast or copy:
        return f"{cast[1]} to {cast[2]}" if cast else f"{copy[2]} to {copy[1]}"
    if call.startswith("copy of"):
        return "" if "host" in call else "copy"
    return "" if re.fullmatch(r"aclnnInplaceZero\(self: \w+\[0\]\)", call) else call


def record(python, environment, chosen):
    """{case: calls}"""
    child = subprocess.run([python, __file__, "--here", *chosen], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                           env={**os.environ, **environment, "SOFTNPU_TRACE": "1", "TASK_QUEUE_ENABLE": "0"}, check=False)
    found, calls = {}, None
    for line in child.stderr.splitlines():
        if line.startswith(MARK):
            calls = found.setdefault(line.removeprefix(MARK), []) if line != MARK else None
        elif calls is not None and line.startswith(CALL) and (text := normal(line.partition(": ")[2].partition(": ")[2])):
            calls.append(text)
    if child.returncode:
        sys.exit(f"calls: {python} ended with status {child.returncode}\n{child.stderr[-3000:]}")
    return found


def is_of_the_interface_before(calls):
    """Whether the client sends some of it through aclopCompileAndExecute, which the adapter never does: it has other operators there."""
    return any(re.match(r"(?!Hccl)[A-Z]\w*\(", call) for call in calls)


def is_of(name, pattern):
    return fnmatchcase(name.replace(" bfloat16", ""), pattern)


def main():
    if sys.argv[1:2] == ["--here"]:
        return run_here(sys.argv[2:])
    if sys.argv[1:2] == ["--unknown"]:
        return run_unknown()
    official, *chosen = sys.argv[1:]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(record, official, {"PYTHONPATH": ""}, chosen),
                pool.submit(record, sys.executable, {"TORCH_NPU_RUNTIME": "soft"}, chosen)]
        theirs, ours = (each.result() for each in runs)
    differ = [name for name in theirs if theirs[name] != ours.get(name)]
    before = {name for name in differ if is_of_the_interface_before(theirs[name])}
    explained = {name for name in differ if any(is_of(name, pattern) for pattern in OTHERWISE)}
    wrong = [name for name in differ if name not in before | explained]
    for name in wrong:
        print(f"---- {name}")
        for client, calls in (("official", theirs[name]), ("here", ours.get(name, ["not run"]))):
            print("\n".join(f"  {client:8} {call}" for call in calls or ["nothing"]))
    stale = [] if chosen else [pattern for pattern in OTHERWISE if not any(is_of(name, pattern) for name in differ)]
    for pattern in stale:
        print(f"---- {pattern}: no case differs any more, OTHERWISE says: {OTHERWISE[pattern]}")
    print(f"calls: {len(theirs)} cases, {len(theirs) - len(differ)} with the same calls, "
          f"{len(before)} through the interface before aclnn there, {len(explained - before)} otherwise for a reason, "
          f"{len(wrong)} otherwise")
    return int(bool(wrong or stale or not theirs) or (not chosen and compare_unknown(official)))


if __name__ == "__main__":
    sys.exit(main())
