"""Products, decompositions of matrices, Fourier transforms. Sizes are those of a tile of 16, and beside them."""

import torch
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, Operator, each, f

A, B, C = f(32, 64), f(64, 48), f(32, 48)
ODD, ODDER = f(17, 33), f(33, 5)
BATCH, BATCHES = f(4, 16, 32), f(4, 32, 24)
VECTOR = f(64)


def definite(x):
    """Symmetric and well conditioned."""
    return x @ x.mT + 8 * torch.eye(x.shape[-1], device=x.device, dtype=x.dtype)


def factors(x):
    """Of one sign: that of a factorisation is free."""
    q, r = torch.linalg.qr(x)
    return q @ r, r.abs()


def real(x):
    return torch.view_as_real(x)


SQUARE = f(3, 12, 12)
OPERATORS = [
    *each("mm matmul", torch, A, B, loose=4),
    Operator("mm_odd", torch.mm, (ODD, ODDER), loose=4),
    Operator("mm_transposed", lambda x, y: x.t() @ y, (f(64, 32), B), loose=4),
    Operator("mm_both_transposed", lambda x, y: x.t() @ y.t(), (f(64, 32), f(48, 64)), loose=4),
    Operator("mm_large", lambda x, y: x @ y, (f(128, 256), f(256, 192)), loose=16),
    Operator("bmm", torch.bmm, (BATCH, BATCHES), loose=4),
    Operator("matmul_broadcast", torch.matmul, (f(2, 1, 16, 32), f(3, 32, 24)), loose=4),
    Operator("matmul_rows", torch.matmul, (f(2, 3, 16, 64), B), loose=4),
    Operator("addmm", torch.addmm, (C, A, B), loose=4),
    Operator("addmm_scaled", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (f(48), A, B), loose=8),
    Operator("baddbmm", torch.baddbmm, (f(4, 16, 24), BATCH, BATCHES), loose=4),
    Operator("addbmm", torch.addbmm, (f(16, 24), BATCH, BATCHES), loose=8),
    Operator("addmv", torch.addmv, (f(32), A, VECTOR), FLOAT32, loose=4),
    Operator("addr", torch.addr, (C, f(32), f(48)), FLOAT32),
    Operator("mv", torch.mv, (A, VECTOR), loose=4),
    Operator("dot", torch.dot, (VECTOR, VECTOR), loose=4),
    Operator("outer", torch.outer, (f(32), f(48))),
    Operator("einsum", lambda x, y: torch.einsum("bij,bjk->bki", x, y), (BATCH, BATCHES), loose=4),
    Operator("tensordot", lambda x, y: torch.tensordot(x, y, 1), (A, B), loose=4),
    Operator("kron", torch.kron, (f(3, 4), f(5, 2)), FLOAT32),
    Operator("cross", lambda x, y: torch.linalg.cross(x, y), (f(9, 3), f(9, 3)), FLOAT32),
    Operator("cdist", torch.cdist, (f(9, 16), f(7, 16)), FLOAT32, loose=4),
    Operator("F.linear", F.linear, (A, f(48, 64), f(48)), loose=4),
    Operator("F.linear_batched", F.linear, (f(2, 9, 64), f(48, 64), f(48)), loose=4),
    Operator("F.bilinear", F.bilinear, (f(8, 5), f(8, 6), f(4, 5, 6), f(4)), FLOAT32, loose=4),
    Operator("linalg.inv", lambda x: torch.linalg.inv(definite(x)), (SQUARE,), FLOAT32, loose=8),
    Operator("linalg.det", lambda x: torch.linalg.det(definite(x) / 16), (f(3, 5, 5),), FLOAT32, loose=8),
    Operator("linalg.solve", lambda x, y: torch.linalg.solve(definite(x), y), (SQUARE, f(3, 12, 4)), FLOAT32, loose=8),
    Operator("linalg.cholesky", lambda x: torch.linalg.cholesky(definite(x)), (SQUARE,), FLOAT32, loose=8),
    Operator("linalg.solve_triangular", lambda x, y: torch.linalg.solve_triangular(definite(x).tril(), y, upper=False),
             (SQUARE, f(3, 12, 4)), FLOAT32, loose=8),
    Operator("linalg.qr", factors, (f(9, 6),), FLOAT32, gradient=False, loose=8),
    Operator("linalg.svdvals", torch.linalg.svdvals, (f(9, 6),), FLOAT32, gradient=False, loose=8),
    Operator("linalg.eigvalsh", lambda x: torch.linalg.eigvalsh(definite(x)), (SQUARE,), FLOAT32, gradient=False, loose=8),
    Operator("fft.fft", lambda x: real(torch.fft.fft(x)), (f(4, 32),), FLOAT32, gradient=False, loose=4),
    Operator("fft.rfft", lambda x: real(torch.fft.rfft(x)), (f(4, 32),), FLOAT32, gradient=False, loose=4),
    Operator("fft.irfft", lambda x: torch.fft.irfft(torch.view_as_complex(x.contiguous())), (f(4, 17, 2),), FLOAT32, gradient=False,
             loose=4),
]
