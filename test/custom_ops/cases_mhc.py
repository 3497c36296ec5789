"""Hyper-connections and causal convolutions, by their plain definitions."""

import torch
from cases import Case, grads, rand

N, D = 4, 5
X4, X3 = rand(2, 3, N, D), rand(6, N, D, seed=1)
PHI, ALPHA, BIAS, GAMMA = rand(24, N * D) * 0.3, torch.tensor([0.5, 0.7, 0.9]), rand(24, seed=2), rand(N, D, seed=3)


def pre(x, phi, alpha, bias, gamma=None, norm_eps=1e-6, hc_eps=1e-6, out_flag=0, inner_precise=0):
    n, flat = x.shape[-2], x.flatten(-2)
    inv_rms = (flat.square().mean(-1, keepdim=True) + norm_eps).rsqrt()
    mix = (flat if gamma is None else flat * gamma.flatten()) @ phi.t()
    logits = mix * inv_rms
    h_pre = torch.sigmoid(logits[..., :n] * alpha[0] + bias[:n]) + hc_eps
    h_post = 2 * torch.sigmoid(logits[..., n : 2 * n] * alpha[1] + bias[n : 2 * n])
    h_in = torch.einsum("...n,...nd->...d", h_pre, x)
    res = (logits[..., 2 * n :] * alpha[2] + bias[2 * n :]).unflatten(-1, (n, n)) if len(alpha) == 3 else torch.zeros(1)
    return (h_in, h_post, res, inv_rms[..., 0], mix, h_pre) if out_flag else (h_in, h_post, res)


def pre_backward(x, phi, alpha, d_in, d_post, d_res, inv_rms, h_mix, h_pre, h_post, gamma=None, hc_eps=1e-6, grad_x_post=None,
                 inner_precise=0):
    """The bias can be had from the gates; the gradient does not depend on it otherwise."""
    n, logits = x.shape[-2], h_mix * inv_rms.unsqueeze(-1)
    bias = torch.cat([torch.logit(h_pre - hc_eps).flatten(0, -2)[0] - (logits[..., :n] * alpha[0]).flatten(0, -2)[0],
                      torch.logit(h_post / 2).flatten(0, -2)[0] - (logits[..., n : 2 * n] * alpha[1]).flatten(0, -2)[0],
                          torch.zeros(n * n)])
    leaves = [x, phi, alpha, bias, torch.ones(x.shape[-2:]) if gamma is None else gamma]
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    with torch.enable_grad():
        found = torch.autograd.grad(pre(*leaves)[:3], leaves, (d_in, d_post, d_res))
    return (found[0] if grad_x_post is None else found[0] + grad_x_post, *found[1:4], torch.zeros(n,
        x.shape[-1]) if gamma is None else found[4])


def post(x, h_res, h_out, h_post):
    streams = x if h_res is None else torch.einsum("...ab,...ad->...bd", h_res, x)
    return streams + h_post.unsqueeze(-1) * h_out.unsqueeze(-2)


def sinkhorn(x, eps=1e-6, num_iters=20, out_flag=0):
    matrix = torch.softmax(x, -1) + eps
    matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    for _ in range(num_iters - 1):
        matrix = matrix / (matrix.sum(-1, keepdim=True) + eps)
        matrix = matrix / (matrix.sum(-2, keepdim=True) + eps)
    return matrix


def kept(x, num_iters, eps=1e-6):
    """The matrices and sums of every step, in rows of eight."""
    tokens, n = x.flatten(0, -3).shape[:2]
    norms, sums = torch.zeros(2 * num_iters, n, tokens, 8), torch.zeros(num_iters, 2, tokens * 8)
    matrix = torch.softmax(x.reshape(tokens, n, n), -1)
    norms[0, :, :, :n] = matrix.transpose(0, 1)
    matrix = matrix + eps
    for i in range(num_iters):
        if i:
            rows = matrix.sum(-1) + eps
            matrix = matrix / rows.unsqueeze(-1)
            norms[2 * i, :, :, :n] = matrix.transpose(0, 1)
            sums[i, 0].view(8, tokens)[:n] = rows.t()
        columns = matrix.sum(-2) + eps
        matrix = matrix / columns.unsqueeze(-2)
        norms[2 * i + 1, :, :, :n] = matrix.transpose(0, 1)
        sums[i, 1].view(tokens, 8)[:, :n] = columns
    return norms.flatten(), sums.flatten()


