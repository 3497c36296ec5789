"""Casts, transposes, look-ups, gradients of losses, deformable convolution, and the gated delta rule."""

import importlib.util
from pathlib import Path

import torch
from cases import Case, X, grads, rand
from detection_cases import deform_conv
from torch.nn import functional as F

# By its file, so that the official client, whose package has the same name, can run these cases too.
_spec = importlib.util.spec_from_file_location("roi", Path(__file__).resolve().parents[2] / "torch_npu/custom_ops/roi.py")
_roi = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_roi)
deformable = _roi.deformable



def looked_up(shape, index, grad):
    result = torch.zeros(shape)
    for place, row in zip(index.flatten().tolist(), grad.reshape(-1, *shape[1:])):
        result[place] += row
    return result


def deformed(x, weight, offset, bias, kernel, stride, padding, dilation=(1, 1, 1, 1), groups=1, parts=1, modulated=True):
    """By grid_sample; the samples as an image whose blocks of the kernel's size are the points."""
    shifts = offset.view(len(offset), -1, parts, kernel[0] * kernel[1], *offset.shape[-2:])
    out, samples = deformable(x, weight, shifts[:, 1], shifts[:, 0], shifts[:, 2] if modulated else None, stride[2:],
                              (padding[0], padding[2]), dilation[2:], groups)
    image = samples.flatten(1, 2).unflatten(2, tuple(kernel)).permute(0, 1, 4, 2, 5, 3).flatten(4, 5).flatten(2, 3)
    return out if bias is None else out + bias.view(-1, 1, 1), image


def deformed_gradients(x, grad, samples, weight, offset, *how):
    bias = torch.zeros(len(weight))
    return grads(lambda x, w, o, b: deformed(x, w, o, b, *how)[0], (x, weight, offset, bias), grad)


REDUCTIONS = ("none", "mean", "sum")
PROBABILITIES = torch.softmax(rand(4, 5, seed=8), -1)


def loss_gradient(loss, at=0):
    """Of the input, or of the target."""
    return lambda grad, x, t, *rest, **kw: grads(lambda a: loss(*((a, t) if at == 0 else (x, a)), *rest, **kw), ((x, t)[at],), grad)


def kl_div(x, target, reduction=1, log_target=False):
    return F.kl_div(x, target, reduction=REDUCTIONS[reduction], log_target=log_target)


def bce(x, target, weight, pos_weight, reduction):
    return F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=pos_weight, reduction=REDUCTIONS[reduction])


def delta_rule(q, k, v, states, beta, scale, g, tokens, begin, place):
    """One head of one sequence, from states[begin]; place(token) is where the state goes."""
    state, out = states[begin].clone(), []
    for t in tokens:
        state = state * g[t].exp()
        state = state + torch.outer((v[t] - state @ k[t]) * beta[t], k[t])
        states[place(t)] = state
        out.append(state @ q[t] * scale)
    return torch.stack(out)


