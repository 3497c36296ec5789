"""Cases of torch.ops.atb: six for each operator, over sequences, heads, slots and lengths. test_atb.py runs them in three types."""

import atb_masked_cases as masked
import torch
from cases import Case, rand
from cases_cache import GATHER, at_slots, pages
from cases_inference import fused

INT = torch.int32


def ints(*numbers):
    return torch.tensor(numbers, dtype=INT)


SLOTS = {"some": (4, 2, 16, ints(5, 0, -1, 10)), "none": (3, 1, 16, ints(-1, -1, -1)), "one": (1, 4, 8, ints(11)), "in order": (6, 2, 4,
    torch.arange(
    6, dtype=INT)), "backwards": (12, 1, 8, torch.arange(11, -1, -1, dtype=INT)), "the last": (2, 3, 2, ints(11, 10))}
CACHE = [case for label, (tokens, heads, size, slots) in SLOTS.items() for case in (
    Case("_npu_reshape_and_cache", (rand(tokens, heads, size), rand(tokens, heads, size, seed=1), rand(4, 3, heads, size),
                                    rand(4, 3, heads, size, seed=1), slots),
         lambda k, v, kc, vc, s: (at_slots(kc, k, s), at_slots(vc, v, s)), label=label, written=(2, 3)),
    Case("_npu_reshape_and_cache_siso", (rand(tokens, heads, size), rand(4, 3, heads, size), slots), lambda k, c, s: at_slots(c, k, s),
         label=label, written=(1,)))]

LOADS = {"": (ints(4, 5), {}), "starts": (ints(2, 3), {"seq_starts": ints(3, 0)}), "ends": (ints(0, 4, 9), {"cumsum": True}),
         "ends and starts": (ints(0, 1, 3), {"cumsum": True, "seq_starts": ints(0, 3)}), "one empty": (ints(0, 6), {}),
             "one token": (ints(1, 0), {})}


def loaded(kc, vc, tables, lengths, *, seq_starts=None, cumsum=False, key=None, value=None):
    count = int(lengths[-1] if cumsum else lengths.sum())
    key, value = (torch.zeros(count, *c.shape[2:]) if t is None else t for c, t in ((kc, key), (vc, value)))
    return pages(kc, vc, tables, lengths, key, value, seq_offset=seq_starts, is_seq_lens_cumsum=cumsum)


def room(lengths, cumsum=False, **_):
    count = int(lengths[-1] if cumsum else lengths.sum())
    return {"key": torch.zeros(count, 2, 16), "value": torch.zeros(count, 2, 8)}


LOAD = [case for label, (lengths, options) in LOADS.items() for case in (
    Case("npu_paged_cache_load", (*GATHER[:3], lengths), loaded, options, label=label),
    Case("npu_paged_cache_load.out", (*GATHER[:3], lengths), loaded, {**options, **room(lengths, **options)}, label=label))]

# heads, heads of keys, size, pages of each sequence, lengths, scale
PAGED = {"grouped": (4, 2, 8, ((2, -1), (0, -1), (3, 1)), (3, 1, 5), 0.3), "as many heads": (2, 2, 8, ((0,), (1,)), (4, 2), 1.0),
         "one key head": (4, 1, 8, ((3, 2, 1, 0),), (13,), 0.5), "one token each": (2, 1, 8, ((0,), (1,), (2,), (3,)), (1, 1, 1, 1), 0.7),
         "shared pages": (2, 1, 16, ((1, 2), (1, 3)), (8, 6), -0.2), "whole pages": (8, 4, 8, ((2, 0),), (8,), 0.3)}


def attended(q, k, v, few, heads, scale, table, lengths, *_, **__):
    return fused(q.unsqueeze(2), k.flatten(2), v.flatten(2), num_heads=heads, num_key_value_heads=few, scale=scale, input_layout="BNSD",
                 block_table=table, actual_seq_lengths_kv=[int(n) for n in lengths])[0].squeeze(2)


