"""Recurrent networks, attention of older models, hyper-connections, causal convolutions and the delta rule: other sizes and depths."""

import torch
from cases import Case, grads, rand
from cases_mhc import ALPHA, BIAS, kept, masked_conv, post, pre, pre_backward, sinkhorn
from cases_misc import chunk_delta, recurrent_delta
from cases_rnn import (
    B_HH,
    B_IH,
    BATCH_SIZES,
    BIAS as LSTM_BIAS,
    G_HH,
    G_IH,
    GB_HH,
    GB_IH,
    GRU,
    HIDDEN,
    INPUTS,
    MASK,
    NET,
    NO_MASK,
    W_HH,
    W_IH,
    WEIGHT,
    C,
    H,
    X,
    cell,
    cell_backward,
    gru,
    gru_backward,
    gru_net,
    gru_net_backward,
    lstm,
    lstm_backward,
    lstm_data,
    lstm_data_backward,
    lstm_net,
    lstm_net_backward,
    of_cell,
    of_gru_net,
    of_lstm,
    of_lstm_net,
    of_net,
    qkv_grad,
    score,
    score_backward,
    score_grad,
    seeds,
)

ONE = (rand(4, 1, INPUTS), rand(1, 1, HIDDEN), rand(1, 1, HIDDEN, seed=1))  # a batch of one
LONG = (rand(9, 2, INPUTS), rand(1, 2, HIDDEN), rand(1, 2, HIDDEN, seed=1))
FORMS = {"one direction, two layers": (2, 1, True, False), "both directions": (1, 2, True, False), "no biases, two layers": (2, 1, False,
    False)}


def ragged(sizes, batch):
    return torch.stack([torch.arange(batch) < n for n in sizes.tolist()]).unsqueeze(-1).expand(len(sizes), batch, HIDDEN).half()


SIZES = {"all but the last": torch.tensor([3, 3, 3, 2]), "one token": torch.tensor([3, 0, 0, 0]), "whole": torch.tensor([3, 3, 3, 3])}


def of_data(sizes, reverse):
    mask = ragged(sizes, 3)
    outputs = lstm(X, WEIGHT, LSTM_BIAS, mask, H, C, *NET, True, reverse)
    return (*seeds(outputs[0].shape), X, sizes, WEIGHT, LSTM_BIAS, H, C, *outputs, reverse)


def of_gru(x, h, missing=()):
    outputs = gru(x, h, G_IH, G_HH, GB_IH, GB_HH)
    given = [None if n in missing else rand(*outputs[0].shape, seed=30 + n) for n in range(2)]
    return (*given, x, G_IH, G_HH, GB_IH, GB_HH, torch.tensor(0), h, *outputs)


RECURRENT = [
    *[Case("npu_lstm", (x, WEIGHT, LSTM_BIAS, NO_MASK, h, c, *NET, False, False), lstm, grad=(0, 1, 2, 4, 5), through=t, label=label)
      for label, (x, h, c), t in (("a batch of one", ONE, 1), ("nine steps", LONG, 0))],
    Case("npu_lstm", (X, WEIGHT, LSTM_BIAS, MASK, H, C, *NET, True, True), lstm, grad=(0, 1, 2), through=1, label="ragged, backwards"),
    *[Case("npu_lstm_data", (X, sizes, WEIGHT, LSTM_BIAS, ragged(sizes, 3), H, C, *NET, True, reverse), lstm_data, grad=(0, 2, 3),
        label=label)
      for (label, sizes), reverse in zip(list(SIZES.items())[:2], (False, True))],
    Case("npu_lstm_data", (X, BATCH_SIZES, WEIGHT, LSTM_BIAS, MASK, H * 0, C * 0, *NET, True, False), lstm_data, grad=(0, 2), through=2,
         label="from zero"),
    *[Case("npu_lstm_backward", of_lstm(*form, missing=missing), lstm_backward, label=label)
      for label, form, missing in (("a batch of one", ONE, ()), ("nine steps", LONG, ()), ("cells alone", LONG, (0, 1)))],
    *[Case("npu_lstm_data_backward", of_data(sizes, reverse), lstm_data_backward, label=label)
      for (label, sizes), reverse in zip(SIZES.items(), (True, False, True))],
    *[Case("npu_lstm_cell", (rand(n, INPUTS), W_IH, W_HH, rand(n, HIDDEN), rand(n, HIDDEN, seed=1), *biases), cell, grad=(0, 1, 2, 3, 4),
           through=t, label=label) for label, n, biases, t in (("a batch of one", 1, (B_IH, B_HH), 1), ("twenty", 20, (B_IH, B_HH), 2),
                                                               ("twenty without biases", 20, (), 0))],
    *[Case("npu_lstm_cell_backward", of_cell(missing=missing), cell_backward, label=label)
      for label, missing in (("output", (1, 2)), ("output and cell", (1,)), ("states", (0,)))],
    *[Case("npu_gru", (x, h, *GRU[2:]), gru, grad=(0, 1, 2, 3), through=t, label=label)
      for label, (x, h, _), t in (("a batch of one", ONE, 0), ("nine steps", LONG, 1))],
    Case("npu_gru", (X[:1, :1], H[:, :1], *GRU[2:]), gru, grad=(0, 1), label="one token"),
    *[Case("npu_gru_backward", of_gru(*form[:2], missing), gru_backward, label=label)
      for label, form, missing in (("a batch of one", ONE, ()), ("nine steps", LONG, ()), ("nine outputs", LONG, (1,)))],
    *[case for label, form in FORMS.items() for case in (
        Case("_gru_npu", of_net(3, *form)[0], gru_net, of_net(3, *form)[1], grad=(0, 1), label=label),
        Case("_lstm_npu", of_net(4, *form)[0], lstm_net, of_net(4, *form)[1], grad=(0,), label=label),
        Case("_gru_npu_backward", of_gru_net(form)[0], gru_net_backward, of_gru_net(form)[1], label=label),
        Case("_lstm_npu_backward", of_lstm_net(form)[0], lstm_net_backward, of_lstm_net(form)[1], label=label))],
]


