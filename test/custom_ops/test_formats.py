"""Tensors in the private formats FRACTAL_NZ and NC1HWC0: what lies in memory, who reads it so, and that values never depend on it."""

import copy
import ctypes
import io
import threading

import pytest
import torch

import torch_npu

NZ, NC1HWC0, ND = torch_npu.Format.FRACTAL_NZ, torch_npu.Format.NC1HWC0, torch_npu.Format.ND


def launched(run):
    """The device's operators during run()."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]) as profile:
        run()
        torch.npu.synchronize()
    return [e.name for e in profile.events() if e.name.startswith("aclnn")]


def memory(t):
    """The bytes that lie on the card, whatever torch makes of them."""
    torch.npu.synchronize()
    with open("/proc/self/maps") as maps:
        library = ctypes.CDLL(next(line.split()[-1] for line in maps if "libascendcl" in line))
    raw = torch.empty(t.untyped_storage().nbytes(), dtype=torch.uint8)
    size = ctypes.c_size_t(raw.numel())
    assert library.aclrtMemcpy(ctypes.c_void_p(raw.data_ptr()), size, ctypes.c_void_p(t.untyped_storage().data_ptr()), size, 2) == 0
    return raw.view(t.dtype)


def blocks_of_matrix(x, c0):
    """FRACTAL_NZ by its definition: element by element."""
    *batch, m, n = x.shape
    out = torch.zeros(*batch, -(-n // c0), -(-m // 16), 16, c0, dtype=x.dtype)
    for i in range(m):
        for j in range(n):
            out[..., j // c0, i // 16, i % 16, j % c0] = x[..., i, j]
    return out


def blocks_of_image(x, c0):
    n, c, h, w = x.shape
    out = torch.zeros(n, -(-c // c0), h, w, c0, dtype=x.dtype)
    for channel in range(c):
        out[:, channel // c0, :, :, channel % c0] = x[:, channel]
    return out


@pytest.mark.parametrize(
    "dtype, customize, c0",
    [
        (torch.float16, None, 16),
        (torch.bfloat16, None, 16),
        (torch.int8, None, 32),
        (torch.float32, None, 16),
        (torch.float32, torch.float32, 8),
        (torch.int32, torch.int32, 8),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(16, 16), (5, 3), (33, 47), (2, 3, 17, 40)], ids=str)
def test_fractal_nz_lies_in_blocks_of_16_rows(shape, dtype, customize, c0):
    x = (torch.arange(torch.Size(shape).numel()) % 120).view(shape).to(dtype)
    y = torch_npu.npu_format_cast(x.npu(), NZ, customize_dtype=customize)
    expected = blocks_of_matrix(x, c0)
    assert torch_npu.get_npu_format(y) == NZ
    assert torch_npu.get_storage_size(y) == expected.numel()
    assert (y.shape, y.stride(), y.dtype) == (x.shape, x.stride(), x.dtype)
    torch.testing.assert_close(memory(y), expected.flatten(), rtol=0, atol=0)
    torch.testing.assert_close(y.cpu(), x, rtol=0, atol=0)


def test_a_tensor_without_elements_has_a_format():
    y = torch_npu.npu_format_cast(torch.empty(0, 8, device="npu"), NZ)
    assert torch_npu.get_npu_format(y) == NZ and y.cpu().shape == (0, 8)
    assert (torch.ones(3, 0, device="npu") @ y).cpu().equal(torch.zeros(3, 8))


@pytest.mark.parametrize("dtype, c0", [(torch.float16, 16), (torch.float32, 16), (torch.int8, 32)], ids=str)
def test_nc1hwc0_lies_in_blocks_of_channels(dtype, c0):
    x = (torch.arange(2 * 35 * 3 * 4) % 120).view(2, 35, 3, 4).to(dtype)
    y = torch_npu.npu_format_cast(x.npu(), NC1HWC0)
    assert torch_npu.get_npu_format(y) == NC1HWC0
    torch.testing.assert_close(memory(y), blocks_of_image(x, c0).flatten(), rtol=0, atol=0)
    torch.testing.assert_close(y.cpu(), x, rtol=0, atol=0)


def nz(x):
    return torch_npu.npu_format_cast(x.npu(), NZ)


@pytest.fixture
def weight():
    return torch.randn(20, 36, generator=torch.Generator().manual_seed(0))


def test_a_cast_back_is_in_element_order(weight):
    y = torch_npu.npu_format_cast(nz(weight), ND)
    assert torch_npu.get_npu_format(y) == ND
    assert torch.equal(memory(y)[: weight.numel()], weight.flatten())


VIEWS = {
    "transpose": lambda w: w.t(),
    "row": lambda w: w[3],
    "column": lambda w: w[:, 5],
    "slice": lambda w: w[2:9, 4:30:3],
    "reshape": lambda w: w.view(6, 10, 12),
    "expand": lambda w: w[None].expand(3, -1, -1),
    "number": lambda w: w[7, 8],
    "bytes": lambda w: w.view(torch.uint8),
    "diagonal": lambda w: w.diagonal(),
    "detach": lambda w: w.detach(),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_read_the_elements(weight, view):
    seen = view(nz(weight))
    assert torch_npu.get_npu_format(seen) == NZ  # the memory is the same
    torch.testing.assert_close(seen.cpu(), view(weight), rtol=0, atol=0)
    if seen.is_floating_point():
        torch.testing.assert_close((seen * 2 + 1).cpu(), view(weight) * 2 + 1)


READERS = {
    "add": lambda w: w + w,
    "sum": lambda w: w.sum(1),
    "cat": lambda w: torch.cat([w, w]),
    "softmax": lambda w: w.softmax(-1),
    "index": lambda w: w[torch.tensor([1, 3], device=w.device)],
    "mask": lambda w: w[w > 0],
    "half": lambda w: w.half(),
    "clone": lambda w: w.clone(),
    "contiguous": lambda w: w.t().contiguous(),
    "foreach": lambda w: torch._foreach_mul([w, w], 2.0)[1],
    "unique": lambda w: w.round().unique(),
    "embedding": lambda w: torch.nn.functional.embedding(torch.tensor([2, 0], device=w.device), w),
    "topk": lambda w: w.topk(3)[0],
    "left operand": lambda w: w @ torch.ones(36, 2, device=w.device),
    "numpy": lambda w: torch.from_numpy(w.cpu().numpy()).to(w.device),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_operators_that_do_not_take_the_format_read_the_elements(weight, read):
    torch.testing.assert_close(read(nz(weight)).cpu(), read(weight))


WRITERS = {
    "add_": lambda w: w.add_(1),
    "zero_": lambda w: w.zero_(),
    "copy_": lambda w: w.copy_(torch.arange(36.0, device=w.device)),
    "from host": lambda w: w.copy_(torch.arange(720.0).view(20, 36)),
    "view": lambda w: w.t()[4:8].mul_(3),
    "setitem": lambda w: w.__setitem__((slice(2, 5), 7), 9.0),
    "out=": lambda w: torch.mul(w, 2, out=w),
    "twice": lambda w: w.mul_(w),
    "index_put_": lambda w: w.index_put_((torch.tensor([1], device=w.device),), torch.zeros(36, device=w.device)),
    "foreach": lambda w: torch._foreach_add_([w], 1.0),
    "masked_fill_": lambda w: w.masked_fill_(w > 0, 0.0),
    "fill_": lambda w: w[1:3].fill_(2.0),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_writes_keep_the_format(weight, write):
    y = nz(weight)
    write(y)
    write(weight)
    assert torch_npu.get_npu_format(y) == NZ
    torch.testing.assert_close(y.cpu(), weight)
    torch.testing.assert_close(memory(y), blocks_of_matrix(weight, 16).flatten())


X = torch.randn(7, 36, generator=torch.Generator().manual_seed(1))
PRODUCTS = {
    "mm": (lambda x, w: torch.mm(x, w.t()), "aclnnMatmulWeightNz"),
    "linear": (lambda x, w: torch.nn.functional.linear(x, w), "aclnnMatmulWeightNz"),
    "linear with bias": (lambda x, w: torch.nn.functional.linear(x, w, x.view(-1)[:20]), "aclnnAddmmWeightNz"),
    "matmul": (lambda x, w: x @ w.t(), "aclnnMatmulWeightNz"),
    "not transposed": (lambda x, w: x[:, :20] @ w, "aclnnMatmulWeightNz"),
    "bmm": (lambda x, w: torch.bmm(x[None, :, :12].expand(5, 7, 12), w.view(5, 4, 36).view(5, 12, 12)), None),
}


@pytest.mark.parametrize("product, name", PRODUCTS.values(), ids=PRODUCTS)
def test_products_read_weights_in_blocks(weight, product, name):
    x, w = X.npu(), nz(weight)
    torch.testing.assert_close(product(x, w).cpu(), product(X, weight), rtol=1e-4, atol=1e-4)
    names = launched(lambda: product(x, w))
    assert "aclnnNpuFormatCast" in names if name is None else name in names and "aclnnNpuFormatCast" not in names


def test_batched_products_read_weights_in_blocks():
    x, w = torch.randn(3, 5, 12), torch.randn(3, 12, 20)
    blocks = nz(w)
    torch.testing.assert_close(torch.bmm(x.npu(), blocks).cpu(), torch.bmm(x, w), rtol=1e-4, atol=1e-4)
    assert launched(lambda: torch.bmm(x.npu(), blocks)) == ["aclnnBatchMatMulWeightNz"]


def test_a_provider_without_the_operator_gets_the_elements(weight):
    """A part of a matrix has no operator that reads it in blocks."""
    x, w = X[:, :10].npu(), nz(weight)
    torch.testing.assert_close((x @ w[:, :10].t()).cpu(), X[:, :10] @ weight[:, :10].t(), rtol=1e-4, atol=1e-4)
    assert "aclnnNpuFormatCast" in launched(lambda: x @ w[:, :10].t())


def test_grouped_products_read_weights_in_blocks():
    x, w = torch.randn(9, 24), torch.randn(3, 24, 40)
    groups = torch.tensor([2, 5, 9])

    def run(x, w, groups):
        return torch_npu.npu_grouped_matmul([x], [w], group_list=groups, split_item=3, group_type=0)[0]

    blocks = nz(w)
    torch.testing.assert_close(run(x.npu(), blocks, groups.npu()), run(x.npu(), w.npu(), groups.npu()))
    names = launched(lambda: run(x.npu(), blocks, groups.npu()))
    assert "aclnnGroupedMatmulWeightNz" in names and "aclnnNpuFormatCast" not in names


def test_lists_of_experts_are_in_one_format_or_read_in_order():
    x, w = [torch.randn(4, 24), torch.randn(3, 24)], [torch.randn(24, 40), torch.randn(24, 40)]

    def run(weights):
        return torch_npu.npu_grouped_matmul([t.npu() for t in x], weights, split_item=0, group_type=-1)

    for weights, name in ([nz(t) for t in w], "aclnnGroupedMatmulWeightNz"), ([w[0].npu(), nz(w[1])], "aclnnGroupedMatmulV5"):
        for actual, a, b in zip(run(weights), x, w):
            torch.testing.assert_close(actual.cpu(), a @ b, rtol=1e-4, atol=1e-4)
        assert name in launched(lambda: run(weights))  # noqa: B023


def test_quantised_products_read_weights_in_blocks():
    x = torch.randint(-8, 8, (5, 32), dtype=torch.int8)
    w = torch.randint(-8, 8, (32, 48), dtype=torch.int8)
    scale, tokens = torch.rand(48) + 0.1, torch.rand(5) + 0.1

    def run(w):
        return torch_npu.npu_quant_matmul(x.npu(), w, scale.npu().bfloat16(), pertoken_scale=tokens.npu(), output_dtype=torch.bfloat16)

    blocks = nz(w)
    assert torch.equal(run(blocks), run(w.npu()))
    assert launched(lambda: run(blocks))[-1] == "aclnnQuantMatmulWeightNz"


def test_weights_of_four_bits_are_read_in_blocks():
    x = torch.randn(5, 32).half()
    w = torch.randint(-8, 8, (32, 64), dtype=torch.int32)
    packed = torch_npu.npu_convert_weight_to_int4pack(w.npu())
    scale = (torch.rand(64) + 0.1).half()

    def run(w):
        return torch_npu.npu_weight_quant_batchmatmul(x.npu(), w, scale.npu())

    blocks = torch_npu.npu_format_cast(packed, NZ)
    torch.testing.assert_close(run(blocks), run(packed))
    torch.testing.assert_close(run(blocks).cpu().float(), x.float() @ (w * scale.float()), rtol=1e-2, atol=1e-2)
    assert "aclnnWeightQuantBatchMatmulNz" in launched(lambda: run(blocks))


def test_further_products_read_weights_in_blocks():
    groups, tokens = torch.tensor([2, 5]).npu(), (torch.rand(5) + 0.1).npu()
    x, w = torch.randint(-8, 8, (5, 32), dtype=torch.int8).npu(), torch.randint(-8, 8, (2, 32, 64), dtype=torch.int8)
    scale = (torch.rand(2, 64) + 0.1).npu()
    heads = torch.randn(4, 3, 32).npu()
    calls = {
        "aclnnGroupedMatmulSwigluQuantWeightNZ": lambda w: torch_npu.npu_grouped_matmul_swiglu_quant(x, w, groups, scale, tokens)[:2],
        "aclnnGroupedMatmulSwigluQuantWeightNzV2": lambda w: torch_npu.npu_grouped_matmul_swiglu_quant_v2(x, [w], [scale], tokens, groups),
        "aclnnGroupedMatmulFinalizeRoutingWeightNzV2": lambda w: torch_npu.npu_grouped_matmul_finalize_routing(
            x, w, groups, scale=scale, pertoken_scale=tokens, group_list_type=0
        ),
        "aclnnQuantGroupedMatmulDequantWeightNZ": lambda w: torch_npu.npu_quant_grouped_matmul_dequant(
            x.half(), w.transpose(1, 2), scale, groups
        ),
        "aclnnTransposeBatchMatMulWeightNz": lambda w: torch_npu.npu_transpose_batchmatmul(
            heads[:2].transpose(0, 1), w.float(), perm_x1=(1, 0, 2)
        ),
    }
    for name, call in calls.items():
        weights = w.float() if name.startswith("aclnnTranspose") else w
        if name.startswith("aclnnQuantGrouped"):
            plain, blocks = w.npu(), nz(w.transpose(1, 2).contiguous()).transpose(1, 2)
        elif name.startswith("aclnnTranspose"):
            plain, blocks = weights.npu(), nz(weights)
            call = lambda w: torch_npu.npu_transpose_batchmatmul(heads[:2].transpose(0, 1), w, perm_x1=(1, 0, 2))  # noqa: E731
        else:
            plain, blocks = w.npu(), nz(w)
        torch.testing.assert_close(call(blocks), call(plain), msg=name)
        assert name in launched(lambda: call(blocks)), name  # noqa: B023


def test_gradients_reach_weights_in_blocks(weight):
    w = torch.nn.Parameter(nz(weight))
    x = X.npu().requires_grad_()
    torch.nn.functional.linear(x, w).square().sum().backward()
    a, b = X.clone().requires_grad_(), weight.clone().requires_grad_()
    torch.nn.functional.linear(a, b).square().sum().backward()
    torch.testing.assert_close(w.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(x.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)


def test_an_optimiser_trains_weights_in_blocks(weight):
    def train(w, x):
        optimizer = torch.optim.AdamW([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.linear(x, w).square().mean().backward()
            optimizer.step()
        return w.detach().cpu()

    blocks = torch.nn.Parameter(nz(weight))
    torch.testing.assert_close(train(blocks, X.npu()), train(torch.nn.Parameter(weight.clone()), X), rtol=1e-3, atol=1e-3)
    assert torch_npu.get_npu_format(blocks) == NZ


def test_saving_copying_and_printing_give_the_elements(weight):
    y = nz(weight)
    file = io.BytesIO()
    torch.save({"w": y, "t": y.t()}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert torch.equal(loaded["w"].cpu(), weight) and torch.equal(loaded["t"].cpu(), weight.t())
    assert torch.equal(copy.deepcopy(y).cpu(), weight)
    assert torch.equal(copy.deepcopy(torch.nn.Parameter(y)).cpu(), weight)
    assert str(y[:2, :3].cpu()) in str(y[:2, :3]).replace(", device='npu:0'", "")
    module = torch.nn.Linear(36, 20, bias=False).npu()
    module.weight.data = y
    assert torch.equal(
        torch.nn.Linear(36, 20, bias=False).npu().requires_grad_(False).weight.copy_(module.state_dict()["weight"]).cpu(), weight
    )
    module.load_state_dict({"weight": weight + 1})
    assert torch_npu.get_npu_format(module.weight) == NZ
    assert torch.equal(module.weight.cpu(), weight + 1)


def test_the_storage_reads_as_the_elements(weight):
    y = nz(weight)
    room = y.untyped_storage().cpu()
    assert torch.equal(torch.tensor([], dtype=torch.float32).set_(room)[:720], weight.flatten())
    assert not torch.tensor([], dtype=torch.float32).set_(room)[720:].any()


def test_a_storage_in_blocks_is_not_resized(weight):
    with pytest.raises(RuntimeError, match="not resizable"):
        nz(weight).resize_(1000, 1000)


def test_casts_in_place_change_the_memory_of_this_tensor(weight):
    y = weight.npu()
    same = torch_npu.npu_format_cast_(y, NZ)
    assert same is y and torch_npu.get_npu_format(y) == NZ
    assert torch.equal(y.cpu(), weight)
    torch_npu.npu_format_cast_(y, ND)
    assert torch_npu.get_npu_format(y) == ND
    assert torch.equal(memory(y)[:720], weight.flatten())
    blocks = nz(weight)
    torch_npu.npu_format_cast_(blocks, weight.npu() + 1)
    assert torch_npu.get_npu_format(blocks) == NZ
    assert torch.equal(blocks.cpu(), weight + 1)


def test_the_format_of_another_tensor(weight):
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(weight.npu(), nz(weight))) == NZ
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(nz(weight), weight.npu())) == ND


def test_parameters_are_cast_in_place(weight):
    w = torch.nn.Parameter(weight.npu())
    torch_npu.npu_format_cast_(w, NZ)
    w.sum().backward()
    assert torch_npu.get_npu_format(w) == NZ and torch.equal(w.grad.cpu(), torch.ones_like(weight))


def test_empty_tensors_with_a_format():
    t = torch_npu.empty_with_format((20, 36), dtype=torch.float16, device="npu", acl_format=29)
    assert (torch_npu.get_npu_format(t), t.shape, t.dtype, torch_npu.get_storage_size(t)) == (NZ, (20, 36), torch.float16, 3 * 2 * 256)
    assert torch.equal(t.fill_(3).cpu(), torch.full((20, 36), 3.0).half())
    assert torch_npu.get_npu_format(torch_npu.empty_with_format((20, 36))) == ND
    aligned = torch_npu.empty_with_format((3, 5), dtype=torch.float32, base_addr_aligned_kb=64)
    assert aligned.data_ptr() % 65536 == 0 and aligned.shape == (3, 5)
    with pytest.raises(ValueError, match="base_addr_aligned_kb"):
        torch_npu.empty_with_format((3, 5), base_addr_aligned_kb=0)
    with pytest.raises(ValueError, match="device must be an npu, got cpu"):
        torch_npu.empty_with_format((3, 5), device="cpu")


def test_private_formats_are_kept_on_request():
    make = torch_npu.unsafe_empty_with_format
    assert torch_npu.get_npu_format(make((16, 16), device="npu", acl_format=29)) == ND
    assert torch_npu.get_npu_format(make((16, 16), device="npu", acl_format=29, keep_format=True)) == NZ
    torch.npu.config.allow_internal_format = True
    try:
        assert torch_npu.get_npu_format(make((16, 16), device="npu", acl_format=29)) == NZ
    finally:
        torch.npu.config.allow_internal_format = False


@pytest.mark.parametrize(
    "format, shape, words", [(4, (2, 3), "acl_format must be"), (3, (2, 3), "4 dimensions"), (99, (2, 3), "acl_format must be")]
)
def test_what_cannot_be_stored_is_refused(format, shape, words):
    for device in "npu", "meta":
        with pytest.raises(RuntimeError, match=words):
            torch_npu.npu_format_cast(torch.empty(shape, device=device), format)
    with pytest.raises(RuntimeError, match="input_dtype must be the tensor's own type"):
        torch_npu.npu_format_cast(torch.zeros(4, 4, device="npu"), 29, input_dtype=torch.int8)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_of_the_queue(weight, level):
    code = """
