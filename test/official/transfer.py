"""transfer_to_npu: scripts written for CUDA, unedited."""

import torch
from rows import each

import torch_npu  # noqa: F401
from torch_npu.contrib import transfer_to_npu  # noqa: F401

APART = True
IN_MODES = ("queue 1",)
WEIGHT = torch.arange(6.0).view(2, 3)


def on_npu(x):
    return x.device.type == "npu"


# Each in the words of CUDA; true if it ended on the card.
SCRIPTS = {
    "Tensor.cuda": lambda: on_npu(WEIGHT.cuda()),
    "Tensor.cuda(0)": lambda: on_npu(WEIGHT.cuda(0)),
    "Tensor.to('cuda')": lambda: on_npu(WEIGHT.to("cuda")),
    "Tensor.to('cuda:1')": lambda: WEIGHT.to("cuda:1").device == torch.device("npu:1"),
    "Tensor.to(device)": lambda: on_npu(WEIGHT.to(torch.device("cuda"))),
    "Tensor.to(device=)": lambda: on_npu(WEIGHT.to(device="cuda")),
    "Tensor.is_cuda": lambda: WEIGHT.cuda().is_cuda and not WEIGHT.is_cuda,
    "Tensor.pin_memory": lambda: WEIGHT.pin_memory().is_pinned(),
    "new_ones": lambda: on_npu(WEIGHT.new_ones(2, device="cuda")),
    "new_zeros": lambda: on_npu(WEIGHT.new_zeros(2, device="cuda")),
    "new_full": lambda: on_npu(WEIGHT.new_full((2,), 3.0, device="cuda")),
    "new_empty": lambda: on_npu(WEIGHT.new_empty(2, device="cuda")),
    "new_tensor": lambda: on_npu(WEIGHT.new_tensor([1.0], device="cuda")),
    "Module.cuda": lambda: on_npu(torch.nn.Linear(2, 2).cuda().weight),
    "Module.to": lambda: on_npu(torch.nn.Linear(2, 2).to("cuda").weight),
    "Module.to_empty": lambda: on_npu(torch.nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight),
    "Linear(device=)": lambda: on_npu(torch.nn.Linear(2, 2, device="cuda").weight),
    "torch.cuda.is_available": lambda: torch.cuda.is_available(),
    "torch.cuda.device_count": lambda: torch.cuda.device_count() == torch.npu.device_count(),
    "torch.cuda.current_device": lambda: torch.cuda.current_device() == 0,
    "torch.cuda.get_device_name": lambda: torch.cuda.get_device_name(0).startswith("Ascend"),
    "torch.cuda.memory_allocated": lambda: torch.cuda.memory_allocated() == torch.npu.memory_allocated(),
    "torch.cuda.max_memory_allocated": lambda: torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated(),
    "torch.cuda.memory_reserved": lambda: torch.cuda.memory_reserved() == torch.npu.memory_reserved(),
    "torch.cuda.empty_cache": lambda: torch.cuda.empty_cache() is None,
    "torch.cuda.synchronize": lambda: torch.cuda.synchronize() is None,
    "torch.cuda.manual_seed": lambda: torch.cuda.manual_seed(3) is None and torch.npu.initial_seed() == 3,
    "torch.cuda.manual_seed_all": lambda: torch.cuda.manual_seed_all(4) is None and torch.npu.initial_seed() == 4,
    "torch.cuda.set_device": lambda: torch.cuda.set_device(0) is None,
    "torch.cuda.Stream": lambda: in_stream(torch.cuda.Stream()),
    "torch.cuda.current_stream": lambda: torch.cuda.current_stream() == torch.npu.current_stream(),
    "torch.cuda.Event": lambda: timed(),
    "torch.cuda.amp.autocast": lambda: autocast_dtype(torch.cuda.amp.autocast()) == torch.float16,
    "torch.autocast('cuda')": lambda: autocast_dtype(torch.autocast("cuda")) == torch.float16,
    "torch.autocast(device_type='cuda')": lambda: (
        autocast_dtype(torch.autocast(device_type="cuda", dtype=torch.bfloat16)) == torch.bfloat16
    ),
    "torch.cuda.amp.GradScaler": lambda: scaled(torch.cuda.amp.GradScaler()),
    "torch.Generator('cuda')": lambda: on_npu(torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(1))),
    "torch.cuda.FloatTensor": lambda: torch.cuda.FloatTensor is torch.npu.FloatTensor,
    "torch.cuda.CUDAGraph": lambda: torch.cuda.CUDAGraph is torch.npu.NPUGraph,
    "torch.load": lambda: loaded(),
    "DataLoader(pin_memory)": lambda: next(iter(torch.utils.data.DataLoader([WEIGHT], pin_memory=True))).is_pinned(),
    "set_default_device": lambda: with_default(),
    "profiler activity": lambda: torch.profiler.ProfilerActivity.CUDA is not None,
    "is_nccl_available": lambda: torch.distributed.is_nccl_available(),
    "fork_rng": lambda: forked(),
    "training": lambda: trained(),
}
FACTORIES = ("empty", "ones", "zeros", "rand", "randn")
SCRIPTS |= {f"torch.{name}": (lambda name=name: on_npu(getattr(torch, name)(2, 3, device="cuda"))) for name in FACTORIES}
SCRIPTS |= {f"torch.{name}_like": (lambda name=name: on_npu(getattr(torch, f"{name}_like")(WEIGHT, device="cuda"))) for name in FACTORIES}
SCRIPTS |= {
    "torch.full": lambda: on_npu(torch.full((2,), 1.0, device="cuda")),
    "torch.arange": lambda: on_npu(torch.arange(3, device="cuda")),
    "torch.linspace": lambda: on_npu(torch.linspace(0, 1, 3, device="cuda")),
    "torch.logspace": lambda: on_npu(torch.logspace(0, 1, 3, device="cuda")),
    "torch.eye": lambda: on_npu(torch.eye(3, device="cuda")),
    "torch.randint": lambda: on_npu(torch.randint(0, 3, (2,), device="cuda")),
    "torch.randperm": lambda: on_npu(torch.randperm(3, device="cuda")),
    "torch.tensor": lambda: on_npu(torch.tensor([1.0], device="cuda")),
    "torch.as_tensor": lambda: on_npu(torch.as_tensor([1.0], device="cuda")),
    "torch.tril_indices": lambda: on_npu(torch.tril_indices(3, 3, device="cuda")),
    "torch.empty_strided": lambda: on_npu(torch.empty_strided((2,), (1,), device="cuda")),
}


