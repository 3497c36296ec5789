"""Training on several ranks must equal training in one process. Runs in the ranks."""

import contextlib
import copy
import functools

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

# Functions of this file that need no argument, for any number of ranks.
CASES = [
    "ddp_options",
    "ddp_unused",
    "ddp_no_sync",
    "ddp_comm_hook",
    "ddp_join",
    "compiled",
    "ddp_amp",
    "fsdp2_amp",
    "zero_optimizer",
    "sync_batch_norm",
    "fsdp1",
    "dtensor",
    "tensor_parallel",
    "pipelining",
]


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, x):
        return self.layers(x)

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 16, generator=generator), torch.randn(n, 8, generator=generator)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, padding=1, stride=2)
        self.out = nn.Linear(8 * 4 * 4, 8)

    def forward(self, x):
        return self.out(F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1))

    @staticmethod
    def batch(n, generator):
        return torch.randn(n, 1, 8, 8, generator=generator), torch.randn(n, 8, generator=generator)


class TinyGPT(nn.Module):
    """One block: embeddings, causal attention written out, MLP."""

    def __init__(self, width=16, words=20, length=6):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Parameter(torch.randn(length, width) * 0.1)
        self.qkv, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.head = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Linear(width, words)
        self.register_buffer("mask", torch.triu(torch.full((length, length), -1e4), 1))

    def forward(self, tokens):
        x = self.word(tokens) + self.place
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + self.mask, -1)
        x = x + self.mix(weights @ v)
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x)

    @staticmethod
    def batch(n, generator):
        return torch.randint(0, 20, (n, 6), generator=generator), torch.randn(n, 6, 20, generator=generator)


MODELS = {"mlp": MLP, "cnn": CNN, "gpt": TinyGPT}
STEPS = 3
PER_RANK = 4
SGD = functools.partial(torch.optim.SGD, lr=0.1)


def build(name):
    torch.manual_seed(7)
    return MODELS[name]()


def batches(name):
    """Global batches on the host; a rank takes its part."""
    generator = torch.Generator().manual_seed(5)
    return [MODELS[name].batch(PER_RANK * dist.get_world_size(), generator) for _ in range(STEPS)]


def part(tensor):
    return tensor.chunk(dist.get_world_size())[dist.get_rank()].npu()


def train(model, name, optimizer=None, share=part, forward=contextlib.nullcontext):
    """`share`: what this rank takes of a batch; `forward`: the context of forward passes."""
    optimizer = optimizer or SGD(model.parameters())
    for x, y in batches(name):
        optimizer.zero_grad()
        with forward():
            loss = F.mse_loss(model(share(x)), share(y))
        loss.backward()
        optimizer.step()
    return model


def train_alone(name, optimizer=SGD):
    """In this process, on the CPU, with whole batches: what the ranks together must come to."""
    model = build(name)
    return train(model, name, optimizer(model.parameters()), share=lambda batch: batch)


def train_alone_in_half(name):
    """On the npu: mixed precision differs between devices by more than a lost gradient would."""
    return train(build(name).npu(), name, share=lambda batch: batch.npu(), forward=half)


def same(state, expected, tolerance=1e-5):
    for key, value in expected.items():
        torch.testing.assert_close(state[key].cpu(), value.cpu(), rtol=tolerance, atol=tolerance, msg=lambda m: f"{key}: {m}")


def device():
    return torch.npu.current_device()


def ddp(name, **options):
    model = DistributedDataParallel(build(name).npu(), device_ids=[device()], **options)
    train(model, name)
    same(model.module.state_dict(), train_alone(name).state_dict())


def ddp_options():
    for options in (
        {"bucket_cap_mb": 0.001},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True},
    ):
        ddp("mlp", **options)


def ddp_unused():
    """A layer that only some ranks use: its gradient is the mean over all of them."""

    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.always, self.sometimes = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, rank):
            return self.always(x) + (self.sometimes(x) if rank == 0 else 0)

    model = DistributedDataParallel(Sometimes().npu(), device_ids=[device()], find_unused_parameters=True)
    x = torch.ones(2, 4)
    model(x.npu(), dist.get_rank()).square().mean().backward()
    alone, ranks = Sometimes(), dist.get_world_size()
    (sum(alone(x, rank).square().mean() for rank in range(ranks)) / ranks).backward()
    for a, b in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-6)


