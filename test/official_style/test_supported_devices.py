import torch

import torch_npu  # noqa: F401
from torch_npu.testing.common_utils import SkipIfNotGteCANNVersion, SupportedDevices
from torch_npu.testing.testcase import TestCase, run_tests


class TestSkips(TestCase):
    @SupportedDevices(["Ascend910B"])
    def test_on_a2(self):
        self.assertTrue(torch.npu.get_device_name(0).startswith("Ascend910B"))

    @SupportedDevices(["Ascend310P"])
    def test_elsewhere(self):
        self.fail("this SoC is not here")

    @SkipIfNotGteCANNVersion("99.0.0")
    def test_of_the_future(self):
        self.fail("this version is not here")


if __name__ == "__main__":
    run_tests()
