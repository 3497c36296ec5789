"""The attention operators: every layout with every sparse mode, against attention written out query by query."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "ops"))
import counters  # noqa: E402

B, N, D = 2, 4, 8
LAYOUTS = ["BSH", "SBH", "BSND", "BNSD", "TND"]
# Modes 7 and 8 are about several sequences in a row.
COMBINATIONS = [(layout, mode) for layout in LAYOUTS for mode in range(9 if layout == "TND" else 7)]
SHAPES = [(5, 5), (4, 7)]
npu = torch.ops.npu


def make(rows, columns, kv_heads=N, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(B, N, rows, D, generator=g), torch.randn(B, kv_heads, columns, D, generator=g),
            torch.randn(B, kv_heads, columns, D, generator=g))


def to_layout(x, layout):
    return {"BSH": lambda: x.transpose(1, 2).flatten(2), "SBH": lambda: x.permute(2, 0, 1, 3).flatten(2),
            "BSND": lambda: x.transpose(1, 2), "BNSD": lambda: x, "TND": lambda: x.transpose(1, 2).flatten(0, 1)}[layout]().contiguous()


def visible(mode, b, i, j, rows, columns, pre, nxt, mask, prefix):
    """Whether query i of batch b sees key j: the definition of each mode."""
    corner = i + columns - rows  # the diagonal that ends in the lower right
    if mode == 0:
        return not mask[i, j] and i - pre <= j <= i + nxt
    if mode == 1:
        return not mask[i, j]
    if mode == 2 or (mode == 8 and b > 0):
        return j <= i
    if mode == 3 or (mode == 7 and b < B - 1):
        return j <= corner
    if mode in (4, 7, 8):
        return corner - pre <= j <= corner + nxt
    return j <= corner or j < prefix[b]


def reference(q, k, v, scale, mode, pre, nxt, mask, prefix, bias=None):
    k, v = (t.repeat_interleave(N // t.shape[1], 1) for t in (k, v))
    rows, columns = q.shape[2], k.shape[2]
    scores = q @ k.transpose(-1, -2)
    scores = (scores if bias is None else scores + bias) * scale
    seen = torch.tensor([[[visible(mode, b, i, j, rows, columns, pre, nxt, mask, prefix) for j in range(columns)]
                          for i in range(rows)] for b in range(B)]).unsqueeze(1)
    probs = torch.softmax(scores.masked_fill(~seen, -math.inf), -1).nan_to_num(0.0)
    return probs @ v


def arguments(mode, rows, columns):
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(mode)) > 0.7
    mask[:, 0] = False
    return mask, [2, 3], 2, 1


@pytest.mark.parametrize("rows, columns", SHAPES)
@pytest.mark.parametrize("layout, mode", COMBINATIONS)
def test_layouts_and_sparse_modes(layout, mode, rows, columns):
    mask, prefix, pre, nxt = arguments(mode, rows, columns)
    cpu = [t.requires_grad_() for t in make(rows, columns)]
    expected = reference(*cpu, 0.3, mode, pre, nxt, mask, prefix)
    inputs = [to_layout(t.detach(), layout).npu().requires_grad_() for t in cpu]
    ends = {"actual_seq_qlen": [rows, 2 * rows], "actual_seq_kvlen": [columns, 2 * columns]} if layout == "TND" else {}
    out, top, total, *rest = npu.npu_fusion_attention(*inputs, N, layout, atten_mask=mask.npu(), scale=0.3, pre_tockens=pre,
                                                      next_tockens=nxt, prefix=prefix, sparse_mode=mode, **ends)
    torch.testing.assert_close(out.detach().cpu(), to_layout(expected.detach(), layout), rtol=1e-4, atol=1e-5)
    assert top.shape == total.shape == ((2 * rows, N, 8) if layout == "TND" else (B, N, rows, 8))

    seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    wanted = torch.autograd.grad(expected, cpu, seed)
    found = torch.autograd.grad(out, inputs, to_layout(seed, layout).npu())
    for a, e in zip(found, wanted):
        torch.testing.assert_close(a.cpu(), to_layout(e, layout), rtol=1e-4, atol=1e-5)


def test_row_statistics_give_the_softmax():
    q, k, v = make(3, 4)
    _, top, total, *_ = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", scale=0.5)
    scores = q @ k.transpose(-1, -2) * 0.5
    probs = torch.exp(scores - top[..., :1].cpu()) / total[..., :1].cpu()
    torch.testing.assert_close(probs, torch.softmax(scores, -1))


def test_fewer_key_heads_are_shared():
    q, k, v = make(5, 5, kv_heads=2)
    expected = reference(q, k, v, 0.3, 2, 0, 0, None, None)
    out = npu.npu_fusion_attention(*(to_layout(t, "BSH").npu() for t in (q, k, v)), N, "BSH", scale=0.3, sparse_mode=2)[0]
    torch.testing.assert_close(out.cpu(), to_layout(expected, "BSH"), rtol=1e-4, atol=1e-5)


def test_pse_is_added_before_or_after_scaling():
    q, k, v = make(3, 4)
    pse = torch.randn(B, N, 3, 4, generator=torch.Generator().manual_seed(2))
    nothing = torch.zeros(3, 4, dtype=torch.bool)
    before = reference(q, k, v, 0.3, 1, 0, 0, nothing, None, pse)
    after = reference(q, k, v, 0.3, 1, 0, 0, nothing, None, pse / 0.3)
    args = [t.npu() for t in (q, k, v)]
    for expected, out in [
        (before, npu.npu_fusion_attention(*args, N, "BNSD", pse.npu(), scale=0.3)),
        (before, npu.npu_fusion_attention_v2(*args, N, "BNSD", pse=pse.npu(), scale=0.3)),
        (after, npu.npu_fusion_attention_v2(*args, N, "BNSD", pse=pse.npu(), scale=0.3, pse_type=0)),
        (after, [npu.npu_prompt_flash_attention(*args, num_heads=N, input_layout="BNSD", pse_shift=pse.npu(), scale_value=0.3)]),
    ]:
        torch.testing.assert_close(out[0].cpu(), expected, rtol=1e-4, atol=1e-5)


def test_pse_of_each_sequence_in_a_row():
    q, k, v = make(3, 4)
    pse = torch.randn(B, N, 3, 4, generator=torch.Generator().manual_seed(2))
    nothing = torch.zeros(3, 4, dtype=torch.bool)
    ends = {"actual_seq_qlen": [3, 6], "actual_seq_kvlen": [4, 8]}
    inputs = [to_layout(t, "TND").npu() for t in (q, k, v)]
    for bias in (pse, pse[:1]):  # one for each sequence, or one for all
        expected = reference(q, k, v, 0.3, 1, 0, 0, nothing, None, bias)
        out = npu.npu_fusion_attention(*inputs, N, "TND", bias.npu(), scale=0.3, **ends)[0]
        torch.testing.assert_close(out.cpu(), to_layout(expected, "TND"), rtol=1e-4, atol=1e-5)


def test_given_dropout_mask_is_applied_and_scaled():
    q, k, v = make(3, 4)
    keep = torch.rand(B, N, 3, 4, generator=torch.Generator().manual_seed(4)) < 0.8
    expected = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) * keep / 0.8 @ v
    out = npu.npu_fusion_attention(*(t.npu() for t in (q, k, v)), N, "BNSD", scale=0.3, keep_prob=0.8,
                                   dropout_mask=keep.to(torch.uint8).npu())[0]
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_state_of_the_dropout_is_returned():
    q, k, v = (t.npu() for t in make(3, 4))
    *_, seed, offset, numels = npu.npu_fusion_attention(q, k, v, N, "BNSD", keep_prob=0.8, seed=3, offset=5)
    assert (seed, offset) == (3, 5) and numels != 0
    assert npu.npu_fusion_attention(q, k, v, N, "BNSD", seed=3, offset=5)[-1] == 0
    assert npu.npu_fusion_attention_v2(q, k, v, N, "BNSD", keep_prob=0.8, seed=3, offset=5)[-3:] == (3, 5, numels)
    for operator in (npu.npu_fusion_attention, npu.npu_fusion_attention_v2):
        assert operator(q, k, v, N, "BNSD")[-3:] == (0, 0, 0)


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD", "TND"])
def test_elements_of_the_dropout_mask_are_counted(layout):
    inputs = [to_layout(t, layout).npu() for t in make(3, 4)]
    ends = {"actual_seq_qlen": [3, 6], "actual_seq_kvlen": [4, 8]} if layout == "TND" else {}
    assert npu.npu_fusion_attention(*inputs, N, layout, keep_prob=0.8, **ends)[-1] == B * N * 3 * 4


def test_dropout_repeats_with_its_own_seed():
    q, k, v = (t.npu() for t in make(64, 64))
    first, again = (npu.npu_fusion_attention(q, k, v, N, "BNSD", keep_prob=0.8, seed=3, offset=5)[0] for _ in range(2))
    assert torch.equal(first, again)


ENDS = {"actual_seq_qlen": [3, 6], "actual_seq_kvlen": [4, 8]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_draws_the_mask_of_the_forward_pass(layout):
    q, k, v = make(3, 4)
    options = {"keep_prob": 0.6, "seed": 3, "offset": 8, **(ENDS if layout == "TND" else {})}
    # Equal probabilities times one-hot values show which ones are kept.
    shown = [to_layout(t, layout).npu() for t in (torch.zeros_like(q), k, torch.eye(4, D).expand(B, N, 4, D))]
    rows = npu.npu_fusion_attention(*shown, N, layout, **options)[0].cpu()
    rows = rows if layout in ("BNSD", "SBH") else rows.reshape(B, 3, N, D).transpose(1, 2)
    kept = (rows.unflatten(2, (N, D)).permute(1, 2, 0, 3) if layout == "SBH" else rows)[..., :4] > 0
    assert 0.3 < kept.float().mean() < 0.9
    cpu = [t.requires_grad_() for t in (q, k, v)]
    expected = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) * kept / 0.6 @ v
    inputs = [to_layout(t.detach(), layout).npu().requires_grad_() for t in cpu]
    out = npu.npu_fusion_attention(*inputs, N, layout, scale=0.3, **options)[0]
    torch.testing.assert_close(out.detach().cpu(), to_layout(expected.detach(), layout), rtol=1e-4, atol=1e-5)
    seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    for a, e in zip(torch.autograd.grad(out, inputs, to_layout(seed, layout).npu()), torch.autograd.grad(expected, cpu, seed)):
        torch.testing.assert_close(a.cpu(), to_layout(e, layout), rtol=1e-4, atol=1e-5)


def test_drawn_seed_serves_the_explicit_gradient():
    q, k, v = (t.npu().requires_grad_() for t in make(16, 16))
    torch.npu.manual_seed(0)
    out, top, total, _, seed, offset, numels = npu.npu_fusion_attention(q, k, v, N, "BNSD", keep_prob=0.7)
    dy = torch.ones_like(out)
    wanted = torch.autograd.grad(out, [q, k, v], dy)
    found = npu.npu_fusion_attention_grad(q.detach(), k.detach(), v.detach(), dy, N, "BNSD", softmax_max=top, softmax_sum=total,
                                          attention_in=out.detach(), keep_prob=0.7, seed=seed, offset=offset, numels=numels)
    for a, e in zip(found, wanted):
        assert torch.equal(a, e)
    with pytest.raises(RuntimeError, match="keep_prob needs the seed and offset that the forward pass returned"):
        npu.npu_fusion_attention_grad(q.detach(), k.detach(), v.detach(), dy, N, "BNSD", keep_prob=0.7)


@pytest.mark.parametrize("where", ["cpu", "npu"])
def test_third_version_takes_lengths_and_seeds_as_tensors(where):
    q, k, v = (to_layout(t, "TND").npu().requires_grad_() for t in make(3, 4))
    ends = {name: torch.tensor(list_).to(where) for name, list_ in ENDS.items()}
    for keep in (1.0, 0.7):
        torch.npu.manual_seed(1)
        out, top, total, _, seed, offset = npu.npu_fusion_attention_v3(q, k, v, N, "TND", keep_prob=keep, **ends)
        dy = torch.ones_like(out)
        wanted = torch.autograd.grad(out, [q, k, v], dy)
        torch.npu.manual_seed(1)
        other, *_ = npu.npu_fusion_attention(q, k, v, N, "TND", keep_prob=keep, **ENDS)
        assert torch.equal(other, out) and all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(other, [q, k, v], dy), wanted))
        found = npu.npu_fusion_attention_grad_v3(q.detach(), k.detach(), v.detach(), dy, N, "TND", softmax_max=top, softmax_sum=total,
                                                 attention_in=out.detach(), keep_prob=keep, seed=seed.to(where),
                                                 offset=offset.to(where), **ends)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted))


def test_compiled_dropout_has_the_gradient_of_its_mask():
    q, k, v = (t.npu().requires_grad_() for t in make(16, 16))

    def run(q, k, v):
        return npu.npu_fusion_attention_v3(q, k, v, N, "BNSD", keep_prob=0.7)[0]

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    results = []
    for function in (run, compiled, compiled):
        torch.npu.manual_seed(1)
        out = function(q, k, v)
        results.append([out.detach(), *torch.autograd.grad(out.square().sum(), [q, k, v])])
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other))
    assert not torch.equal(compiled(q, k, v), results[0][0])  # drawn anew
    first = torch.compile(lambda *a: npu.npu_fusion_attention(*a, N, "BNSD", keep_prob=0.7)[0], backend="aot_eager")(q, k, v)
    with pytest.raises(RuntimeError, match="a compiled program gets them from npu_fusion_attention_v3"):
        first.sum().backward()


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("layout, softmax_layout", [("SBH", ""), ("TND", ""), ("TND", "TND")])
def test_ring_of_two_blocks_is_attention_over_all_keys(layout, softmax_layout, dtype, masked):
    """Each block's gradient is told the maxima, sums and result of the whole ring."""
    cpu = [t.to(dtype).float().requires_grad_() for t in make(6, 8, kv_heads=2)]
    hidden = torch.rand(6, 8, generator=torch.Generator().manual_seed(5)) > (0.6 if masked else 1.0)
    hidden[:, [0, 4]] = False
    expected = reference(*cpu, 0.3, 1, 0, 0, hidden, None)
    seed = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(dtype).float()
    wanted = torch.autograd.grad(expected, cpu, seed)

    q, *kv = (t.detach().to(dtype) for t in cpu)
    q, dy = (to_layout(t.to(dtype), layout).npu() for t in (q, seed))
    blocks = [[to_layout(t[:, :, part], layout).npu() for t in kv] for part in (slice(0, 4), slice(4, 8))]
    ends = {"actual_seq_qlen": [6, 12], "actual_seq_kvlen": [4, 8], "softmax_layout": softmax_layout} if layout == "TND" else {}
    masks = [hidden[:, :4].npu(), hidden[:, 4:].npu()]
    options = [{"atten_mask": mask, "sparse_mode": 1} if masked else {} for mask in masks]
    parts = [npu.npu_fusion_attention(q, *block, N, layout, scale=0.3, **ends, **some)[:3] for block, some in zip(blocks, options)]
    joining = {"actual_seq_qlen": torch.tensor([0, 6, 12]).npu(), "input_softmax_layout": softmax_layout} if layout == "TND" else {}
    out, top, total = npu.npu_ring_attention_update(*parts[0], *parts[1], input_layout=layout, **joining)
    tolerance = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    close = {"rtol": tolerance, "atol": tolerance}
    torch.testing.assert_close(out.float().cpu(), to_layout(expected.detach(), layout), **close)
    grads = [npu.npu_fusion_attention_grad(q, *block, dy, N, layout, softmax_max=top, softmax_sum=total, attention_in=out,
                                           scale_value=0.3, **ends, **some) for block, some in zip(blocks, options)]
    torch.testing.assert_close((grads[0][0].float() + grads[1][0].float()).cpu(), to_layout(wanted[0], layout), **close)
    for i, part in enumerate((slice(0, 4), slice(4, 8))):
        for found, whole in zip(grads[i][1:3], wanted[1:]):
            torch.testing.assert_close(found.float().cpu(), to_layout(whole[:, :, part], layout), **close)