import torch, torch_npu
w = torch.arange(720.).view(20, 36)
y = torch_npu.npu_format_cast(w.npu(), 29)
for i in range(5):
    y.add_(1); z = torch.ones(3, 36).npu() @ y.t()
assert torch.equal(y.cpu(), w + 5) and torch.equal(z.cpu(), torch.ones(3, 36) @ (w + 5).t())
"""
    import os
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TASK_QUEUE_ENABLE": str(level)})


def test_another_thread_and_another_stream(weight):
    y, seen = nz(weight), []

    def work():
        with torch.npu.stream(torch.npu.Stream()):
            torch.npu.current_stream().wait_stream(torch.npu.default_stream())
            seen.append((X.npu() @ y.t()).cpu())
            y.add_(1)
            torch.npu.current_stream().synchronize()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.testing.assert_close(seen[0], X @ weight.t(), rtol=1e-4, atol=1e-4)
    assert torch.equal(y.cpu(), weight + 1)


def test_autocast_casts_weights_in_blocks(weight):
    y = nz(weight)
    with torch.autocast("npu", dtype=torch.bfloat16):
        out = torch.nn.functional.linear(X.npu(), y)
    torch.testing.assert_close(out.cpu(), torch.nn.functional.linear(X.bfloat16(), weight.bfloat16()), rtol=2e-2, atol=2e-2)
