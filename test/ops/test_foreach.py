"""Operators over lists of tensors: those of torch's foreach databases on npu equal the CPU, in both forms, with the fallback forbidden."""

import itertools

import pytest
import torch
from against_cpu import assert_no_fallback
from opinfo import copy_tensor, tensors
from torch.testing._internal import common_methods_invocations as database
from torch.utils._pytree import tree_map_only

import torch_npu

INFOS = [info for kind in ("unary", "binary", "pointwise", "reduce", "other") for info in getattr(database, f"foreach_{kind}_op_db")]
SAMPLES = 12  # of each type: some hundreds of the same kind follow
DTYPES = (torch.float32, torch.bfloat16, torch.int64)


def outcome(function, sample, device):
    """What comes back, and the arguments as they are afterwards."""
    given = tree_map_only(torch.Tensor, lambda tensor: copy_tensor(tensor, device), (sample.input, sample.args, sample.kwargs))
    results = function(given[0], *given[1], **given[2])
    return [tensor.detach().cpu() for tensor in tensors((results, given))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_equals_the_cpu(info, dtype):
    if dtype not in info.supported_dtypes("cpu"):
        pytest.skip("the CPU does not take this type")
    torch.manual_seed(0)
    torch_npu.utils.reset_fallback_counts()
    for sample in itertools.islice(info.sample_inputs("cpu", dtype), SAMPLES):
        for function in filter(None, (info.method_variant, info.inplace_variant)):
            try:
                expected = outcome(function, sample, "cpu")
            except Exception:  # a type that the CPU refuses in this form
                continue
            torch.testing.assert_close(outcome(function, sample, "npu"), expected, equal_nan=True)
    assert_no_fallback()


@pytest.mark.parametrize("call", [
    lambda x: torch._foreach_maximum(x, []),
    lambda x: torch._foreach_mul_(x, [1.0]),
    lambda x: torch._foreach_addcmul(x, x, x, [1.0]),
])
def test_a_number_is_missing(call):
    words = []
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError) as error:
            call([torch.ones(2, device=device) for _ in range(2)])
        words.append(str(error.value).splitlines()[0])
    assert words[0] == words[1]