@pytest.mark.parametrize("sequences", [1, 2, 7])
def test_sequences_in_a_row_are_one_launch(sequences):
    q = torch.randn(3 * sequences, N, D, device="npu", requires_grad=True)
    ends = [3 * (i + 1) for i in range(sequences)]
    dy = torch.ones_like(q).detach()
    torch.npu.synchronize()
    with counters.Counted() as counted:
        out = npu.npu_fusion_attention(q, q.detach(), q.detach(), N, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends,
                                       sparse_mode=3)[0]
        out.backward(dy)
        torch.npu.synchronize()
    assert counted.tasks == 2


def test_rows_that_see_nothing_are_zero_and_join_others():
    q, k, v = make(4, 2)  # causal to the lower right: the first two rows see nothing
    out, top, total, *_ = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", sparse_mode=3)
    assert (out[:, :, :2] == 0).all() and (total[:, :, :2] == 0).all() and torch.isfinite(top).all()
    turned = [to_layout(t.cpu(), "SBH").npu() for t in (out, npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD")[0])]
    _, other_top, other_total, *_ = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD")
    joined = npu.npu_ring_attention_update(turned[0], top, total, turned[1], other_top, other_total)[0]
    torch.testing.assert_close(joined[:2], turned[1][:2])


def test_sink_has_a_gradient():
    q, k, v = make(3, 4)
    sink = torch.randn(N, generator=torch.Generator().manual_seed(3)).requires_grad_()
    scores = torch.cat([q @ k.transpose(-1, -2), sink.view(1, N, 1, 1).expand(B, N, 3, 1)], -1)
    (torch.softmax(scores, -1)[..., :-1] @ v).square().sum().backward()
    other = sink.detach().npu().requires_grad_()
    npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", sink=other)[0].square().sum().backward()
    torch.testing.assert_close(other.grad.cpu(), sink.grad, rtol=1e-4, atol=1e-5)


def test_rotary_parts_have_gradients():
    whole = [t.npu().requires_grad_() for t in make(3, 4)]
    q, k, v = (t.detach() for t in whole)
    parts = [t.contiguous().requires_grad_() for t in (q[..., :6], k[..., :6], v, q[..., 6:], k[..., 6:])]
    out = npu.npu_fusion_attention_v2(*parts[:3], N, "BNSD", query_rope=parts[3], key_rope=parts[4])[0]
    dq, dk, dv = torch.autograd.grad(npu.npu_fusion_attention(*whole, N, "BNSD")[0].square().sum(), whole)
    found = torch.autograd.grad(out.square().sum(), parts)
    for a, e in zip(found, (dq[..., :6], dk[..., :6], dv, dq[..., 6:], dk[..., 6:])):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", [0, 1, 3, 4])
def test_blocks_of_a_long_sequence(mode):
    """More rows and columns than one block of scores has, with a band and lengths that end inside of one."""
    rows, columns = 530, 1100
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, n, D, generator=g) for n in (rows, columns, columns))
    mask = torch.rand(rows, columns, generator=g) > 0.9
    i, j = torch.arange(rows).unsqueeze(1), torch.arange(columns)
    corner = i + columns - rows
    hidden = {0: mask | (j < i - 300) | (j > i + 40), 1: mask, 3: j > corner, 4: (j < corner - 300) | (j > corner + 40)}[mode]
    cpu = [t.requires_grad_() for t in (q, k, v)]
    expected = torch.softmax((q @ k.transpose(-1, -2) * 0.3).masked_fill(hidden, -math.inf), -1).nan_to_num(0.0) @ v
    inputs = [t.detach().npu().requires_grad_() for t in cpu]
    out = npu.npu_fusion_attention(*inputs, 2, "BNSD", atten_mask=mask.npu(), scale=0.3, pre_tockens=300, next_tockens=40,
                                   sparse_mode=mode)[0]
    torch.testing.assert_close(out.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
    seed = torch.randn(expected.shape, generator=g)
    for a, e in zip(torch.autograd.grad(out, inputs, seed.npu()), torch.autograd.grad(expected, cpu, seed)):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-3, atol=1e-4)


