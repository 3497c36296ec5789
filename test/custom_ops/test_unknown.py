"""Operators that only CANN computes: results on meta tensors, and what softnpu and the checks of a row say."""

import pytest
import torch
from torch.utils._pytree import tree_map_only
from unknown_calls import CASES, COMPRESSED, K_CACHE, V_CACHE, rotary, zeros

ROTARY = rotary(zeros(2, 512), (2, 1, 128))
NAMES = [f"{name}-{number}" for number, (name, *_) in enumerate(CASES)]


def call(device, name, args, kwargs):
    args, kwargs = tree_map_only(torch.Tensor, lambda t: t.to(device), (args, kwargs))
    return getattr(torch.ops.npu, name)(*args, **kwargs)


@pytest.mark.parametrize("name, args, kwargs, shapes", CASES, ids=NAMES)
def test_meta_tensors_have_the_shapes_that_the_official_client_makes(name, args, kwargs, shapes):
    results = call("meta", name, args, kwargs)
    results = () if results is None else results if isinstance(results, tuple) else (results,)
    assert [tuple(t.shape) for t in results] == shapes


@pytest.mark.parametrize("name, args, kwargs, shapes", CASES, ids=NAMES)
def test_softnpu_says_why_it_does_not_compute(name, args, kwargs, shapes):
    with pytest.raises(NotImplementedError, match=r"aclnn\w+: not implemented for softnpu: .{20,}"):
        call("npu", name, args, kwargs)
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]


@pytest.mark.parametrize("device", ["meta", "npu"])
@pytest.mark.parametrize("name, args, kwargs, message", [
    ("npu_matmul_compress_dequant", COMPRESSED, {"offsetX": 1}, "offsetX"),
    ("npu_matmul_compress_dequant", COMPRESSED, {"offsetW": zeros(2)}, "offsetW"),
    ("npu_matmul_compress_dequant", (zeros(2, 3, 4), *COMPRESSED[1:]), {}, "x1 has 3 dimensions, expected 2"),
    ("npu_top_k_top_p_sample", (zeros(4, 64), zeros(4), zeros(4)), {"post_sample": "multiNomial"}, 'post_sample is "multiNomial"'),
    ("npu_top_k_top_p_sample", (zeros(64), zeros(4), zeros(4)), {}, "logits has 1 dimensions, expected 2"),
    ("npu_rope_quant_kvcache", rotary(zeros(2, 2, 2, 512), (2, 1, 128)), {}, "x has 4 dimensions"),
    ("npu_rope_quant_kvcache", (*ROTARY[:4], V_CACHE[..., :0], *ROTARY[5:]), {}, "heads of size 0"),
    ("npu_rope_quant_kvcache", (*ROTARY[:3], K_CACHE[0], *ROTARY[4:]), {}, "k_cache has 3 dimensions"),
    ("npu_dequant_rope_quant_kvcache", rotary(zeros(12, 512), (12, 1, 128)), {}, "x must be int32"),
    ("npu_ffn_worker_batching", (zeros(8), 8, [2, 3, 4, 256]), {"token_dtype": 5}, "token_dtype must be 0"),
])
def test_wrong_arguments_are_refused_by_name(device, name, args, kwargs, message):
    with pytest.raises(RuntimeError, match=message):
        call(device, name, args, kwargs)
