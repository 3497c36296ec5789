import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestAssertions(TestCase):
    def test_differences_are_noticed(self):
        x = torch.arange(1.0, 11)
        for y in (x + 1, x.half(), x[:5], torch.full((10,), float("nan"))):
            with self.assertRaises(AssertionError):
                self.assertRtolEqual(x, y)
        with self.assertRaises(AssertionError):
            self.assertEqual(x, x + 1e-3)
        self.assertEqual(x, x + 1e-7)
        self.assertNotEqual(x, x + 1)

    def test_tolerances(self):
        x = torch.full((5,), 1000.0)
        self.assertRtolEqual(x, x + 0.05)
        self.assertRtolEqual([1.0, 2.0], [1.0, 2.00001])
        self.assertRtolEqual(x.half(), x, auto_trans_dtype=True)

    def test_objects(self):
        x = torch.ones(1)
        self.assertObjectIn(x, [torch.zeros(1), x])
        self.assertEqual({"a": [x, 2]}, {"a": [torch.ones(1), 2]})
        self.assertAlmostEqual(1.0, 1.04, places=1)


if __name__ == "__main__":
    run_tests()
