"""torch.nn.functional.scaled_dot_product_attention: one fused operator, equal to the CPU."""

import subprocess
import sys

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
}


def inputs(dtype=torch.float32, batch=2, heads=4, kv_heads=4, rows=33, columns=33, size=16):
    torch.manual_seed(0)
    shapes = (batch, heads, rows, size), (batch, kv_heads, columns, size), (batch, kv_heads, columns, size)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def compare(tensors, mask=None, dtype=torch.float32, **options):
    results = []
    for device in ("cpu", "npu"):
        leaves = [t.detach().to(device).requires_grad_() for t in tensors]
        out = attention(*leaves, attn_mask=None if mask is None else mask.to(device), **options)
        out.backward(torch.linspace(-1, 1, out.numel(), device=device).view(out.shape).to(dtype))
        results.append([out, *(leaf.grad for leaf in leaves)])
    for cpu, npu in zip(*results):
        torch.testing.assert_close(npu.cpu(), cpu, **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("causal", [False, True])
def test_plain_and_causal(dtype, causal):
    compare(inputs(dtype), dtype=dtype, is_causal=causal)


@pytest.mark.parametrize("rows, columns", [(5, 40), (40, 5), (1, 17)])
def test_causal_counts_from_the_first_row(rows, columns):
    compare(inputs(rows=rows, columns=columns), is_causal=True)


@pytest.mark.parametrize("shape", [(33, 33), (1, 1, 33, 33), (2, 1, 33, 33), (2, 4, 1, 33)])
def test_masks(shape):
    torch.manual_seed(1)
    compare(inputs(), mask=torch.randn(shape))
    hide = torch.rand(shape) > 0.3
    hide[..., 0] = True  # every row sees something
    compare(inputs(), mask=hide)


def test_grouped_heads_scale_and_strides():
    compare(inputs(kv_heads=2), enable_gqa=True, is_causal=True)
    compare(inputs(), scale=0.3)
    query, key, value = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in inputs())
    compare([query, key, value])


@pytest.mark.parametrize("sequence_first", ["", "q", "v", "qkv"])
@pytest.mark.parametrize("option", ["plain", "causal", "mask", "grouped"])
def test_compiled_training(option, sequence_first):
    """Graphs of AOTAutograd rely on the layouts that upstream's meta functions promise, of results and gradients."""
    torch._dynamo.reset()
    tensors = inputs(kv_heads=2 if option == "grouped" else 4)
    tensors = [t.transpose(1, 2).contiguous().transpose(1, 2) if name in sequence_first else t for name, t in zip("qkv", tensors)]

    def flat(query, key, value, attn_mask=None):
        out = attention(query, key, value, attn_mask, is_causal=option == "causal", enable_gqa=option == "grouped")
        return out.transpose(1, 2).flatten(-2) if out.transpose(1, 2).is_contiguous() else out.flatten(-2)

    compiled = torch.compile(flat, backend="aot_eager", fullgraph=True)
    mask = torch.randn(2, 1, 33, 33) if option == "mask" else None
    results = []
    for device, call in (("cpu", flat), ("npu", compiled)):
        leaves = [t.detach().to(device).requires_grad_() for t in tensors]
        out = call(*leaves, attn_mask=None if mask is None else mask.to(device))
        out.backward(torch.linspace(-1, 1, out.numel(), device=device).view(out.shape))
        results.append([out, *(leaf.grad for leaf in leaves)])
    for (cpu, npu), given in zip(zip(*results), (None, *tensors), strict=True):
        torch.testing.assert_close(npu.cpu(), cpu, **TOLERANCE[torch.float32])
        assert given is None or npu.stride() == given.stride()


def test_dropout_and_gradients_of_masks_take_the_unfused_way():
    query, key, value = (t.npu() for t in inputs())
    mask = torch.zeros(33, 33, device="npu", requires_grad=True)
    attention(query, key, value, attn_mask=mask).sum().backward()
    assert mask.grad.shape == (33, 33)
    torch.manual_seed(0)
    kept = attention(torch.zeros_like(query), key, torch.ones_like(value), dropout_p=0.5)
    assert 0.8 < kept.mean().item() < 1.2
    assert kept.std().item() > 0.05


def test_the_switches_of_torch_choose_the_way():
    query, key, value = (t.npu() for t in inputs())
    fused = attention(query, key, value)
    with sdpa_kernel(SDPBackend.MATH):
        plain = attention(query, key, value)
    torch.testing.assert_close(fused, plain)


