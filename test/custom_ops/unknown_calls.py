"""Calls of operators that only CANN computes (csrc/ops/tables/unknown.yaml): (operator, arguments, keyword arguments, shapes of results).

No reference exists. test_unknown.py holds meta functions and refusals against this list, test/official/calls.py what is sent against
what the official client sends.
"""

import torch


def zeros(*shape, dtype=torch.float16):
    return torch.zeros(shape, dtype=dtype)


I8, I32, I64, F32, BF16 = torch.int8, torch.int32, torch.int64, torch.float32, torch.bfloat16
K_CACHE, V_CACHE = zeros(4, 16, 5, 32, dtype=I8), zeros(4, 16, 3, 64, dtype=I8)  # which one says the heads shows in the shapes


def rotary(x, cos_sizes, dtype=torch.float16):
    cos = zeros(*cos_sizes, dtype=dtype)
    return x, cos, cos, K_CACHE, V_CACHE, zeros(x.shape[0], dtype=I32), zeros(8, dtype=F32), zeros(8, dtype=F32), [256, 128, 128]


def steps(*shape):
    places = (zeros(*shape[:1], dtype=I64) for _ in range(3))
    return [zeros(*shape, dtype=I64), zeros(8, 2, dtype=I64), *places, zeros(8, 2, dtype=I64), 8, 8, 16]


def worker(shape):
    return [zeros(*shape), *(zeros(shape[0], dtype=I32) for _ in range(3))]


TO_FFN = (*worker((2, 4, 64)), zeros(2, 4, 3, dtype=I32), zeros(2, 9, 4, dtype=I32), "group", 4, [2, 3, 5], [2, 3, 4, 4, 64], [2, 4, 4], 8)
TO_ATTENTION = (*worker((8, 64)), zeros(8, dtype=I32), zeros(1, dtype=I64), "group", 4, [2, 3, 5], [2, 3, 4, 5, 64])
COMPRESSED = (zeros(4, 32, dtype=I8), zeros(200, dtype=I8), zeros(40, dtype=I8), zeros(1, 16, dtype=I32), zeros(1, 16, dtype=I64))
ONE, STEP = zeros(dtype=F32), zeros(1, dtype=I64)
BATCHED = [(8, 2), *[(24,)] * 5, (1,)]
CACHES = [(4, 16, 5, 32), (4, 16, 3, 64)]
SCALES = {"offset_k": zeros(8, dtype=F32), "offset_v": zeros(8, dtype=F32)}
SUMS = {"weight_scale": zeros(512, dtype=F32), "activation_scale": zeros(12, dtype=F32), "bias": zeros(512, dtype=F32)}

CASES = [
    ("_npu_silent_check_v2", (ONE, zeros(3, 4), zeros(3, dtype=F32), STEP, 7, 1e6, 1e5, 1e4, 1e3, 1), {}, [(1,)]),
    ("_npu_silent_check_v3", (ONE, zeros(3, 4), STEP, ONE, ONE, 1e6, 1e4, 0.99, 1), {}, [(1,)]),
    ("_npu_silent_check_v3", (ONE, zeros(3, 4).t(), STEP, ONE, ONE, 1e6, 1e4, 0.5, 0), {}, [(1,)]),
    ("attention_worker_scheduler", (zeros(1024, dtype=I8),), {}, [(1024,)]),
    ("attention_worker_scheduler_", (zeros(1024, dtype=I8),), {}, [(1024,)]),
    ("ffn_worker_scheduler", (zeros(1024, dtype=I8),), {"sync_group_size": 2, "execute_mode": 1}, [(1024,)]),
    ("ffn_worker_scheduler_", (zeros(1024, dtype=I8),), {"sync_group_size": 3}, [(1024,)]),
    ("npu_advance_step_flashattn", steps(8, 1), {}, []),
    ("npu_advance_step_flashattn", steps(16), {"spec_token": zeros(8, 1, dtype=I64), "accepted_num": zeros(8, dtype=I64)}, []),
    ("npu_attention_to_ffn", TO_FFN, {}, []),
    ("npu_attention_to_ffn", TO_FFN,
     {"scales": zeros(9, 64, dtype=F32), "active_mask": zeros(2, 4, dtype=torch.bool), "quant_mode": 2, "sync_flag": 1,
      "ffn_start_rank_id": 1}, []),
    ("npu_ffn_to_attention", TO_ATTENTION, {}, []),
    ("npu_ffn_to_attention", TO_ATTENTION, {"attn_rank_table": zeros(3, dtype=I32)}, []),
    ("npu_ffn_worker_batching", (zeros(1024, dtype=I8), 8, [2, 3, 4, 256]), {}, [(24, 256), *BATCHED]),
    ("npu_ffn_worker_batching", (zeros(1024, dtype=I8), 8, [2, 3, 4, 256]),
     {"token_dtype": 2, "need_schedule": 1, "layer_num": 3}, [(24, 256), *BATCHED]),
    ("npu_matmul_compress_dequant", COMPRESSED, {}, [(4, 16)]),
    ("npu_matmul_compress_dequant", COMPRESSED, {"offsetX": 0}, [(4, 16)]),
    ("npu_rope_quant_kvcache", rotary(zeros(4, 3, 512), (4, 3, 1, 128)), {}, [(4, 3, 4, 64), (0,), (0,), *CACHES]),
    ("npu_rope_quant_kvcache", rotary(zeros(12, 512), (12, 1, 128), BF16),
     {"kv_output": True, "cache_mode": "page", "quant_mode": 1, **SCALES},
     [(12, 4, 64), (12, 3, 64), (12, 3, 64), *CACHES]),
    ("npu_dequant_rope_quant_kvcache", rotary(zeros(4, 3, 512, dtype=I32), (4, 3, 1, 128)), {"kv_output": True, **SUMS},
     [(4, 3, 4, 64), (4, 3, 3, 64), (4, 3, 3, 64), *CACHES]),
    ("npu_dequant_rope_quant_kvcache", rotary(zeros(12, 512, dtype=I32), (12, 1, 128)), {"cache_mode": "page", "quant_mode": 1},
     [(12, 4, 64), (0,), (0,), *CACHES]),
    ("npu_top_k_top_p_sample", (zeros(4, 64), zeros(4, dtype=I32), zeros(4)), {}, [(4,), (4, 64)]),
    ("npu_top_k_top_p_sample", (zeros(4, 64, dtype=BF16), zeros(4, dtype=I32), zeros(4, dtype=BF16), zeros(4, 64, dtype=F32)),
     {"eps": 1e-6, "is_need_logits": True, "top_k_guess": 16, "min_ps": zeros(4, dtype=BF16), "ks_max": 512, "input_is_logits": False},
     [(4,), (4, 64)]),
    ("npu_top_k_top_p_sample", (zeros(4, 64), zeros(4, dtype=I32), zeros(4), *[None] * 8), {}, [(4,), (4, 64)]),
]
