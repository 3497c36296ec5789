"""What the attention operators share: layouts, which keys a query may see, and the attention itself in float32."""

import torch

NO_LIMIT = 2147483647

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")  # TND, sequences of several lengths in a row, is cut into pieces by its callers


def to_bnsd(x, layout: str, heads: int):
    """[batch, heads, sequence, head size] of a tensor in one of the layouts; `heads` matters to BSH and SBH only."""
    if layout == "BSH":
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BNSD":
        return x
    raise ValueError(f"input_layout must be one of {', '.join(LAYOUTS)} or TND, not {layout!r}")


def from_bnsd(x, layout: str):
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    return x.transpose(1, 2) if layout == "BSND" else x


def kv_heads(query, key, layout: str, heads: int) -> int:
    """How many heads keys and values have; fewer than the query's are shared by groups of them."""
    if layout in ("BSH", "SBH"):
        return key.shape[-1] // (query.shape[-1] // heads)
    return key.shape[2 if layout == "BSND" else 1]


def band(rows: int, columns: int, before: int, after: int, shift: int, device):
    """True outside of the diagonal band: columns below row + shift - before or above row + shift + after."""
    row = torch.arange(rows, device=device).unsqueeze(1) + shift
    column = torch.arange(columns, device=device)
    return (column < row - before) | (column > row + after)


def sparse_mask(mode: int, rows: int, columns: int, before: int, after: int, atten_mask, prefix, batch: int, device,
                first: bool = True, last: bool = True):
    """The mask of a sparse mode, True where a key is hidden, or None.

    0 the mask within a band, 1 the mask, 2 causal from the upper left, 3 causal to the lower right, 4 band to the lower right,
    5 and 6 causal to the lower right with a visible prefix, 7 and 8 (several sequences) band for the last or first one, causal
    for the others. Modes above 1 follow from the numbers: their mask argument holds a fixed pattern for the hardware.
    """
    right = columns - rows
    if mode == 0:
        if atten_mask is None:
            return None
        limited = before < NO_LIMIT or after < NO_LIMIT
        mask = atten_mask.bool()
        return mask | band(rows, columns, before, after, 0, device) if limited else mask
    if mode == 1:
        if atten_mask is None:
            raise ValueError("sparse_mode 1 needs atten_mask")
        return atten_mask.bool()
    if mode == 2 or (mode == 8 and not first):
        return band(rows, columns, NO_LIMIT, 0, 0, device)
    if mode == 3 or (mode == 7 and not last):
        return band(rows, columns, NO_LIMIT, 0, right, device)
    if mode in (4, 7, 8):
        return band(rows, columns, before, after, right, device)
    if mode in (5, 6):
        if prefix is None or len(prefix) != batch:
            raise ValueError(f"sparse_mode {mode} needs prefix, one number for each of the {batch} batches")
        causal = band(rows, columns, NO_LIMIT, 0, right, device)
        column = torch.arange(columns, device=device)
        return torch.stack([causal & (column >= length) for length in prefix]).unsqueeze(1)
    raise ValueError(f"sparse_mode must be 0 to 8, not {mode}")


def attend(query, key, value, scale: float, mask=None, bias=None, bias_before_scale=False, keep_prob=1.0, keep=None, sink=None):
    """Attention over [batch, heads, sequence, head size]; returns (result, row maxima, row sums), the last two float32.

    A row that sees nothing gives zeros. `keep` says which probabilities dropout leaves; without it they are drawn.
    """
    if key.shape[1] != query.shape[1]:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    scores = query.float() @ key.float().transpose(-1, -2)
    if bias is not None and bias_before_scale:
        scores = (scores + bias.float()) * scale
    else:
        scores = scores * scale if bias is None else scores * scale + bias.float()
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    top = scores.detach().amax(-1, keepdim=True)
    if sink is not None:
        top = torch.maximum(top, sink.detach().float().view(1, -1, 1, 1))
    top = top.masked_fill(top == -torch.inf, 0.0)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink.float().view(1, -1, 1, 1) - top)
    probs = weights / total.masked_fill(total == 0, 1.0)
    if keep is not None:
        probs = probs * keep.to(probs.dtype) / keep_prob
    elif keep_prob < 1.0:
        probs = torch.dropout(probs, 1.0 - keep_prob, True)
    return (probs @ value.float()).to(query.dtype), top, total