def ddp_no_sync():
    """Two half batches, accumulated, are one batch."""
    name = "mlp"
    model = DistributedDataParallel(build(name).npu(), device_ids=[device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(name):
        optimizer.zero_grad()
        xs, ys = part(x).chunk(2), part(y).chunk(2)
        with model.no_sync():
            (F.mse_loss(model(xs[0]), ys[0]) / 2).backward()
        (F.mse_loss(model(xs[1]), ys[1]) / 2).backward()
        optimizer.step()
    same(model.module.state_dict(), train_alone(name).state_dict())


def ddp_comm_hook():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):
        model = DistributedDataParallel(build("mlp").npu(), device_ids=[device()])
        model.register_comm_hook(None, hook)
        train(model, "mlp")
        tolerance = 1e-5 if hook is default_hooks.allreduce_hook else 3e-4
        same(model.module.state_dict(), train_alone("mlp").state_dict(), tolerance)


def ddp_join():
    """Ranks with different numbers of batches end together: one that has none left counts with gradients of zero."""

    def batch(rank, step):
        return torch.randn(4, 16, generator=torch.Generator().manual_seed(100 * rank + step))

    ranks, rank = dist.get_world_size(), dist.get_rank()
    model = DistributedDataParallel(build("mlp").npu(), device_ids=[device()])
    optimizer = SGD(model.parameters())
    with model.join():
        for step in range(2 + rank):
            optimizer.zero_grad()
            model(batch(rank, step).npu()).square().mean().backward()
            optimizer.step()
    alone = build("mlp")
    optimizer = SGD(alone.parameters())
    for step in range(2 + ranks - 1):
        optimizer.zero_grad()
        (sum(alone(batch(i, step)).square().mean() for i in range(ranks) if step < 2 + i) / ranks).backward()
        optimizer.step()
    same(model.module.state_dict(), alone.state_dict())


def half():
    return torch.autocast("npu", dtype=torch.bfloat16)


def ddp_amp():
    for name in MODELS:
        model = DistributedDataParallel(build(name).npu(), device_ids=[device()])
        train(model, name, forward=half)
        same(model.module.state_dict(), train_alone_in_half(name).state_dict(), 3e-4)


def fsdp2_amp():
    for name in MODELS:
        same(sharded(name, forward=half), train_alone_in_half(name).state_dict(), 3e-4)


def zero_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(build("mlp").npu(), device_ids=[device()])
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, "mlp", optimizer)
    expected = train_alone("mlp", functools.partial(torch.optim.Adam, lr=0.01))
    same(model.module.state_dict(), expected.state_dict())


def sync_batch_norm():
    torch.manual_seed(3)
    alone = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).npu()
    model = DistributedDataParallel(model, device_ids=[device()])
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4 * dist.get_world_size(), 2, 6, 6, generator=generator)
    alone(x).square().mean().backward()
    model(part(x)).square().mean().backward()
    same(model.module.state_dict(), alone.state_dict())
    for a, b in zip(model.module.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-5)


def sharded(name, forward=contextlib.nullcontext):
    """Trains with FSDP2; the state of the whole model."""
    from torch.distributed.fsdp import fully_shard

    model = build(name).npu()
    for child in model.children():
        fully_shard(child)
    fully_shard(model)
    train(model, name, forward=forward)
    return {key: getattr(value, "full_tensor", lambda v=value: v)() for key, value in model.state_dict().items()}


def compiled():
    """torch.compile inside of DDP, around it, and of a sharded model: captured graphs between the collectives."""
    from torch.distributed.fsdp import fully_shard

    expected = train_alone("gpt").state_dict()
    counters = torch._dynamo.utils.counters
    for wrap in (lambda m: DistributedDataParallel(torch.compile(m)), lambda m: torch.compile(DistributedDataParallel(m)),
                 lambda m: torch.compile(fully_shard(m))):
        torch._dynamo.reset()
        counters.clear()
        model = build("gpt").npu()
        train(wrap(model), "gpt")
        same({key: getattr(value, "full_tensor", lambda v=value: v)() for key, value in model.state_dict().items()}, expected)
        assert counters["npu"]["graphs"] > 0, wrap


def fsdp2(name):
    same(sharded(name), train_alone(name).state_dict())


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(build("mlp"), device_id=device(), use_orig_params=True)
    train(model, "mlp")
    with FullyShardedDataParallel.summon_full_params(model):
        same(model.module.state_dict(), train_alone("mlp").state_dict())


def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    torch.manual_seed(0)
    a, b = torch.randn(8, 12), torch.randn(12, 16)
    left, right = distribute_tensor(a.npu(), mesh, [Replicate()]), distribute_tensor(b.npu(), mesh, [Shard(1)])
    product = left @ right
    torch.testing.assert_close(product.full_tensor().cpu(), a @ b, rtol=1e-5, atol=1e-5)
    moved = product.redistribute(mesh, [Shard(0)])
    torch.testing.assert_close(moved.full_tensor().cpu(), a @ b, rtol=1e-5, atol=1e-5)


def tensor_parallel():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    torch.manual_seed(2)
    alone = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    model = parallelize_module(copy.deepcopy(alone).npu(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    expected = alone(x)
    expected.sum().backward()
    result = model(x.npu())
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-5, atol=1e-5)
    for part, whole in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(part.grad.full_tensor().cpu(), whole.grad, rtol=1e-5, atol=1e-5)


def pipelining():
    """A stage for each rank, four micro-batches; loss and gradients are those of the whole model."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    ranks, rank = dist.get_world_size(), dist.get_rank()
    torch.manual_seed(4)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(ranks)]
    whole = nn.Sequential(*copy.deepcopy(layers))
    x = torch.randn(8, 8, generator=torch.Generator().manual_seed(6))
    target = torch.randn(8, 8, generator=torch.Generator().manual_seed(8))
    stage = PipelineStage(layers[rank].npu(), rank, ranks, torch.device("npu", device()))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=F.mse_loss)
    losses = []
    if rank == 0:
        schedule.step(x.npu())
    elif rank == ranks - 1:
        schedule.step(target=target.npu(), losses=losses)
    else:
        schedule.step()
    loss = F.mse_loss(whole(x), target)
    loss.backward()
    if rank == ranks - 1:
        torch.testing.assert_close(torch.stack(losses).mean().cpu(), loss.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(layers[rank][0].weight.grad.cpu(), whole[rank][0].weight.grad, rtol=1e-4, atol=1e-5)


def save_checkpoint(folder):
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard

    model = build("mlp").npu()
    fully_shard(model)
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder)
    return None


def load_checkpoint(folder):
    """With another number of ranks than it was saved with."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(99)
    model = MLP().npu()
    fully_shard(model)
    state = {"model": model.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    full = {key: value.full_tensor() for key, value in state["model"].items()}
    same(full, build("mlp").state_dict())