def test_sink_takes_part_in_the_sum():
    q, k, v = make(3, 4)
    sink = torch.randn(N, generator=torch.Generator().manual_seed(3))
    scores = torch.cat([q @ k.transpose(-1, -2), sink.view(1, N, 1, 1).expand(B, N, 3, 1)], -1)
    expected = torch.softmax(scores, -1)[..., :-1] @ v
    out = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", sink=sink.npu())[0]
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_rotary_parts_are_joined():
    q, k, v = (t.npu() for t in make(3, 4))
    split = npu.npu_fusion_attention_v2(q[..., :6], k[..., :6], v, N, "BNSD", query_rope=q[..., 6:], key_rope=k[..., 6:])[0]
    torch.testing.assert_close(split, npu.npu_fusion_attention(q, k, v, N, "BNSD")[0])


def test_explicit_gradient():
    q, k, v = (t.npu().requires_grad_() for t in make(4, 4))
    out = npu.npu_fusion_attention(q, k, v, N, "BNSD", scale=0.3, sparse_mode=2)[0]
    seed = torch.ones_like(out)
    wanted = torch.autograd.grad(out, [q, k, v], seed)
    found = npu.npu_fusion_attention_grad(q.detach(), k.detach(), v.detach(), seed, N, "BNSD", scale_value=0.3, sparse_mode=2)
    for a, e in zip(found, wanted):
        torch.testing.assert_close(a, e)


