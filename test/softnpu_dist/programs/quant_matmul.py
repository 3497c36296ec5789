"""npu_quant_matmul: int8 products with a scale for each column, and one for each token, equal the integers' product."""

import torch

import torch_npu

torch.manual_seed(0)
a = torch.randint(-128, 128, (6, 32), dtype=torch.int8)
b = torch.randint(-128, 128, (32, 8), dtype=torch.int8)
scale, tokens = torch.rand(8) / 100, torch.rand(6)
product = (a.long() @ b.long()).double()
found = torch_npu.npu_quant_matmul(a.npu(), b.npu(), scale.npu(), pertoken_scale=tokens.npu(), output_dtype=torch.float16)
torch.testing.assert_close(found.cpu(), (product * scale.double() * tokens.double()[:, None]).half())
found = torch_npu.npu_quant_matmul(a.npu(), b.npu(), scale.npu(), output_dtype=torch.bfloat16)
torch.testing.assert_close(found.cpu(), (product * scale.double()).bfloat16())
print("int8 products to float16 (a scale for each token) and bfloat16, equal to the integers' product, rounded once")
