"""Products of quantised numbers and in groups, fused with collectives, against the parts on the CPU. Runs in the ranks."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from fused_cases import NPU, TOLERANCE, close, every, made, message_of, name

sys.path.append(str(Path(__file__).parents[1] / "custom_ops"))

from cases_mx import E4M3, E5M2, HIF8, mx_quant  # noqa: E402
from cases_quant_products import E8M0, hif8, numbers, scaled  # noqa: E402

HALVES = (torch.float16, torch.bfloat16)


def int8(*shape, seed=0):
    return torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


def positive(*shape, rank, seed=0):
    return made(*shape, rank=rank, seed=seed).abs() + 0.1


def float8(*shape, rank, seed=0, kind=E4M3):
    return made(*shape, rank=rank, seed=seed).to(kind)


def mx(rows, k, rank, seed=0, kind=E4M3):
    return mx_quant(made(rows, k, rank=rank, seed=seed), dst_type=kind)


def turned(x2, scale):
    """A matrix whose blocks are along its rows, as the right operand, and its scales."""
    return x2.t(), scale.transpose(0, 1)


def close_to(actual, expected, dtype):
    close(actual, expected.float(), dtype)


def kinds(rank):
    """(x1, x2, x1_scale, x2_scale, keywords, the product of x1 of any rank with x2) of each way of scales; k is 130."""
    size, m, k, n = dist.get_world_size(), 4, 130, 5
    rows = m * size
    ways = []
    x1, x2 = every(lambda r: int8(rows, k, seed=r)), int8(k, n, seed=99)
    s1, s2 = every(lambda r: positive(rows, 1, rank=r)), positive(1, n, rank=0, seed=9)
    ways.append((x1, x2, s1, s2, {}, lambda a, s: (a.double() @ x2.double()) * s.double() * s2.double()))
    ways.append((x1, x2, [None] * size, s2, {}, lambda a, s: (a.double() @ x2.double()) * s2.double()))
    f1, f2, one = every(lambda r: float8(rows, k, rank=r)), float8(k, n, rank=0, seed=9, kind=E5M2), torch.tensor([0.25])
    ways.append((f1, f2, [one] * size, torch.tensor([0.5]), {}, lambda a, s: (a.double() @ f2.double()) * 0.125))
    h1, h2 = every(lambda r: hif8(rows, k, seed=r)), hif8(k, n, seed=99)
    ways.append((h1, h2, [one] * size, torch.tensor([0.5]), {"x1_dtype": HIF8, "x2_dtype": HIF8},
                 lambda a, s: (numbers(a, HIF8) @ numbers(h2, HIF8)) * 0.125))
    b1, b2 = every(lambda r: positive(-(-rows // 128), 2, rank=r)), positive(2, 1, rank=0, seed=5)

    def by_blocks(a, s):
        left = a.double() * s.double().repeat_interleave(128, 0)[: len(a)].repeat_interleave(128, 1)[:, :k]
        return left @ (f2.double() * b2.double().repeat_interleave(128, 0)[:k])

    ways.append((f1, f2, b1, b2, {"group_sizes": [128, 128, 128]}, by_blocks))
    pairs = every(lambda r: mx(rows, k, r))
    w, ws = mx(n, k, 0, seed=9, kind=E5M2)
    kept = {"x1_scale_dtype": E8M0, "x2_scale_dtype": E8M0}
    ways.append(([p[0] for p in pairs], w.t(), [p[1] for p in pairs], ws, kept, lambda a, s: scaled(a, s) @ scaled(w, ws).t()))
    ways.append(([p[0] for p in pairs], w.t().contiguous(), [p[1] for p in pairs], ws.transpose(0, 1).contiguous(), kept,
                 lambda a, s: scaled(a, s) @ scaled(w, ws).t()))
    return ways


def npu(t):
    return None if t is None else t.npu()


def all_gather_quant():
    rank, size = dist.get_rank(), dist.get_world_size()
    for x1, x2, s1, s2, more, product in kinds(rank):
        for dtype in TOLERANCE:
            out, gathered, amax = NPU.npu_all_gather_quant_mm(x1[rank].npu(), x2.npu(), name(), size, x1_scale=npu(s1[rank]),
                                                              x2_scale=s2.npu(), y_dtype=dtype, **more)
            close_to(out, torch.cat([product(x1[r], s1[r]) for r in range(size)]), dtype)
            assert torch.equal(gathered.cpu().view(torch.uint8), torch.cat([x.view(torch.uint8) for x in x1])) and amax.numel() == 0
    x, w, bias = every(lambda r: made(3, 8, rank=r)), made(8, 5, rank=0, seed=1), made(5, rank=0, seed=2)
    for dtype in TOLERANCE:
        out, gathered, _ = NPU.npu_all_gather_quant_mm(x[rank].to(dtype).npu(), w.to(dtype).npu(), name(), size, bias=bias.to(dtype).npu(),
                                                       gather_output=False, comm_mode="aiv")
        close_to(out, torch.cat(x).to(dtype).double() @ w.to(dtype).double() + bias.to(dtype).double(), dtype)
        assert gathered.numel() == 0
    f1, f2 = every(lambda r: float8(3, 8, rank=r)), float8(8, 5, rank=0, seed=9)
    out, *_ = NPU.npu_all_gather_quant_mm(f1[rank].npu(), f2.npu(), name(), size, bias=bias.npu(), x1_scale=torch.tensor([0.5]).npu(),
                                          x2_scale=torch.tensor([2.0]).npu(), y_dtype=torch.float32)
    close_to(out, torch.cat([f.float() for f in f1]) @ f2.float() + bias, torch.float32)


def reduce_scatter_quant():
    rank, size = dist.get_rank(), dist.get_world_size()
    bias = made(5, rank=0, seed=2)
    for x1, x2, s1, s2, more, product in kinds(rank):
        total = sum(product(x1[r], s1[r]) for r in range(size))
        mine = total[rank * 4:rank * 4 + 4]
        for dtype in TOLERANCE:
            out, amax = NPU.npu_quant_mm_reduce_scatter(x1[rank].npu(), x2.npu(), name(), size, x1_scale=npu(s1[rank]), x2_scale=s2.npu(),
                                                        y_dtype=dtype, **more)
            scale = mine.abs().max().item()
            close_to(out.float().div(scale).to(dtype), mine / scale, dtype)
            assert amax.numel() == 0
        out, _ = NPU.npu_quant_mm_reduce_scatter(x1[rank].npu(), x2.npu(), name(), size, x1_scale=npu(s1[rank]), x2_scale=s2.npu(),
                                                 bias=bias.npu(), y_dtype=torch.float32, **more)
        torch.testing.assert_close(out.cpu(), (mine + size * bias).float(), rtol=1e-4, atol=1e-3)


def base_forms():
    """The first operators with scales, and with another way of sending."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x1, x2 = every(lambda r: int8(2 * size, 16, seed=r)), int8(16, 5, seed=99)
    s1, s2 = every(lambda r: positive(2 * size, 1, rank=r)), positive(1, 5, rank=0, seed=9)
    parts = [(x1[r].double() @ x2.double()) * s1[r].double() * s2.double() for r in range(size)]
    more = {"x1_scale": s1[rank].npu(), "x2_scale": s2.npu(), "comm_mode": "aiv"}
    for dtype in HALVES:
        out, gathered = NPU.npu_all_gather_base_mm(x1[rank].npu(), x2.npu(), name(), size, output_dtype=dtype, **more)
        close_to(out.float().div(100).to(dtype), torch.cat(parts) / 100, dtype)
        assert torch.equal(gathered.cpu(), torch.cat(x1))
        out = NPU.npu_mm_reduce_scatter_base(x1[rank].npu(), x2.npu(), name(), size, output_dtype=dtype, **more)
        close_to(out.float().div(500).to(dtype), sum(parts)[2 * rank:2 * rank + 2] / 500, dtype)
    x, w = every(lambda r: made(2 * size, 6, rank=r)), made(6, 3, rank=0, seed=1)
    out, _ = NPU.npu_all_gather_base_mm(x[rank].npu(), w.npu(), name(), size, comm_mode="aiv")
    close_to(out, torch.cat(x) @ w, torch.float32)
    out = NPU.npu_mm_reduce_scatter_base(x[rank].npu(), w.npu(), name(), size, comm_mode="aiv")
    close_to(out, (sum(x) @ w)[2 * rank:2 * rank + 2], torch.float32)


