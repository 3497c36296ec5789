"""Rotary position embedding: every mode, layouts of the cosines, and tables by position."""

import torch
from cases import COS, Q4, SIN, TURNS, Case, grads, rand, rotate_half, rotate_pairs, turned


def quarter(x):
    a, b, c, d = x.chunk(4, -1)
    return torch.cat([-b, a, -d, c], -1)


def apart(x):
    return torch.cat([x[..., ::2], x[..., 1::2]], -1)


ROTATED = {"half": rotate_half, "interleave": rotate_pairs, "quarter": quarter}


def rotary(x, cos, sin, mode="half", rotate=None):
    if rotate is not None:
        return x * cos + (x @ rotate) * sin
    if mode == "interleave-half":
        x, mode = apart(x), "half"
    return x * cos + ROTATED[mode](x) * sin


def tables(*shape):
    angles = rand(*shape, seed=3)
    return angles.cos(), angles.sin()


def turned_in_turn(rows, positions, sections):
    """The frequencies follow the three axes in turn."""
    axis = [i % 3 if i < 3 * sections[1] else 0 for i in range(3)]
    return turned(rows, torch.stack([positions[a] for a in axis]))


MATRIX = rand(8, 8, seed=4)
LAYOUTS = {"BNSD": ((2, 3, 6, 8), [(1, 1, 6, 8), (2, 1, 6, 8), (2, 3, 6, 8)]), "BSND": ((2, 6, 3, 8), [(1, 6, 1, 8), (2, 6, 1, 8)]),
           "SBND": ((6, 2, 3, 8), [(6, 1, 1, 8), (6, 2, 1, 8)]), "TND": ((6, 3, 8), [(6, 1, 8)]), "one row": ((2, 6, 3, 8), [(8,)])}
MODES = ("half", "interleave", "quarter", "interleave-half")
POSITIONS = torch.tensor([[3, 0], [1, 2], [4, 4]])

CASES = [
    *[Case("npu_rotary_mul", (Q4, COS, SIN, mode), rotary, grad=(0, 1, 2), label=mode) for mode in MODES],
    *[Case("npu_rotary_mul", (rand(*shape), *tables(*table)), rotary, grad=(0, 1, 2), label=f"{name} {table}")
      for name, (shape, several) in LAYOUTS.items() for table in several],
    Case("npu_rotary_mul", (Q4, COS, SIN, "half", MATRIX), rotary, grad=(0, 1, 2), label="matrix"),
    Case("npu_rotary_mul", (rand(0, 6, 3, 8), COS, SIN), rotary, label="empty"),
    *[Case("npu_rotary_mul", (Q4, COS, SIN, mode), rotary, grad=(0,), label=f"{mode}, input alone") for mode in MODES[:2]],
    *[Case("npu_rotary_mul_backward", (Q4, rand(2, 6, 3, 8, seed=4), COS, SIN, mode),
           lambda g, x, c, s, mode: grads(lambda a, b, d: rotary(a, b, d, mode), (x, c, s), g), label=mode) for mode in MODES],
    *[Case("npu_apply_rotary_pos_emb", (Q4, Q4[:, :, :1], COS, SIN, "BSND", mode),
           lambda q, k, c, s, layout, mode: (rotary(q, c, s, mode), rotary(k, c, s, mode)), label=mode) for mode in MODES],
    Case("npu_apply_rotary_pos_emb", (rand(6, 4, 8), rand(6, 2, 8), *tables(6, 1, 8), "TND"),
         lambda q, k, c, s, layout: (rotary(q, c, s), rotary(k, c, s)), label="TND"),
    Case("npu_interleave_rope", (Q4, COS, SIN), lambda x, c, s: rotary(x, c, s, "interleave-half")),
    Case("npu_mrope", (torch.tensor([3, 0, 5]), rand(3, 16), rand(3, 8), TURNS, 8), lambda p, q, k, c, h: (turned(q, p), turned(k, p))),
    Case("npu_mrope", (POSITIONS, rand(2, 16), rand(2, 8), TURNS, 8),
         lambda p, q, k, c, h, mrope_section, rotary_mode: (turned(q, p, pairs=True), turned(k, p, pairs=True)),
         {"mrope_section": [1, 1, 1], "rotary_mode": "interleave"}, label="sections"),
    Case("npu_mrope", (POSITIONS, rand(2, 16), rand(2, 8), TURNS, 8),
         lambda p, q, k, c, h, mrope_section, cache_mode: tuple(turned_in_turn(x, p, mrope_section) for x in (q, k)),
         {"mrope_section": [1, 1, 1], "cache_mode": "interleave"}, label="in turn"),
    Case("npu_mrope", (POSITIONS, rand(2, 16), rand(2, 8), TURNS, 8),
         lambda p, q, k, c, h, mrope_section, cache_mode: tuple(turned_in_turn(x, p, mrope_section) for x in (q, k)),
         {"mrope_section": [3, 0, 0], "cache_mode": "interleave"}, label="one axis in turn"),
]

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    **{f"{name}-{mode}": "it takes the modes half and interleave only" for name in ("npu_rotary_mul", "npu_rotary_mul_backward")
       for mode in ("quarter", "interleave-half")},
    **{f"npu_rotary_mul_backward-{mode}": "without autograd it asks for one gradient, and returns two tensors that nobody wrote"
       for mode in ("half", "interleave")},
    "npu_apply_rotary_pos_emb-interleave-half": "it takes the modes half, interleave and quarter only",
    "npu_rotary_mul-matrix gradient": "its gradient takes the matrix for that of mode half",
}
