import torch

import torch_npu  # noqa: F401
from torch_npu.testing.testcase import TestCase, run_tests


class TestGraph(TestCase):
    def test_capture_and_replay(self):
        x = torch.zeros(8, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x * 2 + 1
        x.fill_(3)
        graph.replay()
        self.assertEqual(y.cpu(), torch.full((8,), 7.0))


if __name__ == "__main__":
    run_tests()
