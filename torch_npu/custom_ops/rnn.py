"""LSTM and GRU step by step, with what the gradients keep: operators without an aclnn name.

Weights are transposed, [inputs, gates * hidden]. Gates of an LSTM: input, forget, cell, output; of a GRU: reset, update, new. All outputs
have a row for every step. num_layers, dropout, train, bidirectional and batch_first describe the network around this layer; none of them
changes it.
"""

import torch


def _lstm(input, w_ih, w_hh, bias, h, c, order, mask=None):
    """y, h, c, i, j, f, o, tanhc. A step that the mask leaves out keeps its states and has a result of zero."""
    rows = []
    for t in order:
        gates = input[t] @ w_ih + h @ w_hh
        i, f, j, o = (gates if bias is None else gates + bias).chunk(4, -1)
        i, f, j, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(j), torch.sigmoid(o)
        next_c = f * c + i * j
        tanhc = torch.tanh(next_c)
        y = next_h = o * tanhc
        if mask is not None:
            seen = mask[t].bool()
            y, next_h, next_c = torch.where(seen, y, 0), torch.where(seen, next_h, h), torch.where(seen, next_c, c)
        h, c = next_h, next_c
        rows.append((y, h, c, i, j, f, o, tanhc))
    steps = sorted(range(len(order)), key=lambda k: order[k])
    return tuple(torch.stack([rows[k][n] for k in steps]) for n in range(8))


def _lstm_backward(grads, input, w_ih, w_hh, h0, c0, saved, order, mask=None):
    """(input, w_ih, w_hh, bias, h0, c0) from the gates and states of every step."""
    grad_y, grad_h, grad_c = grads
    _, h, c, i, j, f, o, tanhc = saved
    dh, dc = torch.zeros_like(h0), torch.zeros_like(c0)
    d_gates = [None] * len(order)
    d_hh = torch.zeros_like(w_hh)
    for place in reversed(range(len(order))):
        t = order[place]
        before_h, before_c = (h[order[place - 1]], c[order[place - 1]]) if place else (h0, c0)
        dh = dh if grad_h is None else dh + grad_h[t]
        dc = dc if grad_c is None else dc + grad_c[t]
        seen = None if mask is None else mask[t].to(dh.dtype)
        into_h = dh if seen is None else dh * seen
        if grad_y is not None:
            into_h = into_h + (grad_y[t] if seen is None else grad_y[t] * seen)
        into_c = (dc if seen is None else dc * seen) + into_h * o[t] * (1 - tanhc[t] ** 2)
        d = torch.cat([into_c * j[t] * i[t] * (1 - i[t]), into_c * before_c * f[t] * (1 - f[t]), into_c * i[t] * (1 - j[t] ** 2),
                       into_h * tanhc[t] * o[t] * (1 - o[t])], -1)
        d_gates[t] = d
        d_hh = d_hh + before_h.t() @ d
        past_h, past_c = d @ w_hh.t(), into_c * f[t]
        dh, dc = (past_h, past_c) if seen is None else (past_h + dh * (1 - seen), past_c + dc * (1 - seen))
    d = torch.stack(d_gates)
    d_ih = input.flatten(0, 1).t() @ d.flatten(0, 1)
    return d @ w_ih.t(), d_ih, d_hh, d.sum((0, 1)), dh, dc


def _order(steps, reverse):
    return list(range(steps))[:: -1 if reverse else 1]


def _split(weight, input):
    return weight[: input.shape[-1]], weight[input.shape[-1] :]


def npu_lstm(input, weight, bias, seq_mask, h, c, has_biases, num_layers, dropout, train, bidirectional, batch_first, flag_seq, direction):
    """One layer over [steps, batch, inputs], backwards in time if `direction`; the weight has the rows of the inputs, then of the states.

    seq_mask [steps, batch, hidden] counts if flag_seq. It is this layer alone that has_biases, num_layers, dropout, train, bidirectional
    and batch_first of a network do not change.
    """
    return _lstm(input, *_split(weight, input), bias, h[0], c[0], _order(len(input), direction), seq_mask if flag_seq else None)


def npu_lstm_data(input, batch_sizes, weight, bias, seq_mask, h, c, has_biases, num_layers, dropout, train, bidirectional, batch_first,
                  flag_seq, direction):
    """npu_lstm of padded sequences, whose lengths batch_sizes gives to the gradient and seq_mask to this function."""
    return npu_lstm(input, weight, bias, seq_mask, h, c, has_biases, num_layers, dropout, train, bidirectional, batch_first, flag_seq,
                    direction)


def npu_lstm_backward(grady, gradh, gradc, input, weight, bias, hx, cx, y_output, h_output, c_output, i, j, f, o, tanhc):
    """Gradients of input, weight, bias (whose value does not matter), h and c."""
    return _joined(_lstm_backward((grady, gradh, gradc), input, *_split(weight, input), hx[0], cx[0],
                                  (y_output, h_output, c_output, i, j, f, o, tanhc), _order(len(input), False)))


