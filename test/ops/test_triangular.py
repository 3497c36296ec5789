"""Triangular matrices: solvers with every flag, of matrices whose diagonal and other half say something else; triangles of any strides."""

import itertools

import pytest
import torch
from against_cpu import compare

FLAGS = list(itertools.product((False, True), repeat=3))


def operands():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, 2, generator=generator), torch.randn(2, 3, 3, generator=generator) + 3 * torch.eye(3)


@pytest.mark.parametrize(("upper", "transpose", "unitriangular"), FLAGS)
@pytest.mark.filterwarnings("ignore:torch.triangular_solve")
def test_the_older_solver(upper, transpose, unitriangular):
    b, a = operands()
    compare(lambda x, y: tuple(torch.triangular_solve(x, y, upper, transpose, unitriangular)), b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("upper", "left", "unitriangular"), FLAGS)
def test_the_solver(upper, left, unitriangular):
    b, a = operands()
    compare(lambda x, y: torch.linalg.solve_triangular(y, x if left else x.mT, upper=upper, left=left, unitriangular=unitriangular), b, a,
            gradients=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("triangle", [torch.tril, torch.triu])
@pytest.mark.parametrize("diagonal", [-1, 0, 2])
def test_a_triangle_is_written_to_any_strides(triangle, diagonal):
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    out = torch.empty(4, 3, 2, device="npu").permute(2, 1, 0)
    assert torch.equal(triangle(x.npu(), diagonal, out=out).cpu(), triangle(x, diagonal)) and not out.is_contiguous()
