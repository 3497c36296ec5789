"""Recurrent networks against torch's own, and the attention of older models with its gradients."""

import math

import torch
from cases import Case, grads, rand

STEPS, BATCH, INPUTS, HIDDEN = 4, 3, 5, 2
X, H, C = rand(STEPS, BATCH, INPUTS), rand(1, BATCH, HIDDEN), rand(1, BATCH, HIDDEN, seed=1)
WEIGHT, BIAS = rand(INPUTS + HIDDEN, 4 * HIDDEN), rand(4 * HIDDEN, seed=2)
NET = (True, 1, 0.0, True, False, False)  # has_biases, num_layers, dropout, train, bidirectional, batch_first
LENGTHS = torch.tensor([4, 2, 1])
BATCH_SIZES = torch.tensor([3, 2, 1, 1])
MASK = (torch.arange(STEPS).unsqueeze(1) < LENGTHS).unsqueeze(-1).expand(STEPS, BATCH, HIDDEN).half()
NO_MASK = torch.zeros(0)


def lstm(x, weight, bias, mask, h, c, *how):
    """Cell by cell, for each sequence on its own: (y, h, c, i, j, f, o, tanhc)."""
    flag_seq, reverse = how[-2:]
    steps, batch = x.shape[:2]
    hidden = h.shape[-1]
    kept = [[[None] * batch for _ in range(steps)] for _ in range(8)]
    for b in range(batch):
        hb, cb = h[0, b], c[0, b]
        for t in (range(steps - 1, -1, -1) if reverse else range(steps)):
            z = torch.cat([x[t, b], hb]) @ weight + bias
            i, f, j, o = z.split(hidden)
            i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
            new_c = f * cb + i * j
            new_h = o * new_c.tanh()
            tanhc, y = new_c.tanh(), new_h
            if flag_seq and not mask[t, b, 0]:
                new_h, new_c, y = hb, cb, torch.zeros(hidden)
            hb, cb = new_h, new_c
            for n, value in enumerate((y, hb, cb, i, j, f, o, tanhc)):
                kept[n][t][b] = value
    return tuple(torch.stack([torch.stack(row) for row in rows]) for rows in kept)


def lstm_data(x, sizes, *rest):
    return lstm(x, *rest)


def seeds(shape):
    return rand(*shape, seed=11), rand(*shape, seed=12), rand(*shape, seed=13)


def of_lstm(x, h, c, missing=()):
    outputs = lstm(x, WEIGHT, BIAS, NO_MASK, h, c, *NET, False, False)
    given = [None if n in missing else g for n, g in enumerate(seeds(outputs[0].shape))]
    return (*given, x, WEIGHT, BIAS, h, c, *outputs)


def several(outputs, leaves, given):
    """Gradients through those outputs that have one."""
    pairs = [(out, g) for out, g in zip(outputs, given) if g is not None]
    return torch.autograd.grad([out for out, _ in pairs], leaves, [g for _, g in pairs])


def leaves_of(*tensors):
    return [t.detach().requires_grad_() for t in tensors]


def lstm_backward(dy, dh, dc, x, weight, bias, h, c, *_):
    leaves = leaves_of(x, weight, bias, h, c)
    with torch.enable_grad():
        return several(lstm(*leaves[:3], NO_MASK, *leaves[3:], *NET, False, False), leaves, (dy, dh, dc))


def of_lstm_data(reverse, h=H, c=C):
    outputs = lstm(X, WEIGHT, BIAS, MASK, h, c, *NET, True, reverse)
    return (*seeds(outputs[0].shape), X, BATCH_SIZES, WEIGHT, BIAS, h, c, *outputs, reverse)


def lstm_data_backward(dy, dh, dc, x, sizes, weight, bias, h, c, *rest):
    mask = torch.stack([torch.arange(x.shape[1]) < n for n in sizes.tolist()]).unsqueeze(-1).expand(*x.shape[:2], h.shape[-1])
    leaves = leaves_of(x, weight, bias, h, c)
    with torch.enable_grad():
        return several(lstm(*leaves[:3], mask, *leaves[3:], *NET, True, rest[-1]), leaves, (dy, dh, dc))


W_IH, W_HH, B_IH, B_HH = rand(INPUTS, 4 * HIDDEN), rand(HIDDEN, 4 * HIDDEN), rand(4 * HIDDEN), rand(4 * HIDDEN, seed=3)


