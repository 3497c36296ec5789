import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestDataLoader(TestCase):
    def test_pinned_batches(self):
        data = torch.utils.data.TensorDataset(torch.arange(10.0))
        loader = torch.utils.data.DataLoader(data, batch_size=3, pin_memory=True)
        total = sum(batch.npu(non_blocking=True).sum().item() for (batch,) in loader)
        self.assertEqual(total, 45)


if __name__ == "__main__":
    run_tests()
