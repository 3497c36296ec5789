import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestStorage(TestCase):
    def test_storage_of_a_view(self):
        x = torch.arange(6.0).npu()
        view = x[2:]
        self.assertEqual(view.untyped_storage().data_ptr(), x.untyped_storage().data_ptr())
        self.assertEqual(view.storage_offset(), 2)

    def test_storage_types(self):
        self.assertTrue(torch.ones(2).npu().untyped_storage().is_npu)
        self.assertEqual(torch.npu.FloatStorage([1.0, 2.0]).tolist(), [1.0, 2.0])


if __name__ == "__main__":
    run_tests()
