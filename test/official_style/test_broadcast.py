import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import test_2args_broadcast
from torch_npu.testing.testcase import TestCase, run_tests


class TestBroadcast(TestCase):
    def test_div_broadcasts(self):
        for cpu_result, npu_result in test_2args_broadcast(torch.div):
            self.assertRtolEqual(cpu_result, npu_result)

    def test_sub_broadcasts(self):
        for cpu_result, npu_result in test_2args_broadcast(torch.sub):
            self.assertRtolEqual(cpu_result, npu_result)


if __name__ == "__main__":
    run_tests()
