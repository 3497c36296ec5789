"""A training loop under torch.profiler with a schedule, side streams, pinned memory and per-device generators."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

device = torch.device("cuda", 0)
torch.cuda.set_device(device)
torch.manual_seed(7)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator(device="cuda").manual_seed(5)
assert generator.initial_seed() == 5 and isinstance(generator, torch.Generator)
copies = torch.cuda.Stream()
host = [torch.randn(16, 3, 8, 8).pin_memory() for _ in range(6)]
labels = torch.randint(0, 4, (16,), device="cpu").to("cuda:0")
traces = []


def trace_handler(prof):
    table = prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=5)
    traces.append((table, {event.key for event in prof.key_averages()}))


with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=schedule(wait=1, warmup=1, active=2),
    on_trace_ready=trace_handler,
    record_shapes=True,
) as prof:
    for step, batch in enumerate(host):
        with torch.cuda.stream(copies):
            images = batch.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        images.record_stream(torch.cuda.current_stream())
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        torch.cuda.nvtx.range_push("log")
        print(f"step {step} loss {loss.item():.6f}")
        torch.cuda.nvtx.range_pop()
        prof.step()
assert "forward" in traces[0][1] and traces[0][0].count("\n") > 5, traces
noise = torch.rand(4, device="cuda", generator=generator)
assert noise.is_cuda and noise.device.index == torch.cuda.current_device()