def of_pre(x, gamma, more=None):
    outputs = pre(x, PHI, ALPHA, BIAS, gamma, out_flag=1)
    seeds = [rand(*t.shape, seed=7) for t in outputs[:3]]
    return (x, PHI, ALPHA, *seeds, *outputs[3:], outputs[1], gamma, 1e-6, more)


def masked_conv(x, weight, mask=None):
    width = len(weight)
    padded = torch.cat([x.new_zeros(width - 1, *x.shape[1:]), x])
    out = sum(weight[k] * padded[k : k + len(x)] for k in range(width))
    return out if mask is None else torch.where(mask.t().unsqueeze(-1), out, 0.0)


SEQ, WEIGHT = rand(7, 2, 6), rand(3, 6)
MASK = torch.rand(2, 7, generator=torch.Generator().manual_seed(1)) > 0.3


def fused_conv(x, weight, states, query_start_loc=None, cache_indices=None, num_accepted_tokens=None, pad_slot_id=-1, residual_connection=0,
               num_computed_tokens=None, block_idx_first_scheduled_token=None, block_idx_last_scheduled_token=None, initial_state_idx=None,
               block_size=128, conv_mode="default", **_):
    """(result, states) by the formulas of the documentation."""
    out, states = torch.zeros_like(x), states.clone()
    before, capacity = len(weight) - 1, states.shape[1]
    count = len(x) if x.dim() == 3 else len(query_start_loc) - 1
    for i in range(count):
        part = (i,) if x.dim() == 3 else (slice(int(query_start_loc[i]), int(query_start_loc[i + 1])),)
        tokens, read, write = x[part], i, i
        if cache_indices is not None and cache_indices.dim() == 2:
            read = int(cache_indices[i, initial_state_idx[i]])
            write = int(cache_indices[i, block_idx_last_scheduled_token[i]])
        elif cache_indices is not None:
            read = write = int(cache_indices[i])
            if read == pad_slot_id:
                continue
        if num_computed_tokens is not None and num_computed_tokens[i] == 0:
            offset, past = 0, x.new_zeros(before, x.shape[-1])
        else:
            offset = int(num_accepted_tokens[i]) - 1 if num_accepted_tokens is not None else capacity - before
            past = states[read, : offset + before].clone()
        padded = torch.cat([past, tokens])
        kept_rows = min(capacity, len(padded))
        states[write, capacity - kept_rows :] = padded[len(padded) - kept_rows :]
        seen = padded[offset:]
        if cache_indices is not None and cache_indices.dim() == 2:
            first, last = int(block_idx_first_scheduled_token[i]), int(block_idx_last_scheduled_token[i])
            rest = (len(tokens) - (block_size - int(num_computed_tokens[i]) % block_size)) % block_size
            boundary = len(tokens) - rest - (block_size if rest == 0 else 0)
            for chunk in range(last - first):
                at = boundary - (last - first - chunk - 1) * block_size
                states[cache_indices[i, first + chunk], capacity - before :] = seen[at : at + before]
        result = sum(weight[k] * seen[k : k + len(tokens)] for k in range(before + 1))
        if conv_mode == "pangu":
            result[: max(before - int(num_computed_tokens[i]), 0)] = 0
        out[part] = result + tokens if residual_connection else result
    return out, states


def conv_in_place(x, weight, states, cache_indices=None, query_start_loc=None, **kwargs):
    """What is written over x and the states; the tokens of a sequence without a state stay."""
    out, states = fused_conv(x, weight, states, cache_indices=cache_indices, query_start_loc=query_start_loc, **kwargs)
    for i, slot in enumerate(cache_indices.tolist() if cache_indices.dim() == 1 else ()):
        if slot == -1:
            out[query_start_loc[i] : query_start_loc[i + 1]] = x[query_start_loc[i] : query_start_loc[i + 1]]
    return out, states


def conv_result(*args, **kwargs):
    return fused_conv(*args, **kwargs)[0]


