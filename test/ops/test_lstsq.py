"""torch.linalg.lstsq: shapes of every form against the CPU, and no more memory than its results."""

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.npu.is_available(), reason="no npu is available")

SHAPES = [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((5, 3), (5,)), ((2, 5, 3), (2, 5)), ((2, 5, 3), (2, 5, 4)), ((2, 1, 5, 3), (1, 4, 5, 2)),
          ((0, 3), (0, 3)), ((2, 0, 3), (2, 0, 2)), ((3, 0), (3, 2)), ((0, 5, 3), (0, 5, 2))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("driver", ["gelsy", "gelsd"])
def test_results(shapes, driver):
    torch.manual_seed(0)
    a, b = (torch.randn(shape) for shape in shapes)
    here = torch.linalg.lstsq(a, b, driver=driver)
    there = torch.linalg.lstsq(a.npu(), b.npu(), driver=driver)
    for expected, got in zip(here, there):
        assert got.shape == expected.shape
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_memory():
    a, b = torch.randn(400, 200, device="npu"), torch.randn(400, 100, device="npu")
    torch.linalg.lstsq(a, b)
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    torch.linalg.lstsq(a, b)
    assert torch.npu.max_memory_allocated() - before < 8 * a.nbytes