def test_dropout_keeps_the_mean_and_repeats_with_the_seed():
    q, k, v = (t.npu() for t in make(64, 64))
    plain = npu.npu_fusion_attention(q, k, torch.ones_like(v), N, "BNSD")[0]
    torch.npu.manual_seed(1)
    dropped = npu.npu_fusion_attention(q, k, torch.ones_like(v), N, "BNSD", keep_prob=0.8)[0]
    torch.npu.manual_seed(1)
    again = npu.npu_fusion_attention(q, k, torch.ones_like(v), N, "BNSD", keep_prob=0.8)[0]
    assert torch.equal(dropped, again) and not torch.equal(dropped, plain)
    assert abs(dropped.mean().item() - 1.0) < 0.05


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lower_precision(dtype):
    q, k, v = make(5, 5)
    expected = reference(q, k, v, 0.3, 2, 0, 0, None, None)
    out = npu.npu_fusion_attention(*(t.to(dtype).npu() for t in (q, k, v)), N, "BNSD", scale=0.3, sparse_mode=2)[0]
    assert out.dtype == dtype
    torch.testing.assert_close(out.float().cpu(), expected, rtol=2e-2, atol=2e-2)


def test_fake_tensors():
    mode = FakeTensorMode()
    with mode:
        fake = [torch.empty(2, 5, N * D, device="npu") for _ in range(3)]
        out = npu.npu_fusion_attention(*fake, N, "BSH", sparse_mode=3)
    assert out[0].shape == (2, 5, N * D) and out[1].shape == (2, N, 5, 8)