def delta_heads(q, k, v, states, lengths, beta, g, scale, begin, place):
    states, out, at = states.clone(), torch.zeros_like(v), 0
    ratio = v.shape[1] // q.shape[1]
    beta, g = torch.ones(v.shape[:2]) if beta is None else beta, torch.zeros(v.shape[:2]) if g is None else g
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    for i, length in enumerate(lengths.tolist()):
        for head in range(v.shape[1]):
            out[at : at + length, head] = delta_rule(q[:, head // ratio], k[:, head // ratio], v[:, head], states[:, head], beta[:, head],
                                                     scale, g[:, head], range(at, at + length), begin(i, at), lambda t, i=i: place(i, t))
        at += length
    return out.bfloat16(), states


def chunk_delta(q, k, v, beta=None, initial_state=None, actual_seq_lengths=None, scale=None, g=None):
    return delta_heads(q, k, v, initial_state, actual_seq_lengths, beta, g, scale, lambda i, at: i, lambda i, t: i)


def recurrent_delta(q, k, v, state, beta=None, scale=None, actual_seq_lengths=None, ssm_state_indices=None, num_accepted_tokens=None,
                    g=None):
    last = [1] * len(actual_seq_lengths) if num_accepted_tokens is None else num_accepted_tokens.tolist()
    return delta_heads(q, k, v, state, actual_seq_lengths, beta, g, scale, lambda i, at: int(ssm_state_indices[at + last[i] - 1]),
                       lambda i, t: int(ssm_state_indices[t]))


QKV = F.normalize(rand(5, 2, 4), dim=-1), F.normalize(rand(5, 2, 4, seed=1), dim=-1), rand(5, 4, 3)
GATES = {"beta": rand(5, 4).sigmoid(), "g": -rand(5, 4, seed=2).abs()}
RAGGED = torch.tensor([2, 3], dtype=torch.int32)
FIRST = {"initial_state": rand(2, 4, 3, 4), "actual_seq_lengths": RAGGED}
STATES = {"actual_seq_lengths": RAGGED, "ssm_state_indices": torch.tensor([4, 1, 0, 5, 2], dtype=torch.int32)}

SMALL = (rand(1, 4, 5, 5), rand(3, 4, 3, 3), rand(1, 3 * 2 * 9, 5, 5), rand(3), [3, 3], [1] * 4, [1] * 4, [1] * 4, 1, 2)
WIDE = (rand(2, 4, 7, 9), rand(6, 2, 3, 2), rand(2, 2 * 2 * 6, 3, 5), None, [3, 2], [1, 1, 2, 2], [1, 1, 0, 2], [1, 1, 2, 1], 2, 2, False)
TOPS = rand(5, 4), torch.tensor([[4, 0], [1, 1]])

CASES = [
    *[Case("npu_dtype_cast", (X, dtype), lambda x, d: x.to(d), grad=(0,), label=str(dtype)) for dtype in (torch.float16, torch.bfloat16)],
    Case("npu_dtype_cast", (X * 9, torch.int32), lambda x, d: x.to(d), label="to int32"),
    Case("npu_dtype_cast", (torch.arange(6), 6), lambda x, d: x.float(), label="from int64"),
    Case("_npu_dtype_cast", (X, torch.float16), lambda x, d: x.to(d), grad=(0,)),
    Case("_npu_dtype_cast_backward", (X, torch.float16), lambda x, d: x.to(d)),
    Case("npu_confusion_transpose", (rand(2, 3, 4, 5), [0, 2, 1, 3], [2, 4, 15], True), lambda x, p, s, f: x.permute(p).reshape(s),
         grad=(0,), label="heads"),
    Case("npu_confusion_transpose_backward", (rand(24, 8), [1, 0], [4, 6, 8], False), lambda g, p, s, f: g.permute(p).reshape(s),
         label="after"),
    Case("npu_gather_sparse_index", TOPS, lambda x, i: x[i], grad=(0,), label="int64"),
    Case("npu_gather_sparse_index", (rand(5), torch.tensor([4, 4, 0])), lambda x, i: x[i], grad=(0,), label="numbers"),
    Case("npu_gather_sparse_index_backward", (rand(2, 2, 4), [5, 4], TOPS[1]), lambda g, s, i: looked_up(s, i, g)),
    Case("npu_deformable_conv2d", SMALL, lambda *a: deform_conv(*a)),
    Case("npu_deformable_conv2d", SMALL, deformed, grad=(0, 1, 2, 3), label="gradients"),
    Case("npu_deformable_conv2d", WIDE, deformed, grad=(0, 1, 2), label="strides and groups"),
    Case("npu_deformable_conv2dbk", (SMALL[0], rand(1, 3, 5, 5), deformed(*SMALL)[1], *SMALL[1:3], *SMALL[4:]), deformed_gradients),
    Case("npu_deformable_conv2dbk", (WIDE[0], rand(2, 6, 3, 5), deformed(*WIDE)[1], *WIDE[1:3], *WIDE[4:]), deformed_gradients,
         label="strides and groups"),
    *[Case("l1_loss_backward", (rand(4, 5) if reduction == 0 else rand(1)[0], rand(4, 5), rand(4, 5, seed=1), reduction),
           loss_gradient(lambda x, t, r: F.l1_loss(x, t, reduction=REDUCTIONS[r])), label=REDUCTIONS[reduction]) for reduction in range(3)],
    Case("kl_div_backward", (torch.tensor(0.5), rand(4, 5), PROBABILITIES), loss_gradient(kl_div)),
    Case("kl_div_backward", (torch.tensor(0.5), rand(4, 5), PROBABILITIES.log(), 2), loss_gradient(kl_div), {"log_target": True},
         label="logs"),
    Case("kl_div_target_backward", (torch.tensor(0.5), rand(4, 5), PROBABILITIES), loss_gradient(kl_div, 1)),
    Case("kl_div_target_backward", (rand(4, 5), rand(4, 5), PROBABILITIES.log(), 0), loss_gradient(kl_div, 1), {"log_target": True},
         label="logs"),
    *[Case("npu_binary_cross_entropy_with_logits_backward", (torch.tensor(0.5), rand(4, 5), PROBABILITIES, weight, pos_weight, 1),
           loss_gradient(bce), label=label) for label, weight, pos_weight in (("", None, None), ("weights", rand(5), rand(5).abs()))],
    Case("npu_chunk_gated_delta_rule", QKV, chunk_delta, {**GATES, **FIRST, "scale": 0.5}),
    Case("npu_chunk_gated_delta_rule", QKV, chunk_delta, FIRST, label="no gates"),
    Case("npu_recurrent_gated_delta_rule", (*QKV, rand(6, 4, 3, 4)), lambda *a, **kw: recurrent_delta(*a, **kw)[0],
         {**GATES, **STATES, "scale": 0.5}),
    Case("npu_recurrent_gated_delta_rule", (*QKV, rand(6, 4, 3, 4)), lambda *a, **kw: recurrent_delta(*a, **kw)[0], {**GATES, **STATES},
         label="own scale"),
    Case("npu_recurrent_gated_delta_rule_functional", (*QKV, rand(6, 4, 3, 4)), recurrent_delta, {**GATES, **STATES, "scale": 0.5}),
    Case("npu_recurrent_gated_delta_rule_functional", (*QKV, rand(6, 4, 3, 4)), recurrent_delta,
         {**STATES, "beta": GATES["beta"], "scale": 0.5, "num_accepted_tokens": torch.tensor([2, 1], dtype=torch.int32)}, label="accepted"),
]

# Cases that the official wheel refuses, or answers otherwise: see test/official/custom_ops.py.
NOT_OFFICIAL = {
    "npu_chunk_gated_delta_rule-no gates": "it needs beta",
    "npu_recurrent_gated_delta_rule-own scale": "it needs scale",
}