def in_stream(stream):
    with torch.cuda.stream(stream):
        x = WEIGHT.cuda() * 2
    stream.synchronize()
    return torch.equal(x.cpu(), WEIGHT * 2)


def timed():
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    WEIGHT.cuda().sum()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) >= 0


def autocast_dtype(context):
    with context:
        return (WEIGHT.cuda() @ WEIGHT.cuda().t()).dtype


def scaled(scaler):
    return on_npu(scaler.scale(torch.ones(1).cuda())) and scaler.get_scale() == 65536


def loaded():
    import io

    file = io.BytesIO()
    torch.save(WEIGHT, file)
    file.seek(0)
    return on_npu(torch.load(file, map_location="cuda:0"))


def with_default():
    torch.set_default_device("cuda")
    try:
        return on_npu(torch.ones(2))
    finally:
        torch.set_default_device("cpu")


def forked():
    with torch.random.fork_rng(devices=[0]):
        torch.cuda.manual_seed(1)
    return True


def trained():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(3, 2).to(device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(model(WEIGHT.to(device)), torch.zeros(2, 2).cuda())
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return on_npu(model.weight) and losses[2] < losses[1] < losses[0]


@each(SCRIPTS)
def check_scripts_for_cuda(script):
    torch.cuda.set_device(0)
    assert script()