def test_bad_arguments():
    q, k, v = (t.npu() for t in make(3, 4))
    for message, kwargs in [('input_layout is "NSBD", expected one of', {"input_layout": "NSBD"}),
                            ("sparse_mode must be 0 to 8", {"sparse_mode": 9}),
                            ("sparse_mode 1 needs atten_mask", {"sparse_mode": 1}), ("needs prefix", {"sparse_mode": 5}),
                            ("needs actual_seq_qlen", {"input_layout": "TND"})]:
        with pytest.raises(RuntimeError, match=message):
            npu.npu_fusion_attention(q, k, v, N, **{"input_layout": "BNSD", **kwargs})
    with pytest.raises(RuntimeError, match="deq_scale1"):
        npu.npu_prompt_flash_attention(q, k, v, num_heads=N, input_layout="BNSD", deq_scale1=q)


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD"])
def test_prompt_attention_with_lengths(layout):
    q, k, v = make(5, 5)
    lengths = [3, 5]
    out = npu.npu_prompt_flash_attention(*(to_layout(t, layout).npu() for t in (q, k, v)), num_heads=N, scale_value=0.3,
                                         input_layout=layout, sparse_mode=2, actual_seq_lengths=lengths, actual_seq_lengths_kv=lengths,
                                         atten_mask=torch.ones(2048, 2048).triu(1).bool().npu())
    expected = reference(q, k, v, 0.3, 2, 0, 0, None, None)
    for b, length in enumerate(lengths):
        expected[b, :, length:] = 0
    torch.testing.assert_close(out.cpu(), to_layout(expected, layout), rtol=1e-4, atol=1e-5)