def attended_v2(q, k, table, lengths, *, value_cache, num_heads, num_kv_heads, scale_value, out, **_):
    return attended(q, k, value_cache, num_kv_heads, num_heads, scale_value, table, lengths)


def nothing(*_, **__):
    return torch.empty(0, dtype=torch.uint8)


ATTENTION = []
for label, (heads, few, size, tables, lengths, scale) in PAGED.items():
    q, table = rand(len(lengths), heads, size), torch.tensor(tables, dtype=INT)
    k, v = rand(4, 4, few, size, seed=1), rand(4, 4, few, size, seed=2)
    first = (q, k, v, few, heads, scale, table, torch.tensor(lengths, dtype=INT), torch.zeros_like(q))
    named = {"value_cache": v, "num_heads": heads, "num_kv_heads": few, "scale_value": scale, "out": torch.zeros_like(q)}
    ATTENTION += [
        Case("_npu_paged_attention", first, attended, label=label, written=(8,)),
        Case("_npu_paged_attention_get_workspace", first, nothing, label=label),
        Case("_npu_paged_attention_v2.out", (q, k, table, list(lengths)), attended_v2, named, label=label),
        Case("_npu_paged_attention_v2_get_workspace", (q, k, table, list(lengths)), nothing, named, label=label),
    ]


def unpad(q, k, v, lengths, scale, heads, few, *_, **__):
    ends = lengths.cumsum(0).tolist()
    return fused(q, k, v, num_heads=heads, num_key_value_heads=few, scale=scale, input_layout="TND", actual_seq_lengths=ends,
                 actual_seq_lengths_kv=ends)[0]


ROWS = {"two": (4, 2, 8, (2, 3), 0.3), "one token each": (2, 2, 8, (1, 1, 1), 1.0), "one sequence": (4, 1, 8, (6,), -0.5),
        "one of them empty": (2, 1, 8, (2, 0, 3), 0.3), "long": (1, 1, 16, (20, 1), 0.2), "as many heads": (3, 3, 4, (4, 2), 0.6)}
for number, (label, (heads, few, size, lengths, scale)) in enumerate(ROWS.items()):
    tokens = sum(lengths)
    args = (rand(tokens, heads, size), rand(tokens, few, size, seed=1), rand(tokens, few, size, seed=2), torch.tensor(lengths, dtype=INT),
            scale, heads, few)
    out = torch.zeros(tokens, heads, size)
    ATTENTION.append(Case("_npu_flash_attention_unpad", (*args, out), unpad, label=label, written=(7,)))
    ATTENTION.append(Case("_npu_flash_attention_unpad_v2", args, unpad, {"kernel_type": number % 3, "out": out}, label=label,
        written=("out",)))


def rotated(positions, q, k, size, table, halves):
    cos, sin = table[positions.flatten()].chunk(2, -1)

    def turn(x):
        x = x.view(len(x), -1, size)
        a, b = x.chunk(2, -1) if halves else (x[..., ::2], x[..., 1::2])
        c, s = cos[:, None], sin[:, None]
        pair = (a * c - b * s, b * c + a * s)
        return (torch.cat(pair, -1) if halves else torch.stack(pair, -1).flatten(-2)).flatten(1)

    return turn(q), turn(k)


ROTARY = [Case("_npu_rotary_embedding", (torch.tensor(at), rand(len(at), heads * size), rand(len(at), few * size, seed=1), size,
                                         rand(9, size), halves), rotated, label=f"{label}, {'halves' if halves else 'pairs'}", written=(1,
                                             2))
          for label, at, heads, few, size in (("grouped", (3, 0, 5), 2, 1, 8), ("one token", (8,), 4, 4, 4), ("the same place", (2, 2, 2),
              1, 1, 16))
          for halves in (True, False)]
CASES = [*CACHE, *LOAD, *ATTENTION, *ROTARY, *masked.CASES]
