import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestStream(TestCase):
    def test_wait_stream(self):
        stream = torch.npu.Stream()
        x = torch.randn(64, 64, device="npu")
        stream.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(stream):
            y = x @ x
        torch.npu.current_stream().wait_stream(stream)
        self.assertRtolEqual((x.cpu() @ x.cpu()).numpy(), y.cpu().numpy(), prec=1.e-3)

    def test_default_stream_is_current(self):
        self.assertEqual(torch.npu.current_stream(), torch.npu.default_stream())
        with torch.npu.stream(torch.npu.Stream()) as _:
            self.assertTrue(torch.npu.current_stream() != torch.npu.default_stream())

    def test_query_after_synchronize(self):
        stream = torch.npu.Stream()
        stream.synchronize()
        self.assertTrue(stream.query())


if __name__ == "__main__":
    run_tests()
