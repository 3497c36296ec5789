
import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestSparse(TestCase):
    def test_coalesce(self):
        x, indices, values = self.genSparseTensor([4, 5], 2, 6, is_uncoalesced=True)
        self.assertEqual(self.safeToDense(x), x.npu().coalesce().to_dense().cpu())

    def test_wrong_elements(self):
        with self.assertRaises(RuntimeError):
            self.genSparseTensor([0, 5], 1, 2, is_uncoalesced=False)


if __name__ == "__main__":
    run_tests()
