import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestMemory(TestCase):
    def test_allocated_follows_tensors(self):
        torch.npu.empty_cache()
        before = torch.npu.memory_allocated()
        x = torch.empty(1024, 1024, device="npu")
        self.assertEqual(torch.npu.memory_allocated() - before, 4 * 1024 * 1024)
        del x
        self.assertEqual(torch.npu.memory_allocated(), before)

    def test_peak(self):
        torch.npu.reset_peak_memory_stats()
        x = torch.empty(1 << 20, device="npu")
        del x
        self.assertGreater(torch.npu.max_memory_allocated(), torch.npu.memory_allocated())
        self.assertGreaterEqual(torch.npu.memory_reserved(), torch.npu.memory_allocated())

    def test_summary_and_stats(self):
        self.assertIn("Allocated memory", torch.npu.memory_summary())
        self.assertIn("allocated_bytes.all.current", torch.npu.memory_stats())


if __name__ == "__main__":
    run_tests()