def cell(x, w_ih, w_hh, h, c, b_ih=None, b_hh=None):
    bias = sum((b for b in (b_ih, b_hh) if b is not None), torch.zeros(w_hh.shape[1]))
    y, hs, cs, *rest = lstm(x.unsqueeze(0), torch.cat([w_ih, w_hh]), bias, NO_MASK, h.unsqueeze(0), c.unsqueeze(0), *NET, False, False)
    return y, hs[0], cs[0], *rest


def of_cell(missing=()):
    outputs = cell(X[0], W_IH, W_HH, H[0], C[0], B_IH, B_HH)
    given = [None if n in missing else rand(*outputs[n].shape, seed=20 + n) for n in range(3)]
    return (*given, X[0], W_IH, W_HH, H[0], C[0], *outputs)


def cell_backward(dy, dh, dc, x, w_ih, w_hh, h, c, *_):
    leaves = leaves_of(x, w_ih, w_hh, B_IH, B_HH, h, c)
    with torch.enable_grad():
        return several(cell(*leaves[:3], *leaves[5:], *leaves[3:5]), leaves, (dy, dh, dc))


G_IH, G_HH, GB_IH, GB_HH = rand(INPUTS, 3 * HIDDEN), rand(HIDDEN, 3 * HIDDEN), rand(3 * HIDDEN), rand(3 * HIDDEN, seed=3)


def gru(x, hx, w_ih, w_hh, b_ih, b_hh, *_):
    """By torch's cell; gates again from the states."""
    cell_of = torch.nn.functional.linear
    h, rows = hx[0], []
    for step in x:
        r_in, z_in, n_in = cell_of(step, w_ih.t(), b_ih).split(hx.shape[-1], -1)
        r_h, z_h, n_h = cell_of(h, w_hh.t(), b_hh).split(hx.shape[-1], -1)
        r, z = torch.sigmoid(r_in + r_h), torch.sigmoid(z_in + z_h)
        n = torch.tanh(n_in + r * n_h)
        h = torch.ops.aten.gru_cell(step, h, w_ih.t(), w_hh.t(), b_ih, b_hh)
        rows.append((h, h, z, r, n, n_h))
    return tuple(torch.stack([row[k] for row in rows]) for k in range(6))


GRU = (X, H, G_IH, G_HH, GB_IH, GB_HH, torch.tensor(0), *NET)


def of_gru(missing=()):
    outputs = gru(*GRU)
    given = [None if n in missing else rand(*outputs[0].shape, seed=30 + n) for n in range(2)]
    return (*given, X, G_IH, G_HH, GB_IH, GB_HH, torch.tensor(0), H, *outputs)


def gru_backward(dy, dh, x, w_ih, w_hh, b_ih, b_hh, lengths, hx, *_):
    leaves = leaves_of(w_ih, w_hh, x, b_ih, b_hh, hx)
    with torch.enable_grad():
        return several(gru(leaves[2], leaves[5], leaves[0], leaves[1], *leaves[3:5]), leaves, (dy, dh))


# ---- networks of several layers ----


def net_params(gates, layers, directions, biases, hidden=HIDDEN):
    made = []
    for layer in range(layers):
        for direction in range(directions):
            seed = 10 * layer + direction
            inputs = INPUTS if layer == 0 else hidden * directions
            made += [rand(gates * hidden, inputs, seed=seed), rand(gates * hidden, hidden, seed=seed + 1)]
            if biases:
                made += [rand(gates * hidden, seed=seed + 2), rand(gates * hidden, seed=seed + 3)]
    return made


def whole_gru(x, hx, params, biases, layers, dropout, train, bidirectional, *, batch_first=False, batch_sizes=None):
    return torch.gru(x, hx, params, biases, layers, dropout, train, bidirectional, batch_first)


def whole_lstm(x, hx, params, biases, layers, dropout, train, bidirectional, *, batch_first=False, batch_sizes=None):
    return torch.lstm(x, hx, params, biases, layers, dropout, train, bidirectional, batch_first)


FORMS = {"": (1, 1, True, False), "deep": (2, 2, True, False), "batch first": (1, 2, False, True)}


def of_net(gates, layers, directions, biases, batch_first, train=True):
    x = X.transpose(0, 1).contiguous() if batch_first else X
    states = [rand(layers * directions, BATCH, HIDDEN, seed=s) for s in (0, 1)]
    args = (x, states[0] if gates == 3 else states, net_params(gates, layers, directions, biases), biases, layers, 0.0, train,
        directions == 2)
    return args, {"batch_first": batch_first}


