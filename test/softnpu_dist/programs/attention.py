"""npu_fusion_attention, forward and backward, against scaled_dot_product_attention of the CPU."""

import math

import torch

import torch_npu

heads, size = 4, 16
worst = 0.0
for kind, tolerance in ((torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
    torch.manual_seed(0)
    host = [torch.randn(2, heads, 24, size).to(kind).float().requires_grad_() for _ in range(3)]
    card = [tensor.detach().to(kind).npu().requires_grad_() for tensor in host]
    expected = torch.nn.functional.scaled_dot_product_attention(*host, is_causal=True)
    hidden = torch.ones(24, 24, dtype=torch.bool).triu(1).npu()
    found = torch_npu.npu_fusion_attention(*card, heads, "BNSD", atten_mask=hidden, scale=1 / math.sqrt(size))[0]
    weight = torch.randn_like(expected).to(kind).float()
    (expected * weight).sum().backward()
    (found.float() * weight.npu()).sum().backward()
    for mine, theirs in zip((found, *(tensor.grad for tensor in card)), (expected, *(tensor.grad for tensor in host))):
        torch.testing.assert_close(mine.cpu().float(), theirs, rtol=tolerance, atol=4 * tolerance)
        worst = max(worst, (mine.cpu().float() - theirs).abs().max().item())
print(f"causal attention in float16 and bfloat16 with gradients, largest difference {worst:.1e}")
