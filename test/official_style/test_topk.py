import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestTopK(TestCase):
    def test_topk(self):
        for largest in (True, False):
            cpu_input = torch.randperm(60).float().view(4, 15)
            cpu_values, cpu_indices = torch.topk(cpu_input, 5, largest=largest)
            npu_values, npu_indices = torch.topk(cpu_input.npu(), 5, largest=largest)
            self.assertRtolEqual(cpu_values, npu_values.cpu())
            self.assertRtolEqual(cpu_indices.numpy(), npu_indices.cpu().numpy())


if __name__ == "__main__":
    run_tests()