def kept_steps(args, kwargs, gates):
    """The steps of every layer and direction, by the networks of one layer above."""
    x, hx, params, biases, layers, _, _, bidirectional = args
    x = x.transpose(0, 1) if kwargs["batch_first"] else x
    directions, per_part, rows = 1 + bidirectional, 4 if biases else 2, []
    for layer in range(layers):
        sides = []
        for direction in range(directions):
            part = layer * directions + direction
            w_ih, w_hh, *b = params[part * per_part : (part + 1) * per_part]
            b_ih, b_hh = b or (torch.zeros(len(w_ih)), torch.zeros(len(w_ih)))
            run = x.flip(0) if direction else x
            if gates == 3:
                y, h, z, r, n, hn = gru(run, hx[part : part + 1], w_ih.t(), w_hh.t(), b_ih, b_hh)
                found = (r, z, n, hn, h)
            else:
                y, h, c, i, j, f, o, tanhc = lstm(run, torch.cat([w_ih, w_hh], 1).t(), b_ih + b_hh, NO_MASK, hx[0][part : part + 1],
                                                  hx[1][part : part + 1], *NET, False, False)
                found = (i, j, f, o, h, c, tanhc)
            rows.append([t.flip(0) if direction else t for t in found])
            sides.append(y.flip(0) if direction else y)
        x = torch.cat(sides, -1)
    return [torch.stack([row[k] for row in rows]) for k in range(len(rows[0]))]


def gru_net(*args, **kwargs):
    return (*whole_gru(*args, **kwargs), *kept_steps(args, kwargs, 3))


def lstm_net(*args, **kwargs):
    return (*whole_lstm(*args, **kwargs), *kept_steps(args, kwargs, 4))


def of_gru_net(form):
    args, kwargs = of_net(3, *form)
    y, h = whole_gru(*args, **kwargs)
    return (rand(*y.shape, seed=5), rand(*h.shape, seed=6), *args[:3], *kept_steps(args, kwargs, 3), *args[3:]), kwargs


def of_lstm_net(form):
    args, kwargs = of_net(4, *form)
    y, h, c = whole_lstm(*args, **kwargs)
    return (*(rand(*t.shape, seed=s) for t, s in ((y, 5), (h, 6), (c, 7))), *args[:3], *kept_steps(args, kwargs, 4), *args[3:]), kwargs


def gru_net_backward(dy, dh, x, hx, params, *rest, **kwargs):
    leaves = leaves_of(x, hx, *params)
    with torch.enable_grad():
        found = several(whole_gru(leaves[0], leaves[1], leaves[2:], *rest[5:], **kwargs), leaves, (dy, dh))
    return found[0], found[1], Listed(found[2:])


def lstm_net_backward(dy, dh, dc, x, hx, params, *rest, **kwargs):
    leaves = leaves_of(x, *hx, *params)
    with torch.enable_grad():
        found = several(whole_lstm(leaves[0], leaves[1:3], leaves[3:], *rest[7:], **kwargs), leaves, (dy, dh, dc))
    return found[0], Listed(found[1:3]), Listed(found[3:])