@pytest.mark.parametrize("options", ["", "is_causal=True", "attn_mask=torch.zeros(2, 4, 8, 8, device='npu')"])
def test_one_launch_of_the_fused_operator(run, options):
    code = f"""
import torch
x = torch.randn(2, 4, 8, 16, device="npu")
torch.nn.functional.scaled_dot_product_attention(x, x, x, {options})
torch.npu.synchronize()
"""
    trace = run(code, SOFTNPU_TRACE="1", TORCH_NPU_RUNTIME="soft").stderr
    # Only the second version adds a mask to scores that are scaled already.
    assert trace.count("aclnnFlashAttentionScoreV2(" if "mask" in options else "aclnnFlashAttentionScore(") == 1, trace
    assert "Softmax(" not in trace


FUSED, PLAIN = "npu_fusion_attention", "attention_math"


def ways(query, key, value, **options):
    with torch.profiler.profile() as profile:
        attention(query, key, value, **options)
    names = {event.key for event in profile.key_averages()}
    return [way for way in (FUSED, PLAIN) if any(way in name for name in names)]


@pytest.mark.parametrize(
    "backends, way",
    [
        ([SDPBackend.FLASH_ATTENTION], FUSED),
        ([SDPBackend.EFFICIENT_ATTENTION], FUSED),
        ([SDPBackend.OVERRIDEABLE], FUSED),
        ([SDPBackend.OVERRIDEABLE, SDPBackend.MATH], FUSED),
        ([SDPBackend.MATH], PLAIN),
    ],
)
def test_any_fused_backend_allows_the_fused_way(backends, way):
    query, key, value = (t.npu() for t in inputs())
    with sdpa_kernel(backends):
        assert ways(query, key, value) == [way]
        if way == FUSED and SDPBackend.MATH not in backends:
            with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention"):
                attention(query, key, value, dropout_p=0.5)


def test_the_order_of_backends_is_the_users():
    query, key, value = (t.npu() for t in inputs())
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        assert ways(query, key, value) == [PLAIN]


def test_vmap_and_per_sample_gradients():
    query, key, value = (t.unsqueeze(1) for t in inputs(batch=3))

    def loss(q, k, v):
        return attention(q, k, v, is_causal=True).square().sum()

    for function in (lambda q, k, v: attention(q, k, v), torch.func.grad(loss)):
        expected = torch.vmap(function)(query, key, value)
        torch.testing.assert_close(torch.vmap(function)(query.npu(), key.npu(), value.npu()).cpu(), expected, rtol=1e-4, atol=1e-4)


def test_vmap_over_an_encoder_layer():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = torch.randn(3, 2, 5, 16)
    expected = torch.vmap(layer)(x)
    torch.testing.assert_close(torch.vmap(layer.npu())(x.npu()).cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.filterwarnings("ignore")  # that it runs eagerly, in several words
def test_flex_attention(compiled):
    """A causal mask and a bias for each head, with shared keys: against attention that is written out."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.manual_seed(0)
    torch._dynamo.reset()
    length = 64
    query, key, value = (torch.randn(2, heads, length, 16) for heads in (4, 2, 2))
    slopes = torch.rand(4)

    def flex(query, key, value):
        slope = slopes.npu()
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="npu")
        function = torch.compile(flex_attention) if compiled else flex_attention
        return function(query, key, value, lambda s, b, h, i, j: s + slope[h] * (j - i), mask, enable_gqa=True)

    def plain(query, key, value):
        distance = torch.arange(length) - torch.arange(length).unsqueeze(1)
        scores = query @ key.repeat_interleave(2, 1).mT / 4 + slopes.view(-1, 1, 1) * distance
        return scores.masked_fill(distance > 0, -torch.inf).softmax(-1) @ value.repeat_interleave(2, 1)

    results = []
    for function, device in ((plain, "cpu"), (flex, "npu")):
        leaves = [t.detach().to(device).requires_grad_() for t in (query, key, value)]
        out = function(*leaves)
        out.square().sum().backward()
        results.append([out, *(t.grad for t in leaves)])
    for expected, got in zip(*results):
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_a_first_call_in_inference_mode_leaves_training_as_it_was():
    program = """
import torch
q = torch.randn(1, 2, 4, 8, device="npu")
with torch.inference_mode():
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
q.requires_grad_()
torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
assert q.grad.isfinite().all()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