def test_prompt_attention_changes_layout():
    q, k, v = make(5, 5)
    args = [t.npu() for t in (q, k, v)]
    plain = npu.npu_prompt_flash_attention(*args, num_heads=N, input_layout="BNSD")
    turned = npu.npu_prompt_flash_attention(*args, num_heads=N, input_layout="BNSD_BSND")
    assert torch.equal(turned, plain.transpose(1, 2))


@pytest.mark.parametrize("paged", [False, True])
def test_one_token_against_a_cache(paged):
    q, k, v = make(1, 8, kv_heads=2)
    lengths = [3, 7]
    expected = torch.stack([torch.softmax(q[b] @ k[b].repeat_interleave(2, 0)[:, :n].transpose(-1, -2) * 0.3, -1)
                            @ v[b].repeat_interleave(2, 0)[:, :n] for b, n in enumerate(lengths)])
    cache = [to_layout(t, "BSH") for t in (k, v)]
    options = {}
    if paged:  # blocks of four rows, stored in another order
        table = torch.tensor([[2, 0], [3, 1]], dtype=torch.int32)
        pages = [torch.empty(4, 4, t.shape[-1]) for t in cache]
        for page, t in zip(pages, cache):
            for b in range(B):
                for i in range(2):
                    page[table[b, i]] = t[b, 4 * i : 4 * i + 4]
        cache, options = pages, {"block_table": table.npu(), "block_size": 4}
    out = npu.npu_incre_flash_attention(to_layout(q, "BSH").npu(), *(t.npu() for t in cache), num_heads=N, num_key_value_heads=2,
                                        scale_value=0.3, actual_seq_lengths=lengths, **options)
    torch.testing.assert_close(out.cpu(), to_layout(expected, "BSH"), rtol=1e-4, atol=1e-5)
    both, lse = npu.npu_fused_infer_attention_score(to_layout(q, "BSH").npu(), *(t.npu() for t in cache), num_heads=N,
                                                    num_key_value_heads=2, scale=0.3, actual_seq_lengths_kv=lengths,
                                                    softmax_lse_flag=True, **options)
    torch.testing.assert_close(both, out)
    assert lse.shape == (B, N, 1, 1)


