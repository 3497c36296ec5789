import torch

from torch_npu.contrib import transfer_to_npu

x = torch.ones(3).cuda()       # is on npu
print(x.device)
transfer_to_npu.undo()
