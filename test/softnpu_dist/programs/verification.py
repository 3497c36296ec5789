"""The README's first lines."""

import torch

import torch_npu

x = torch.randn(2, 2).npu()
y = torch.randn(2, 2).npu()
z = x.mm(y)
torch.testing.assert_close(z.cpu(), x.cpu() @ y.cpu())
assert str(z.device) == "npu:0"
print(f"torch_npu {torch_npu.__version__} on {torch.npu.device_count()} {torch.npu.get_device_name()}")