def npu_lstm_data_backward(grady_opt, gradh_opt, gradc_opt, input, batch_sizes, weight, bias, init_h, init_c, y, h, c, i, j, f, o, tanhc,
                           flag_direction):
    """batch_sizes has the number of sequences that are as long as each step; they are sorted by their lengths. bias has no effect here."""
    sequences = torch.arange(input.shape[1], device=input.device)
    mask = (sequences < batch_sizes.to(input.device).unsqueeze(1)).unsqueeze(-1)
    return _joined(_lstm_backward((grady_opt, gradh_opt, gradc_opt), input, *_split(weight, input), init_h[0], init_c[0],
                                  (y, h, c, i, j, f, o, tanhc), _order(len(input), flag_direction), mask))


def _joined(found):
    d_input, d_ih, d_hh, d_bias, dh, dc = found
    return d_input, torch.cat([d_ih, d_hh]), d_bias, dh.unsqueeze(0), dc.unsqueeze(0)


def npu_lstm_cell(input, w_ih, w_hh, h, c, b_ih=None, b_hh=None):
    """One step; h and c of the result have no dimension for it."""
    bias = None if b_ih is None and b_hh is None else sum(b for b in (b_ih, b_hh) if b is not None)
    y, next_h, next_c, *rest = _lstm(input.unsqueeze(0), w_ih, w_hh, bias, h, c, [0])
    return y, next_h[0], next_c[0], *rest


def npu_lstm_cell_backward(grady, gradh, gradc, input, w_ih, w_hh, h, c, y_output, h_output, c_output, i, j, f, o, tanhc):
    """(input, w_ih, w_hh, b_ih, b_hh, h, c)."""
    grads = [grady, *(None if g is None else g.unsqueeze(0) for g in (gradh, gradc))]
    saved = (y_output, h_output.unsqueeze(0), c_output.unsqueeze(0), i, j, f, o, tanhc)
    d_input, d_ih, d_hh, d_bias, dh, dc = _lstm_backward(grads, input.unsqueeze(0), w_ih, w_hh, h, c, saved, [0])
    return d_input[0], d_ih, d_hh, d_bias, d_bias.clone(), dh, dc


def npu_gru(input, hx, weight_input, weight_hidden, bias_input, bias_hidden, seq_length, has_biases, num_layers, dropout, train,
            bidirectional, batch_first):
    """y, h, update, reset, new, and the hidden part of new, of one layer. The official plugin does not look at seq_length either.

    has_biases, num_layers, dropout, train, bidirectional and batch_first of a network do not change its one layer.
    """
    h, rows = hx.reshape(hx.shape[-2:]), []
    for x in input @ weight_input + bias_input:
        (r, z, n), (hr, hz, hn) = x.chunk(3, -1), (h @ weight_hidden + bias_hidden).chunk(3, -1)
        reset, update = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
        new = torch.tanh(n + reset * hn)
        h = (1 - update) * new + update * h
        rows.append((h, h, update, reset, new, hn))
    return tuple(torch.stack([row[n] for row in rows]) for n in range(6))


def npu_gru_backward(grady, gradh, input, weight_input, weight_hidden, bias_input, bias_hidden, seq_length, hx, y_output, h_output,
                     output_updata, output_reset, output_new, hidden_new):
    """(weight_input, weight_hidden, input, bias_input, bias_hidden, hx); seq_length and y_output have no effect on them."""
    h0 = hx.reshape(hx.shape[-2:])
    dh, d_in, d_hid = torch.zeros_like(h0), [], []
    for t in reversed(range(len(input))):
        dh = dh if grady is None else dh + grady[t]
        dh = dh if gradh is None else dh + gradh[t]
        before = h_output[t - 1] if t else h0
        update, reset, new, hidden = output_updata[t], output_reset[t], output_new[t], hidden_new[t]
        d_new = dh * (1 - update) * (1 - new**2)
        d_update, d_reset = dh * (before - new) * update * (1 - update), d_new * hidden * reset * (1 - reset)
        d_in.append(torch.cat([d_reset, d_update, d_new], -1))
        d_hid.append(torch.cat([d_reset, d_update, d_new * reset], -1))
        dh = dh * update + d_hid[-1] @ weight_hidden.t()
    d_in, d_hid = torch.stack(d_in[::-1]), torch.stack(d_hid[::-1])
    befores = torch.cat([h0.unsqueeze(0), h_output[:-1]])
    return (input.flatten(0, 1).t() @ d_in.flatten(0, 1), befores.flatten(0, 1).t() @ d_hid.flatten(0, 1), d_in @ weight_input.t(),
            d_in.sum((0, 1)), d_hid.sum((0, 1)), dh.reshape(hx.shape))
