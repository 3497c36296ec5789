import torch

import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests


class TestFusionAttention(TestCase):
    def test_bsh_against_products(self):
        query, key, value = (torch.randn(2, 8, 32) for _ in range(3))
        scale = 8 ** -0.5
        heads = [t.view(2, 8, 4, 8).transpose(1, 2) for t in (query, key, value)]
        expected = torch.softmax(heads[0] @ heads[1].transpose(-1, -2) * scale, -1) @ heads[2]
        result = torch_npu.npu_fusion_attention(query.half().npu(), key.half().npu(), value.half().npu(), 4, "BSH", scale=scale)[0]
        self.assertRtolEqual(expected.transpose(1, 2).reshape(2, 8, 32).half().numpy(), result.cpu().numpy(), prec16=1.e-2)


if __name__ == "__main__":
    run_tests()