TOKENS, STATES = rand(9, 6), rand(6, 2, 6, seed=2)
INT = torch.int32
RAGGED = {"query_start_loc": torch.tensor([0, 4, 5, 9], dtype=INT), "cache_indices": torch.tensor([3, 0, 5], dtype=INT)}
APC = {"query_start_loc": torch.tensor([0, 6, 9], dtype=INT), "cache_indices": torch.tensor([[0, 1, 2], [3, 4, 5]], dtype=INT),
       "num_computed_tokens": torch.tensor([2, 0], dtype=INT), "block_idx_first_scheduled_token": torch.tensor([0, 0], dtype=INT),
       "block_idx_last_scheduled_token": torch.tensor([1, 0], dtype=INT), "initial_state_idx": torch.tensor([0, 0], dtype=INT),
           "block_size": 4}
MODES = {
    "": RAGGED,
    "residual": {**RAGGED, "residual_connection": 1},
    "first": {**RAGGED, "num_computed_tokens": torch.tensor([0, 7, 0], dtype=INT)},
    "pangu": {**RAGGED, "num_computed_tokens": torch.tensor([0, 1, 5], dtype=INT), "conv_mode": "pangu"},
    "padded": {**RAGGED, "cache_indices": torch.tensor([3, -1, 5], dtype=INT)},
    "prefix": APC,
}
SPECULATIVE = (rand(2, 3, 6), WEIGHT, rand(4, 4, 6, seed=5)), {"num_accepted_tokens": torch.tensor([2, 3], dtype=INT), "run_mode": 1}

