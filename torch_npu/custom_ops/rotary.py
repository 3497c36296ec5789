"""Rotary position embedding: x cos + rotate(x) sin."""

import torch


def _rotate(x, mode: str):
    if mode == "half":
        left, right = x.chunk(2, -1)
        return torch.cat([-right, left], -1)
    if mode == "interleave":
        pairs = x.unflatten(-1, (-1, 2))
        return torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
    raise ValueError(f"rotary_mode must be 'half' or 'interleave', not {mode!r}")


def _rotate_back(x, mode: str):
    """The transpose of _rotate."""
    return -_rotate(x, mode)


def npu_rotary_mul(self, r1, r2, rotary_mode="half", rotate=None):
    """r1 and r2 hold cosines and sines; `rotate`, if given, is the matrix of the rotation."""
    rotated = _rotate(self, rotary_mode) if rotate is None else self @ rotate
    return self * r1 + rotated * r2


def npu_rotary_mul_backward(grad, self, r1, r2, rotary_mode="half"):
    dx = grad * r1 + _rotate_back(grad * r2, rotary_mode)
    return dx, (grad * self).sum_to_size(r1.shape), (grad * _rotate(self, rotary_mode)).sum_to_size(r2.shape)


def npu_apply_rotary_pos_emb(query, key, cos, sin, layout="BSND", rotary_mode="half"):
    if layout not in ("BSND", "SBND", "BNSD", "TND"):
        raise ValueError(f"layout must be BSND, SBND, BNSD or TND, not {layout!r}")
    return npu_rotary_mul(query, cos, sin, rotary_mode), npu_rotary_mul(key, cos, sin, rotary_mode)


def npu_interleave_rope(x, cos, sin):
    """Pairs that lie side by side are first moved apart, into the two halves that `half` rotates."""
    apart = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return npu_rotary_mul(apart, cos, sin, "half")


def npu_mrope(positions, query, key, cos_sin_cache, head_size, *, mrope_section=None, rotary_mode="half", cache_mode="default"):
    """Rotates [tokens, heads * head_size] by the rows of cos_sin_cache (cosines, then sines) at the tokens' positions.

    With positions [3, tokens], mrope_section says how many frequencies follow each of the three.
    """
    if cache_mode != "default":
        raise NotImplementedError("npu_mrope does not support cache_mode")
    cos, sin = cos_sin_cache[positions.long()].chunk(2, -1)
    if positions.dim() == 2:
        cos, sin = (
            torch.cat([part[i] for i, part in enumerate(t.split(list(mrope_section), -1))], -1) for t in (cos, sin)
        )
    if rotary_mode == "half":
        cos, sin = (torch.cat([t, t], -1) for t in (cos, sin))
    else:
        cos, sin = (t.repeat_interleave(2, -1) for t in (cos, sin))
    cos, sin = cos.unsqueeze(1).to(query.dtype), sin.unsqueeze(1).to(query.dtype)

    def turn(x):
        heads = x.unflatten(-1, (-1, head_size))
        turned, rest = heads[..., : cos.shape[-1]], heads[..., cos.shape[-1] :]
        return torch.cat([turned * cos + _rotate(turned, rotary_mode) * sin, rest], -1).flatten(-2)

    return turn(query), turn(key)
