import warnings

import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestWarnings(TestCase):
    def test_kinds(self):
        self.assertNotWarn(lambda: torch.ones(2, device="npu") + 1)
        self.assertWarns(lambda: warnings.warn("hot", stacklevel=1))
        with self.maybeWarnsRegex(UserWarning, "hot"):
            warnings.warn("very hot", stacklevel=1)


if __name__ == "__main__":
    run_tests()
