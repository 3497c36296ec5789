"""Mixed precision as the AMP recipe teaches it: autocast, GradScaler, clipping, checkpoints, timing by events."""

import gc

import torch

assert torch.cuda.is_available()
start_event = torch.cuda.Event(enable_timing=True)
end_event = torch.cuda.Event(enable_timing=True)


def start_timer():
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.synchronize()
    start_event.record()


def end_timer_and_print(message):
    end_event.record()
    torch.cuda.synchronize()
    elapsed, peak = start_event.elapsed_time(end_event), torch.cuda.max_memory_allocated()
    print(f"# {message}: {elapsed:.3f} ms, {peak} bytes")
    assert elapsed >= 0 and peak > 0


def make_model(in_size, out_size, num_layers):
    layers = []
    for _ in range(num_layers - 1):
        layers += [torch.nn.Linear(in_size, in_size), torch.nn.ReLU()]
    layers.append(torch.nn.Linear(in_size, out_size))
    return torch.nn.Sequential(*tuple(layers)).cuda()


batch_size, in_size, out_size, num_layers, num_batches, epochs = 32, 64, 8, 3, 4, 2
torch.manual_seed(0)
data = [torch.randn(batch_size, in_size).cuda() for _ in range(num_batches)]
targets = [torch.randn(batch_size, out_size).cuda() for _ in range(num_batches)]
loss_fn = torch.nn.MSELoss().cuda()

for use_amp in (False, True):
    torch.manual_seed(1)
    net = make_model(in_size, out_size, num_layers)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    start_timer()
    for epoch in range(epochs):
        for step, (input, target) in enumerate(zip(data, targets)):
            with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):
                output = net(input)
                assert output.dtype is (torch.float16 if use_amp else torch.float32)
                loss = loss_fn(output, target)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
            print(f"amp {use_amp} epoch {epoch} step {step} loss {loss.item():.5f}")
    end_timer_and_print(f"amp {use_amp}")

checkpoint = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scaler": scaler.state_dict()}
torch.save(checkpoint, "amp.pt")
checkpoint = torch.load("amp.pt", map_location=lambda storage, loc: storage.cuda(torch.cuda.current_device()))
net.load_state_dict(checkpoint["model"])
scaler.load_state_dict(checkpoint["scaler"])

with torch.cuda.amp.autocast(dtype=torch.float16):
    assert torch.is_autocast_enabled()
    loss = loss_fn(net(data[0]), targets[0])
print(f"restored loss {loss.item():.5f}")
