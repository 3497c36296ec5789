import torch

print(torch.npu.device_count(), torch.npu.get_device_name(0))
side, done = torch.npu.Stream(), torch.npu.Event(enable_timing=True)
x = torch.randn(256, 256, device="npu")
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side):
    y = x @ x
    done.record()
torch.npu.current_stream().wait_event(done)
print(y.sum().item(), torch.npu.memory_allocated(), torch.npu.max_memory_allocated())
torch.npu.manual_seed(0)
