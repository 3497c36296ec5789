import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestEvent(TestCase):
    def test_elapsed_time(self):
        start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        start.record()
        torch.randn(256, 256).npu().mm(torch.randn(256, 256).npu())
        end.record()
        end.synchronize()
        self.assertGreater(start.elapsed_time(end), 0)

    def test_wait_orders_streams(self):
        event, stream = torch.npu.Event(), torch.npu.Stream()
        x = torch.zeros(1000, device="npu")
        x.add_(1)
        event.record()
        with torch.npu.stream(stream):
            event.wait()
            y = x * 2
        stream.synchronize()
        self.assertEqual(y.sum().item(), 2000)
        self.assertTrue(event.query())


if __name__ == "__main__":
    run_tests()