def heads(b, n, s, d):
    """Queries, keys, values, a mask that is added, and which probabilities are kept."""
    kept = (torch.rand(b * n * s * s, generator=torch.Generator().manual_seed(b)) > 0.3).to(torch.uint8)
    return [rand(b, n, s, d, seed=i) for i in range(3)], rand(b, 1, s, s, seed=5), kept


def of_score(sizes, scale, keep_prob):
    (q, k, v), mask, kept = heads(*sizes)
    out, probs, _ = score(q, k, v, mask, scale, keep_prob)
    return rand(*out.shape, seed=4), probs, q, k, v, kept if keep_prob < 1 else torch.ones_like(kept), scale, keep_prob


BODIES = {"one row": ((3, 2, 1, 4), 1.0, 1.0), "six rows": ((1, 2, 6, 3), 0.25, 0.5), "one head": ((2, 1, 3, 8), -0.5, 0.9)}
ATTENTION = [
    *[Case("npu_fused_attention_score_fwd", (*heads(*sizes)[0], heads(*sizes)[1], scale, 1.0), score, grad=(0, 1, 2), label=label)
      for label, (sizes, scale, _) in (*list(BODIES.items())[:2], ("one head of two", BODIES["one head"]))],
    *[Case("npu_fused_attention_score_backward", of_score(*how), score_backward, label=label) for label, how in BODIES.items()],
    *[Case("npu_fused_attention_score_grad", of_score(*how), score_grad, label=label) for label, how in BODIES.items()],
    *[Case("npu_fused_attention_qkv_grad", (*(rand(n, m, seed=s) for s in range(3)), *(rand(k, m, seed=s) for s in range(3)), rand(n, k),
                                            rand(n, k, seed=8)), qkv_grad, label=label)
      for label, n, m, k in (("many rows", 70, 3, 2), ("one column", 4, 1, 5), ("one input", 4, 5, 1))],
]

N2, D2 = 4, 3
X5, ONE_X = rand(1, 5, N2, D2), rand(1, N2, D2, seed=1)
PHI2, GAMMA2 = rand(24, N2 * D2) * 0.3, rand(N2, D2, seed=3)


def of_pre(x, gamma, hc_eps=1e-6):
    outputs = pre(x, PHI2, ALPHA, BIAS, gamma, hc_eps=hc_eps, out_flag=1)
    return (x, PHI2, ALPHA, *(rand(*t.shape, seed=7) for t in outputs[:3]), *outputs[3:], outputs[1], gamma, hc_eps, None)


def streams(*shape):
    return rand(*shape, N2, D2), rand(*shape, N2, N2), rand(*shape, D2), rand(*shape, N2, seed=1)


def of_sinkhorn(x, num_iters):
    return Case("npu_mhc_sinkhorn_backward", (rand(*x.shape, seed=2), *kept(x, num_iters)), lambda g, *_: grads(
        lambda t: sinkhorn(t, num_iters=num_iters), (x,), g), label=f"{tuple(x.shape)}")