class Listed(list):
    """A list of results that equals one of the same numbers."""

    def __eq__(self, other):
        for a, b in zip(other, self, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
        return True

    __hash__ = None


RECURRENT = [
    Case("npu_lstm", (X, WEIGHT, BIAS, NO_MASK, H, C, *NET, False, False), lstm, grad=(0, 1, 2, 4, 5)),
    Case("npu_lstm", (X, WEIGHT, BIAS, NO_MASK, H, C, *NET, False, True), lstm, grad=(0, 1, 2, 4, 5), through=2, label="backwards"),
    Case("npu_lstm", (X, WEIGHT, BIAS, MASK, H, C, *NET, True, False), lstm, grad=(0, 1, 2), label="ragged"),
    Case("npu_lstm_data", (X, BATCH_SIZES, WEIGHT, BIAS, MASK, H, C, *NET, True, False), lstm_data, grad=(0, 2, 3, 5, 6)),
    Case("npu_lstm_data", (X, BATCH_SIZES, WEIGHT, BIAS, MASK, H, C, *NET, True, True), lstm_data, grad=(0, 2, 3), through=1,
         label="backwards"),
    Case("npu_lstm_data", (X, BATCH_SIZES, WEIGHT, BIAS, MASK, H, C, *NET, False, False), lstm_data, label="whole"),
    Case("npu_lstm_backward", of_lstm(X, H, C), lstm_backward),
    Case("npu_lstm_backward", of_lstm(X, H, C, missing=(1, 2)), lstm_backward, label="outputs"),
    Case("npu_lstm_backward", of_lstm(X[:1], H, C, missing=(0,)), lstm_backward, label="states"),
    Case("npu_lstm_data_backward", of_lstm_data(False), lstm_data_backward),
    Case("npu_lstm_data_backward", of_lstm_data(True), lstm_data_backward, label="backwards"),
    Case("npu_lstm_data_backward", of_lstm_data(False, H * 0, C * 0), lstm_data_backward, label="from zero"),
    Case("npu_lstm_cell", (X[0], W_IH, W_HH, H[0], C[0], B_IH, B_HH), cell, grad=(0, 1, 2, 3, 4, 5, 6)),
    Case("npu_lstm_cell", (X[0], W_IH, W_HH, H[0], C[0]), cell, grad=(0, 1, 2, 3, 4), through=2, label="without biases"),
    Case("npu_lstm_cell", (X[1], W_IH, W_HH, H[0] * 0, C[0] * 0, B_IH, B_HH), cell, through=1, label="first"),
    Case("npu_lstm_cell_backward", of_cell(), cell_backward),
    Case("npu_lstm_cell_backward", of_cell(missing=(0, 2)), cell_backward, label="state"),
    Case("npu_lstm_cell_backward", of_cell(missing=(0, 1)), cell_backward, label="cell"),
    Case("npu_gru", GRU, gru, grad=(0, 1, 2, 3, 4, 5)),
    Case("npu_gru", (X[:1], *GRU[1:]), gru, grad=(0, 1), through=1, label="one step"),
    Case("npu_gru", (X, H * 0, *GRU[2:]), gru, label="from zero"),
    Case("npu_gru_backward", of_gru(), gru_backward),
    Case("npu_gru_backward", of_gru(missing=(0,)), gru_backward, label="states"),
    Case("npu_gru_backward", of_gru(missing=(1,)), gru_backward, label="outputs"),
    *(Case("_gru_npu", of_net(3, *form)[0], gru_net, of_net(3, *form)[1], grad=(0, 1), label=label) for label, form in FORMS.items()),
    *(Case("_lstm_npu", of_net(4, *form)[0], lstm_net, of_net(4, *form)[1], grad=(0,), label=label) for label, form in FORMS.items()),
    *(Case("_gru_npu_backward", of_gru_net(form)[0], gru_net_backward, of_gru_net(form)[1], label=label) for label, form in FORMS.items()),
    *(Case("_lstm_npu_backward", of_lstm_net(form)[0], lstm_net_backward, of_lstm_net(form)[1], label=label) for label,
         form in FORMS.items()),
]

# ---- attention of older models ----
Q, K, V = rand(2, 3, 4, 5), rand(2, 3, 4, 5, seed=1), rand(2, 3, 4, 5, seed=2)
ADDED = torch.where(torch.rand(2, 1, 4, 4, generator=torch.Generator().manual_seed(0)) > 0.7, -100.0, 0.0)
KEPT = (torch.rand(2 * 3 * 4 * 4, generator=torch.Generator().manual_seed(1)) > 0.3).to(torch.uint8)


def joined(x):
    return x.transpose(1, 2).reshape(x.shape[0] * x.shape[2], -1)


def score(q, k, v, mask, scale, keep_prob, kept=None):
    probs = torch.softmax(q @ k.mT * scale + mask, -1)
    dropped = probs if kept is None else probs * kept.view(probs.shape) / keep_prob
    return joined(dropped @ v), probs, torch.ones(probs.numel(), dtype=torch.uint8) if kept is None else kept


def of_score(keep_prob, mask=ADDED):
    kept = KEPT if keep_prob < 1 else torch.ones_like(KEPT)
    return rand(2 * 4, 15, seed=4), score(Q, K, V, mask, 0.5, keep_prob)[1], Q, K, V, kept, 0.5, keep_prob


def score_backward(grad, probs, q, k, v, kept, scale, keep_prob):
    """The mask that was added is in the probabilities: their logarithm less the product."""
    added = probs.log() - q @ k.mT * scale
    return grads(lambda a, b, c: score(a, b, c, added, scale, keep_prob, kept)[0], (q, k, v), grad)


def score_grad(*args):
    return tuple(joined(t) for t in score_backward(*args))


ROWS, WIDTH = 8, 6
HEADS, SIZE = 2, 3


def qkv(h, kernel, bias):
    return h @ kernel + bias


def qkv_grad(gq, gk, gv, wq, wk, wv, h, ln):
    found = [grads(qkv, (h, w, torch.zeros(w.shape[1])), g) for g, w in ((gq, wq), (gk, wk), (gv, wv))]
    return [ln + sum(f[0] for f in found), *(f[1] for f in found), *(f[2] for f in found)]


def attention(q, k, v, wq, wk, wv, mask, wo, bq, bk, bv, bo, kept, prob):
    def heads(x, w, b):
        return (x @ w.t() + b).view(-1, 4, HEADS, SIZE).transpose(1, 2)

    q, k, v = heads(q, wq, bq), heads(k, wk, bk), heads(v, wv, bv)
    probs = torch.softmax(q @ k.mT / math.sqrt(SIZE) + mask, -1)
    dropped = probs * kept.view_as(probs) / (1 - prob)
    context = joined(dropped @ v)
    return context @ wo.t() + bo, q / math.sqrt(SIZE), k, v, probs, dropped, context


WEIGHTS, BIASES = [rand(WIDTH, WIDTH, seed=s) for s in range(4)], [rand(WIDTH, seed=s) for s in range(4)]
INS = [rand(ROWS, WIDTH, seed=s) for s in range(3)]
ATTN_MASK, ATTN_KEPT = rand(2, HEADS, 4, 4), (rand(2, HEADS, 4, 4, seed=1) > -0.5)


def of_attention(prob, use_float, ins=INS):
    kept = ATTN_KEPT if prob else torch.ones_like(ATTN_KEPT)
    _, *saved = attention(*ins, *WEIGHTS[:3], ATTN_MASK, WEIGHTS[3], *BIASES, kept, prob)
    return (*ins, *WEIGHTS, *BIASES, *saved, rand(ROWS, WIDTH, seed=9), kept.to(torch.uint8), HEADS, SIZE, 4, 4, prob, use_float)


def attention_backward(*args):
    ins, weights, biases, grad, kept, prob = args[:3], args[3:7], args[7:11], args[17], args[18], args[23]

    def forward(wq, wk, wv, wo, q, k, v, bq, bk, bv, bo):
        return attention(q, k, v, wq, wk, wv, ATTN_MASK, wo, bq, bk, bv, bo, kept, prob)[0]

    found = grads(forward, (*weights, *ins, *biases), grad)
    return *found[:7], *(b.unsqueeze(0) for b in found[7:])


ATTENTION = [
    Case("npu_fused_attention_score_fwd", (Q, K, V, ADDED, 0.5, 1.0), score, grad=(0, 1, 2)),
    Case("npu_fused_attention_score_fwd", (Q, K, V, rand(2, 3, 4, 4), 0.25, 1.0), score, grad=(0, 1, 2), label="biased"),
    Case("npu_fused_attention_score_fwd", (Q[:1, :1], K[:1, :1], V[:1, :1], torch.zeros(1, 1, 4, 4), 1, 1.0), score, label="one head"),
    Case("npu_fused_attention_score_backward", of_score(1.0), score_backward),
    Case("npu_fused_attention_score_backward", of_score(0.7), score_backward, label="dropped"),
    Case("npu_fused_attention_score_backward", of_score(0.5, torch.zeros(1)), score_backward, label="no mask"),
    Case("npu_fused_attention_score_grad", of_score(1.0), score_grad),
    Case("npu_fused_attention_score_grad", of_score(0.7), score_grad, label="dropped"),
    Case("npu_fused_attention_score_grad", of_score(0.5, torch.zeros(1)), score_grad, label="no mask"),
    *(Case("npu_fused_attention_qkv_grad", (*(rand(ROWS, 4, seed=s) for s in range(3)), *(rand(WIDTH, 4, seed=s) for s in range(3)),
                                            rand(ROWS, WIDTH), ln), qkv_grad, label=label)
      for label, ln in (("", torch.zeros(ROWS, WIDTH)), ("norm", rand(ROWS, WIDTH, seed=8)))),
    Case("npu_multi_head_attention_backward", of_attention(0.0, True), attention_backward),
    Case("npu_multi_head_attention_backward", of_attention(0.3, True), attention_backward, label="dropped"),
    Case("npu_multi_head_attention_backward", of_attention(0.0, False), attention_backward, label="short"),
    Case("npu_multi_head_attention_backward", of_attention(0.5, False), attention_backward, label="short, dropped"),
    Case("npu_multi_head_attention_backward", of_attention(0.0, True, [t * 2 for t in INS]), attention_backward, label="sharp"),
    Case("npu_multi_head_attention_backward", of_attention(0.2, True, [INS[0]] * 3), attention_backward, label="of itself"),
]

CASES = [*RECURRENT, *ATTENTION]