def test_multi_head_attention():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2 * 4, 16, generator=g)
    weights = [torch.randn(16, 16, generator=g) for _ in range(4)]
    mask = torch.zeros(2, 2, 4, 4)
    q, k, v = ((x @ w.t()).view(2, 4, 2, 8).transpose(1, 2) for w in weights[:3])
    context = (torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1) @ v).transpose(1, 2).reshape(8, 16)
    out = npu.npu_multi_head_attention(*[x.npu()] * 3, *(w.npu() for w in weights[:3]), mask.npu(), weights[3].npu(), None, None, None,
                                       None, None, 2, 8, 4, 4, 0.0, True)
    assert len(out) == 8
    torch.testing.assert_close(out[0].cpu(), context @ weights[3].t(), rtol=1e-4, atol=1e-4)


def test_multi_head_attention_with_biases_mask_and_dropout():
    """Keys of another length than queries; every output by its rule."""
    g = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(2 * n, 16, generator=g) for n in (3, 5, 5))
    weights, biases = ([torch.randn(*shape, generator=g) for _ in range(4)] for shape in ((16, 16), (16,)))
    mask, kept = torch.randn(2, 2, 3, 5, generator=g), torch.rand(2, 2, 3, 5, generator=g) > 0.25
    q, k, v = ((x @ w.t() + b).view(2, -1, 2, 8).transpose(1, 2) for x, w, b in zip((query, key, value), weights, biases))
    scores = q @ k.transpose(-1, -2) / math.sqrt(8) + mask
    dropped = torch.softmax(scores, -1) * kept / 0.75
    context = (dropped @ v).transpose(1, 2).reshape(6, 16)
    expected = (context @ weights[3].t() + biases[3], q / math.sqrt(8), k, v, torch.softmax(scores, -1), dropped, context)
    tensors = [t.npu() for t in (query, key, value, *weights[:3], mask, weights[3], *biases, kept.to(torch.uint8))]
    out, bits, *others = npu.npu_multi_head_attention(*tensors, 2, 8, 5, 3, 0.25, True)
    for actual, wanted in zip((out, *others), expected, strict=True):
        torch.testing.assert_close(actual.cpu(), wanted, rtol=1e-4, atol=1e-4)
    assert torch.equal(unpacked(bits, kept), kept)
    drawn = npu.npu_multi_head_attention(*tensors[:-1], None, 2, 8, 5, 3, 0.25, True)
    torch.testing.assert_close(drawn[6].cpu(), drawn[5].cpu() * unpacked(drawn[1], kept) / 0.75)
    assert 0 < unpacked(drawn[1], kept).sum() < kept.numel()
    whole = npu.npu_multi_head_attention(*tensors[:-1], None, 2, 8, 5, 3, 0.0, False)
    assert whole[1].dtype == torch.uint8 and unpacked(whole[1], kept).all()