LONG_SEQ = rand(12, 1, 3)
SEEN = torch.rand(1, 12, generator=torch.Generator().manual_seed(1)) > 0.5
HYPER = [
    Case("npu_mhc_pre", (X5, PHI2, ALPHA, BIAS), pre, {"gamma": GAMMA2, "out_flag": 1, "norm_eps": 1e-2}, grad=(0, 1, 2, 3),
        label="narrow streams"),
    Case("npu_mhc_pre", (ONE_X, PHI2, ALPHA, BIAS), pre, {"hc_eps": 1e-2}, label="one token"),
    *[Case("npu_mhc_pre_backward", of_pre(*how), pre_backward, label=label)
      for label, how in (("narrow streams", (X5, GAMMA2)), ("one token", (ONE_X, GAMMA2)), ("one token without gamma", (ONE_X, None)))],
    *[Case("npu_mhc_post", streams(*shape), post, grad=(0, 1, 2, 3), label=label) for label, shape in (("one token", (1,)),
        ("three by five", (3, 5)))],
    *[Case("npu_mhc_post_backward", (rand(*streams(*shape)[0].shape, seed=4), *streams(*shape)), lambda g, *args: grads(post, args, g),
        label=label)
      for label, shape in (("one token", (1,)), ("three by five", (3, 5)))],
    *[Case("npu_mhc_sinkhorn", (x,), lambda x, **kw: (sinkhorn(x, **kw), *kept(x, kw["num_iters"], kw.get("eps", 1e-6))),
           {"out_flag": 1, "num_iters": n, **more}, grad=(0,), label=label)
      for label, x, n, more in (("one matrix", rand(1, 4, 4), 5, {}), ("eps", rand(3, 6, 6), 2, {"eps": 0.05}), ("flat ends", rand(2, 4,
          4) * 9, 7, {}))],
    of_sinkhorn(rand(1, 4, 4), 6), of_sinkhorn(rand(2, 3, 6, 6), 2), of_sinkhorn(rand(20, 4, 4), 3),
    *[case for label, x, w, options in (("twelve steps", LONG_SEQ, rand(4, 3), {"mask": SEEN}), ("one weight", rand(5, 2, 4), rand(1, 4),
        {}),
                                        ("longer than the sequence", rand(2, 3, 4), rand(4, 4), {})) for case in (
        Case("npu_masked_causal_conv1d", (x, w), masked_conv, options, grad=(0, 1), label=label),
        Case("npu_masked_causal_conv1d_backward", (rand(*x.shape, seed=3), x, w), lambda g, x, w, mask=None: grads(
            lambda a, b: masked_conv(a, b, mask), (x, w), g), options, label=label))],
]


def normal(*shape, seed=0):
    return torch.nn.functional.normalize(rand(*shape, seed=seed), dim=-1)


def delta(tokens, heads, value_heads):
    return (normal(tokens, heads, 4), normal(tokens, heads, 4, seed=1), rand(tokens, value_heads, 3)), {
        "beta": rand(tokens, value_heads).sigmoid(), "g": -rand(tokens, value_heads, seed=2).abs()}


RULES = {"one sequence": (delta(6, 1, 1), [6]), "three sequences": (delta(7, 2, 2), [1, 4, 2]), "four heads each": (delta(3, 1, 4), [2, 1])}
DELTA = [case for label, ((qkv, gates), lengths) in RULES.items() for case in (
    Case("npu_chunk_gated_delta_rule", qkv, chunk_delta, {**gates, "initial_state": rand(len(lengths), qkv[2].shape[1], 3, 4), "scale": 0.7,
                                                          "actual_seq_lengths": torch.tensor(lengths, dtype=torch.int32)}, label=label),
    *(Case(op, (*qkv, rand(9, qkv[2].shape[1], 3, 4)), reference, {
        **gates, "scale": 0.7, "actual_seq_lengths": torch.tensor(lengths, dtype=torch.int32),
        "ssm_state_indices": (torch.arange(len(qkv[0])) * 2 % 9).to(torch.int32), **more}, label=label)
      for op, reference in (("npu_recurrent_gated_delta_rule", lambda *a, **kw: recurrent_delta(*a, **kw)[0]),
                            ("npu_recurrent_gated_delta_rule_functional", recurrent_delta))
      for more in ({"num_accepted_tokens": torch.tensor(lengths, dtype=torch.int32)} if label == "three sequences" else {},)))]
CASES = [*RECURRENT, *ATTENTION, *HYPER, *DELTA]
# Why the official client cannot be asked, or does not agree.
NOT_OFFICIAL = {
    **{f"{case} gradient": "it needs the gradients of all results" for case in CASES if case.op == "npu_mhc_pre"},
    **{str(case): "it takes 16 bits, and float32 for h_res and h_post" for case in CASES if case.op == "npu_mhc_post_backward"},
    **{f"{case} gradient": "the same" for case in CASES if case.op == "npu_mhc_post"},
}