NARROW = (X3.bfloat16(), rand(6, N, N), rand(6, D, dtype=torch.bfloat16), rand(6, N, seed=1))
CASES = [
    Case("npu_mhc_pre", (X4, PHI, ALPHA, BIAS), pre, {"gamma": GAMMA, "out_flag": 1}, grad=(0, 1, 2, 3)),
    Case("npu_mhc_pre", (X3, PHI, ALPHA, BIAS), pre, {"out_flag": 1}, grad=(0, 1, 2, 3), through=2, label="tokens"),
    Case("npu_mhc_pre", (X3, PHI, ALPHA, BIAS), pre, {"out_flag": 1, "hc_eps": 0.1, "norm_eps": 0.3}, grad=(0, 1, 2), through=1,
         label="eps"),
    Case("npu_mhc_pre", (X3, PHI, ALPHA, BIAS), pre, {"gamma": GAMMA}, label="inference"),
    Case("npu_mhc_pre", (X3, PHI[:8], ALPHA[:2], BIAS[:8]), lambda *args, **kwargs: pre(*args, **kwargs)[:2], label="without residual"),
    Case("npu_mhc_pre_backward", of_pre(X4, GAMMA), pre_backward),
    Case("npu_mhc_pre_backward", of_pre(X3, None), pre_backward, label="tokens"),
    Case("npu_mhc_pre_backward", of_pre(X3, GAMMA, rand(6, N, D, seed=9)), pre_backward, label="more"),
    Case("npu_mhc_post", (X4, rand(2, 3, N, N), rand(2, 3, D), rand(2, 3, N, seed=1)), post, grad=(0, 1, 2, 3)),
    Case("npu_mhc_post", (X3, rand(6, N, N), rand(6, D), rand(6, N, seed=1)), post, grad=(0, 1, 2, 3), label="tokens"),
    Case("npu_mhc_post", (X3, None, rand(6, D), rand(6, N, seed=1)), post, grad=(0, 2, 3), label="same streams"),
    Case("npu_mhc_post_backward", (X4, rand(2, 3, N, D, seed=4), rand(2, 3, N, N), rand(2, 3, D), rand(2, 3, N, seed=1)),
         lambda g, *args: grads(post, args, g)),
    Case("npu_mhc_post_backward", (X3, rand(6, N, D, seed=4), rand(6, N, N), rand(6, D), rand(6, N, seed=1)),
         lambda g, *args: grads(post, args, g), label="tokens"),
    Case("npu_mhc_post_backward", (X3, rand(6, N, D, seed=4), None, rand(6, D), rand(6, N, seed=1)),
         lambda g, x, r, o, p: (g, torch.zeros(6, N, N), *grads(lambda a, b: post(x, None, a, b), (o, p), g)), label="same streams"),
    Case("npu_mhc_post", NARROW, lambda *args: post(*map(torch.Tensor.float, args)).bfloat16(), grad=(0, 1, 2, 3), label="bfloat16"),
    Case("npu_mhc_post_backward", (rand(6, N, D, seed=4, dtype=torch.bfloat16), *NARROW), lambda g, *args: tuple(
        t.to(a.dtype) for t, a in zip(grads(post, [a.float() for a in args], g.float()), args)), label="bfloat16"),
    Case("npu_mhc_sinkhorn", (rand(2, 3, 4, 4),), lambda x, **kw: (sinkhorn(x, **kw), *kept(x, 20)), {"out_flag": 1}, grad=(0,)),
    Case("npu_mhc_sinkhorn", (rand(5, 6, 6),), sinkhorn, {"out_flag": 1, "num_iters": 3}, grad=(0,), label="six"),
    Case("npu_mhc_sinkhorn", (rand(5, 8, 8),), sinkhorn, {"num_iters": 1, "eps": 0.01}, label="once"),
    Case("npu_mhc_sinkhorn_backward", (rand(2, 3, 4, 4), *kept(rand(2, 3, 4, 4, seed=1), 20)),
         lambda g, *_: grads(sinkhorn, (rand(2, 3, 4, 4, seed=1),), g)),
    Case("npu_mhc_sinkhorn_backward", (rand(5, 6, 6), *kept(rand(5, 6, 6, seed=1), 1)),
         lambda g, *_: grads(lambda x: sinkhorn(x, num_iters=1), (rand(5, 6, 6, seed=1),), g), label="once"),
    Case("npu_mhc_sinkhorn_backward", (rand(3, 8, 8), *kept(rand(3, 8, 8, seed=1), 4)),
         lambda g, *_: grads(lambda x: sinkhorn(x, num_iters=4), (rand(3, 8, 8, seed=1),), g), label="eight"),
    Case("npu_masked_causal_conv1d", (SEQ, WEIGHT), masked_conv, {"mask": MASK}, grad=(0, 1)),
    Case("npu_masked_causal_conv1d", (SEQ, WEIGHT), masked_conv, grad=(0, 1), label="all"),
    Case("npu_masked_causal_conv1d", (rand(1, 2, 6), rand(4, 6)), masked_conv, grad=(0, 1), label="short"),
    Case("npu_masked_causal_conv1d_backward", (rand(7, 2, 6, seed=3), SEQ, WEIGHT),
         lambda g, x, w, mask: grads(lambda a, b: masked_conv(a, b, mask), (x, w), g), {"mask": MASK}),
    Case("npu_masked_causal_conv1d_backward", (rand(7, 2, 6, seed=3), SEQ, WEIGHT), lambda g, x, w: grads(masked_conv, (x, w), g),
         label="all"),
    Case("npu_masked_causal_conv1d_backward", (rand(1, 2, 6, seed=3), rand(1, 2, 6), rand(4, 6)),
         lambda g, x, w: grads(masked_conv, (x, w), g), label="short"),
    *(Case("npu_fused_causal_conv1d", (TOKENS, WEIGHT, STATES), conv_result, kwargs, label=label) for label, kwargs in MODES.items()),
    Case("npu_fused_causal_conv1d", SPECULATIVE[0], conv_result, SPECULATIVE[1], label="speculative"),
    *(Case("npu_fused_causal_conv1d_v2", (TOKENS, WEIGHT, STATES), conv_in_place, kwargs, label=label, written=(0, 2))
      for label, kwargs in MODES.items()),
]
# Cases that the official wheel refuses: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    **{f"{case} gradient": "it needs the gradients of all results" for case in CASES if case.op == "npu_mhc_pre"},
    **{str(case): "it takes 16 bits, and float32 for h_res and h_post" for case in CASES
       if case.op == "npu_mhc_post_backward" and case.label != "bfloat16"},
    **{f"{case} gradient": "the same" for case in CASES if case.op == "npu_mhc_post" and case.label != "bfloat16"},
}