def unpacked(bits, like):
    """A bit of each number, the lowest of a byte first."""
    flags = bits.cpu()[:, None] >> torch.arange(8, dtype=torch.uint8) & 1
    return flags.flatten()[: like.numel()].view_as(like).bool()


def test_bert_attention_drops_and_refuses_other_layouts():
    q, k, v = make(3, 3)
    mask, ones = torch.zeros(B, 1, 3, 3).npu(), torch.ones_like(v).npu()
    kept = torch.cat([npu.npu_fused_attention_score(q.npu(), k.npu(), ones, mask, 0.5, 0.5) for _ in range(20)])
    assert kept.min() == 0.0 and abs(kept.mean().item() - 1.0) < 0.2
    for flag in ("query_transpose", "key_transpose", "bmm_score_transpose_a", "bmm_score_transpose_b", "value_transpose", "dx_transpose"):
        with pytest.raises(NotImplementedError, match=f"npu_fused_attention_score does not support {flag}"):
            npu.npu_fused_attention_score(q.npu(), k.npu(), v.npu(), mask, 0.5, 1.0, **{flag: True})


def test_bert_attention():
    q, k, v = make(3, 3)
    mask = torch.randn(B, 1, 3, 3, generator=torch.Generator().manual_seed(4))
    expected = (torch.softmax(q @ k.transpose(-1, -2) * 0.5 + mask, -1) @ v).transpose(1, 2).reshape(B * 3, -1)
    out = npu.npu_fused_attention_score(q.npu(), k.npu(), v.npu(), mask.npu(), 0.5, 1.0)
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_a_result_that_is_not_wanted_may_have_any_shape():
    """vllm-ascend gives one number for the sums of a call that makes none."""
    q, k, v = (torch.randn(2, 4, 3, 16, device="npu", dtype=torch.float16) for _ in range(3))
    settings = {"num_heads": 4, "scale": 0.25, "input_layout": "BNSD"}
    out, sums = torch.empty_like(q), torch.full((1,), 7.0, device="npu")
    torch.ops.npu.npu_fused_infer_attention_score.out(q, k, v, **settings, out=[out, sums])
    expected, none = torch.ops.npu.npu_fused_infer_attention_score(q, k, v, **settings)
    assert torch.equal(out, expected) and sums.item() == 7 and none.numel() == 0
    with pytest.raises(RuntimeError, match="softmax_lse"):
        torch.ops.npu.npu_fused_infer_attention_score.out(q, k, v, **settings, softmax_lse_flag=True, out=[out, sums])
        torch.npu.synchronize()