def all_reduce_quant():
    """int8 with a scale of the columns and one of the rows, float8, an int8 weight; each also with comm_mode."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x1, x2 = every(lambda r: int8(2, 3, 16, seed=r)), int8(16, 5, seed=99)
    s1, s2, bias = every(lambda r: positive(6, rank=r)), positive(5, rank=0, seed=9) / 100, int8(5, seed=5).to(torch.int32)
    x3 = made(2, 3, 5, rank=0, seed=4, dtype=torch.float16)
    plain = [(x.double() @ x2.double() + bias) * s2.double() for x in x1]
    args = (x1[rank].npu(), x2.npu(), name())
    out = NPU.npu_mm_all_reduce_base(*args, bias=bias.npu(), dequant_scale=s2.npu(), x3=x3.npu())
    close_to(out, sum(plain) + size * x3.double(), torch.float16)
    for mode in ({}, {"comm_mode": "aiv"}):
        out = NPU.npu_mm_all_reduce_base(*args, bias=bias.npu(), dequant_scale=s2.npu(), pertoken_scale=s1[rank].npu(), **mode)
        close_to(out, sum(p * s.double().view(2, 3, 1) for p, s in zip(plain, s1)), torch.float16)
        f1, f2 = every(lambda r: float8(4, 16, rank=r)), float8(16, 5, rank=0, seed=9)
        out = NPU.npu_mm_all_reduce_base(f1[rank].npu(), f2.npu(), name(), dequant_scale=torch.tensor([0.5]).npu(),
                                         pertoken_scale=torch.tensor([0.25]).npu(), y_dtype=torch.float32, **mode)
        close_to(out, sum(f.double() for f in f1) @ f2.double() * 0.125, torch.float32)
        for dtype in TOLERANCE:
            x, scale, offset = every(lambda r: made(4, 16, rank=r, dtype=dtype)), positive(5, rank=0) / 50, made(5, rank=0, seed=3)
            out = NPU.npu_mm_all_reduce_base(x[rank].npu(), x2.npu(), name(), antiquant_scale=scale.to(dtype).npu(),
                                             antiquant_offset=offset.to(dtype).npu(), **mode)
            weight = (x2.double() + offset.to(dtype).double()) * scale.to(dtype).double()
            close_to(out, sum(t.double() for t in x) @ weight, dtype)
        x, w = every(lambda r: made(4, 6, rank=r)), made(6, 3, rank=0, seed=1)
        close_to(NPU.npu_mm_all_reduce_base(x[rank].npu(), w.npu(), name(), **mode), sum(x) @ w, torch.float32)


def all_to_all_products():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in TOLERANCE:
        x, w, bias = every(lambda r: made(3 * size, 4, rank=r, dtype=dtype)), made(4 * size, 5, rank=rank, seed=1, dtype=dtype), made(
            5, rank=0, seed=2, dtype=dtype)
        wide = torch.cat([x[r][3 * rank:3 * rank + 3] for r in range(size)], 1)
        for mode in ({}, {"comm_mode": "ccu"}):
            out, permuted = NPU.npu_all_to_all_matmul(x[rank].npu(), w.npu(), name(), size, bias.npu(), [-2, -1], **mode)
            close_to(out, wide.double() @ w.double() + bias.double(), dtype)
            assert torch.equal(permuted.cpu(), wide)
            assert NPU.npu_all_to_all_matmul(x[rank].npu(), w.npu(), name(), size, None, None, False, **mode)[1] is None
        x, w = every(lambda r: made(3, 4, rank=r, dtype=dtype)), every(lambda r: made(4, 2 * size, rank=r, seed=1, dtype=dtype))
        parts = [x[r].double() @ w[r].double() for r in range(size)]
        expected = torch.cat([p[:, 2 * rank:2 * rank + 2] for p in parts])
        for mode in ({}, {"comm_mode": "ccu"}):
            close_to(NPU.npu_matmul_all_to_all(x[rank].npu(), w[rank].npu(), name(), size, None, [-1, -2], **mode), expected, dtype)


def row_quantised(x, kind):
    most = 57344.0 if kind == E5M2 else 448.0
    scale = x.float().abs().amax(1, keepdim=True) / most
    return (x.float() / scale).to(kind).double() * scale.double()


def all_to_all_quant():
    rank, size = dist.get_rank(), dist.get_world_size()
    bias = made(5, rank=0, seed=2)
    for mode in ({}, {"comm_mode": "ccu"}):
        for kind in (E5M2, E4M3):
            x, w = every(lambda r: made(3 * size, 4, rank=r, dtype=torch.float16)), float8(4 * size, 5, rank=rank, seed=1, kind=kind)
            wide, scale = torch.cat([x[r][3 * rank:3 * rank + 3] for r in range(size)], 1), positive(5, rank=0)
            more = {} if kind == E5M2 else {"x1_quant_dtype": kind}
            out, permuted = NPU.npu_all_to_all_quant_matmul(x[rank].npu(), w.npu(), name(), size, x2_scale=scale.npu(), **more, **mode)
            close_to(out, row_quantised(wide, kind) @ w.double() * scale.double(), torch.float32)
            assert torch.equal(permuted.cpu(), wide)
        pairs, (w, ws) = every(lambda r: mx(3 * size, 64, r)), mx(5, 64 * size, rank, seed=9, kind=E5M2)
        wide = torch.cat([scaled(*pairs[r])[3 * rank:3 * rank + 3] for r in range(size)], 1)
        more = {"x1_quant_mode": 6, "x2_quant_mode": 6, "x1_scale_dtype": E8M0, "x2_scale_dtype": E8M0, "group_sizes": [1, 1, 32]}
        out, permuted = NPU.npu_all_to_all_quant_matmul(pairs[rank][0].npu(), w.npu().t(), name(), size, x1_scale=pairs[rank][1].npu(),
                                                        x2_scale=ws.npu(), bias=bias.npu(), y_dtype=torch.float32, **more, **mode)
        close_to(out, wide @ scaled(w, ws).t() + bias.double(), torch.float32)
        assert permuted.dtype == E4M3 and permuted.shape == (3, 64 * size)
        x, w = every(lambda r: float8(3, 8, rank=r)), every(lambda r: float8(8, 2 * size, rank=r, seed=1))
        s1, s2 = every(lambda r: positive(3, rank=r)), positive(2 * size, rank=0, seed=1)
        parts = [x[r].double() @ w[r].double() * s1[r].double().view(-1, 1) * s2.double() for r in range(size)]
        expected = torch.cat([p[:, 2 * rank:2 * rank + 2] for p in parts])
        scales = {"x1_scale": s1[rank].npu(), "x2_scale": s2.npu()}
        out = NPU.npu_quant_matmul_all_to_all(x[rank].npu(), w[rank].npu(), name(), size, **scales, **mode)
        close_to(out, expected, torch.float32)
        left, right = every(lambda r: mx(3, 70, r)), every(lambda r: mx(2 * size, 70, r, seed=9))
        parts = [scaled(*left[r]) @ scaled(*right[r]).t() for r in range(size)]
        out = NPU.npu_quant_matmul_all_to_all(left[rank][0].npu(), right[rank][0].npu().t(), name(), size, x1_scale=left[rank][1].npu(),
                                              x2_scale=right[rank][1].npu(), y_dtype=torch.float16, **more, **mode)
        close_to(out, torch.cat([p[:, 2 * rank:2 * rank + 2] for p in parts]), torch.float16)


EXPERTS = 3


def routes():
    """sent[r][p][e]: rows of rank r for expert e of rank p."""
    size = dist.get_world_size()
    sent = torch.randint(0, 4, (size, size, EXPERTS), generator=torch.Generator().manual_seed(3))
    sent[0, -1, 1] = 0
    return sent


def groups_of(sent, rank):
    """Rows of each expert of a rank, by expert, then by sender: (sender, slice of the sender's rows)."""
    found = []
    for e in range(EXPERTS):
        for r in range(dist.get_world_size()):
            before = int(sent[r].flatten()[: rank * EXPERTS + e].sum())
            found.append((e, r, slice(before, before + int(sent[r, rank, e]))))
    return found


def gmm_all_to_all():
    """What experts make of their rows goes back to the senders."""
    rank, size, sent = dist.get_rank(), dist.get_world_size(), routes()
    for dtype in TOLERANCE:
        x = every(lambda p: made(int(sent[:, p].sum()), 6, rank=p, dtype=dtype))  # by expert, then by the rank that gets the row back
        w = every(lambda p: made(EXPERTS, 6, 5, rank=p, seed=1, dtype=dtype))
        mm_x, mm_w = made(4, 7, rank=rank, seed=2, dtype=dtype), made(7, 2, rank=rank, seed=3, dtype=dtype)
        expected = []
        for p in range(size):
            parts = x[p].split(sent[:, p].t().flatten().tolist())
            expected += [parts[e * size + rank].double() @ w[p][e].double() for e in range(EXPERTS)]
        counts = (sent[:, rank].t().flatten().tolist(), sent[rank].flatten().tolist())
        for mode in ({}, {"comm_mode": "ccu"}):
            beside = {"mm_x": mm_x.npu(), "mm_weight": mm_w.npu()}
            out, extra = NPU.npu_gmm_alltoallv(x[rank].npu(), w[rank].npu(), name(), size, *counts, **beside, **mode)
            close_to(out, torch.cat(expected), dtype)
            close_to(extra, mm_x.double() @ mm_w.double(), dtype)
            out, extra = NPU.npu_gmm_alltoallv(x[rank].npu(), w[rank].npu().transpose(1, 2).contiguous(), name(), size, *counts,
                                               trans_gmm_weight=True, **mode)
            close_to(out, torch.cat(expected), dtype)
            assert extra is None


def gmm_with_another_way_of_sending():
    rank, size, sent = dist.get_rank(), dist.get_world_size(), routes()
    x, w = every(lambda r: made(int(sent[r].sum()), 6, rank=r)), made(EXPERTS, 6, 5, rank=rank, seed=1)
    expected = torch.cat([x[r][part] @ w[e] for e, r, part in groups_of(sent, rank)])
    counts = (sent[rank].flatten().tolist(), sent[:, rank].flatten().tolist())
    out, *_ = NPU.npu_alltoallv_gmm(x[rank].npu(), w.npu(), name(), size, *counts, comm_mode="ccu")
    close_to(out, expected, torch.float32)


def quantised_groups(kind, rank, seed=0):
    """Numbers, scale and values of [rows, 70] and of [experts, 70, 5]."""
    def of(rows):
        if kind == "mx":
            codes, scale = mx(rows, 70, rank, seed)
            return codes, scale, scaled(codes, scale)
        codes = hif8(rows, 70, seed=seed + rank)
        return codes, torch.tensor([0.5]), numbers(codes, HIF8) * 0.5

    def experts():
        if kind == "mx":
            made_each = [mx(5, 70, rank, seed + 10 + e, kind=E5M2) for e in range(EXPERTS)]
            return (torch.stack([c.t().contiguous() for c, _ in made_each]),
                    torch.stack([s.transpose(0, 1).contiguous() for _, s in made_each]),
                    torch.stack([scaled(c, s).t() for c, s in made_each]))
        codes = hif8(EXPERTS, 70, 5, seed=seed + rank)
        return codes, torch.tensor([0.25]), numbers(codes, HIF8) * 0.25

    return of, experts


def keywords(kind, prefix="gmm_"):
    if kind == "mx":
        return {f"{prefix}x_quant_mode": 6, f"{prefix}weight_quant_mode": 6, f"{prefix}x_scale_dtype": E8M0,
                f"{prefix}weight_scale_dtype": E8M0}
    return {f"{prefix}x_quant_mode": 1, f"{prefix}weight_quant_mode": 1, f"{prefix}x_dtype": HIF8, f"{prefix}weight_dtype": HIF8}


def relative(actual, expected, dtype):
    scale = expected.abs().max().item() or 1.0
    close_to(actual.float().div(scale).to(dtype), expected / scale, dtype)


def quant_groups():
    rank, size, sent = dist.get_rank(), dist.get_world_size(), routes()
    for kind in ("mx", "hifloat8"):
        x = every(lambda r, kind=kind: quantised_groups(kind, r)[0](int(sent[r].sum())))
        w = every(lambda r, kind=kind: quantised_groups(kind, r)[1]())
        shared_x, (shared_w, shared_s, shared_v) = quantised_groups(kind, rank, seed=50)[0](4), w[rank]
        beside = {"mm_x": shared_x[0].npu(), "mm_weight": shared_w[0].npu(), "mm_x_scale": shared_x[1].npu(),
                  "mm_weight_scale": (shared_s[0] if kind == "mx" else shared_s).npu(), "mm_y_dtype": torch.float16,
                  **keywords(kind, "mm_")}
        for mode in ({}, {"comm_mode": "ccu"}):
            for dtype in HALVES:
                counts = (sent[rank].flatten().tolist(), sent[:, rank].flatten().tolist())
                expected = torch.cat([x[r][2][part] @ w[rank][2][e] for e, r, part in groups_of(sent, rank)])
                args = (x[rank][0].npu(), w[rank][0].npu(), x[rank][1].npu(), w[rank][1].npu(), name(), size, *counts, dtype)
                out, extra, permuted = NPU.npu_alltoallv_quant_gmm(*args, permute_out_flag=True, **keywords(kind), **beside, **mode)
                relative(out, expected, dtype)
                relative(extra, shared_x[2] @ shared_v[0], torch.float16)
                rows = torch.cat([x[r][0][part].view(torch.uint8) for _, r, part in groups_of(sent, rank)])
                assert torch.equal(permuted.cpu().view(torch.uint8), rows)
                assert NPU.npu_alltoallv_quant_gmm(*args, **keywords(kind), **mode)[1:] == (None, None)
        back = every(lambda p, kind=kind: quantised_groups(kind, p)[0](int(sent[:, p].sum())))
        expected = []
        for p in range(size):
            parts = back[p][2].split(sent[:, p].t().flatten().tolist())
            expected += [parts[e * size + rank] @ w[p][2][e] for e in range(EXPERTS)]
        counts = (sent[:, rank].t().flatten().tolist(), sent[rank].flatten().tolist())
        for mode in ({}, {"comm_mode": "ccu"}):
            for dtype in HALVES:
                args = (back[rank][0].npu(), w[rank][0].npu(), back[rank][1].npu(), w[rank][1].npu(), name(), size, *counts, dtype)
                out, extra = NPU.npu_quant_gmm_alltoallv(*args, **keywords(kind), **beside, **mode)
                relative(out, torch.cat(expected), dtype)
                relative(extra, shared_x[2] @ shared_v[0], torch.float16)


def barrier():
    """Nobody passes before all are there: what a rank wrote before, the others see behind."""
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.full((1,), float(rank)).npu()
    out = NPU._npu_distribute_barrier(x, name(), size)
    assert out.data_ptr() == x.data_ptr() and (out == rank).all()
    torch.npu.synchronize()


def refused():
    size = dist.get_world_size()
    x8, w8, x, w = int8(4, 6).npu(), int8(6, 3).npu(), torch.ones(4, 6).npu(), torch.ones(6, 3).npu()
    one = torch.ones(1).npu()
    calls = [
        lambda: NPU.npu_all_gather_quant_mm(x8, w8, name(), size, x2_scale=one),
        lambda: NPU.npu_all_gather_quant_mm(x8, w8, name(), size, y_dtype=5),
        lambda: NPU.npu_all_gather_quant_mm(x, w, name(), size, x2_scale=one),
        lambda: NPU.npu_all_gather_quant_mm(x8, w8, name(), size + 1, x2_scale=one, y_dtype=5),
        lambda: NPU.npu_quant_mm_reduce_scatter(x8, w8, name(), 3, x2_scale=one, y_dtype=5),
        lambda: NPU.npu_quant_mm_reduce_scatter(x8, w8, name(), size, x2_scale=one, y_dtype=5, amax_output=True),
        lambda: NPU.npu_all_gather_quant_mm(x8, w8, name(), size, x2_scale=one, y_dtype=5, x1_dtype=296, x2_dtype=296),
        lambda: NPU.npu_all_to_all_matmul(x, w, name(), size),
        lambda: NPU.npu_matmul_all_to_all(x, w, name(), size),
        lambda: NPU.npu_mm_all_reduce_base(x8, w8, name()),
        lambda: NPU.npu_gmm_alltoallv(x, torch.ones(1, 6, 3).npu(), name(), size, [1] * size, [1] * size),
        lambda: NPU._npu_distribute_barrier(x, name(), size + 1),
    ]
    messages = [message_of(call) for call in calls]
    barrier()  # the group still works
    return messages
