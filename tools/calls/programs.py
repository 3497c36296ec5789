"""Programs whose calls are recorded, run with whatever torch_npu this python has: operators of torch's OpInfo database and training steps.

Usage: python programs.py FIRST NAME...: from number FIRST on. record.py does it, once for each client. A name is op:NAME:TYPE or
model:NAME[:amp]. Every part of a program stands between two marks of the recording, "B program|sample|phase" and "E ok" or "E <error>".
"""

import ctypes
import os
import sys
import warnings
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map

import torch_npu  # noqa: F401

SAMPLES = int(os.environ.get("CALLS_SAMPLES", "4"))
MODELS = ("mlp", "cnn", "gpt", "llama", "vit", "mlp:amp", "cnn:amp", "gpt:amp", "llama:amp", "vit:amp")
DEVICE = ctypes.CDLL("libsoftnpu.so")


def text(message):
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else " " for c in message)[:300].encode()


@contextmanager
def region(name, failures):
    """An error ends the region, not the program: it is in the recording and in `failures`."""
    torch.npu.synchronize()
    DEVICE.softnpu_record(text(f"B {name}"))
    end = "ok"
    try:
        yield
        torch.npu.synchronize()
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
        failures.append(name)
    DEVICE.softnpu_record(text(f"E {end}"))
    DEVICE.softnpu_record(None)


def healthy():
    try:
        return (torch.ones(3).npu() + 1).sum().item() == 6
    except Exception:
        return False


def to_npu(x):
    if isinstance(x, torch.Tensor):
        return x.detach().npu().requires_grad_(x.requires_grad) if x.layout == torch.strided else x
    if isinstance(x, (str, torch.device)) and str(x) == "cpu":
        return type(x)("npu")
    return x


def run_operator(name, dtype):
    from torch.testing._internal.common_methods_invocations import op_db

    op = next(o for o in op_db if f"{o.name}.{o.variant_test_name}".rstrip(".") == name)
    dtype = getattr(torch, dtype)
    grad = op.supports_autograd and dtype.is_floating_point
    torch.manual_seed(1)
    samples = [sample for _, sample in zip(range(40), op.sample_inputs("cpu", dtype, requires_grad=grad))]
    for i in range(0, len(samples), max(1, len(samples) // SAMPLES))[:SAMPLES]:
        failures = []
        label = f"op:{name}:{str(dtype).removeprefix('torch.')}|{i}"
        sample = samples[i]
        try:
            arguments = tree_map(to_npu, (sample.input, sample.args, sample.kwargs))
        except Exception:  # a tensor that cannot be on the card
            continue
        torch.manual_seed(7)
        with region(f"{label}|forward", failures):
            result = op(arguments[0], *arguments[1], **arguments[2])
        if not failures and grad:
            outputs = [o for o in tree_flatten(result)[0] if isinstance(o, torch.Tensor) and o.requires_grad]
            leaves = [x for x in tree_flatten(arguments)[0] if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf]
            if outputs and leaves:
                ones = [torch.ones(o.shape, dtype=o.dtype).npu() for o in outputs]
                with region(f"{label}|backward", failures):
                    torch.autograd.grad(outputs, leaves, ones, allow_unused=True)
        if failures and not healthy():
            return False
    return True


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, causal

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(c, 2))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.blocks = nn.Sequential(Block(32, 4, True), Block(32, 4, True))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 50, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in ((width, 64), (width, 64), (64, width)))

    def rotate(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        y = self.norm1(x)
        q = self.rotate(self.q(y).view(b, t, self.heads, -1).transpose(1, 2), cos, sin)
        k, v = (z.view(b, t, self.groups, -1).transpose(1, 2) for z in self.kv(y).chunk(2, -1))
        k = self.rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, -1))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList([LlamaBlock(32, 4, 2), LlamaBlock(32, 4, 2)])
        self.norm, self.head = nn.RMSNorm(32, 1e-5), nn.Linear(32, 50, bias=False)

    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), 1e4 ** -(torch.arange(0, 8, 2, device=ids.device) / 8))
        angles = torch.cat([angles, angles], -1)
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        return self.head(self.norm(x)).flatten(0, 1)


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.zeros(1, 1, 32))
        self.places = nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        self.blocks = nn.Sequential(Block(32, 4, False), Block(32, 4, False))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


def network(name):
    """Network, input, target, optimiser."""
    ids, images = torch.randint(0, 50, (2, 16)), torch.randn(4, 3, 16, 16)
    next_ids, classes = torch.randint(0, 50, (32,)), torch.randint(0, 10, (4,))
    if name == "mlp":
        net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))
        return net, torch.randn(4, 16), classes, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)
    if name == "cnn":
        net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
                            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
        return net, images, classes, lambda p: torch.optim.Adam(p, lr=1e-3)
    if name == "gpt":
        return GPT(), ids, next_ids, lambda p: torch.optim.AdamW(p, lr=1e-3)
    if name == "llama":
        return Llama(), ids, next_ids, lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True)
    return ViT(), images, classes, lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True)


def run_model(name, amp):
    torch.manual_seed(3)
    net, x, target, optimiser = network(name)
    net, x, target = net.npu(), x.npu(), target.npu()
    optimiser = optimiser(net.parameters())
    scaler = torch.amp.GradScaler("npu", enabled=amp)
    failures, loss = [], None
    for step in range(2):
        label = f"model:{name}{':amp' if amp else ''}|{step}"
        with region(f"{label}|forward", failures), torch.autocast("npu", torch.float16, enabled=amp):
            loss = F.cross_entropy(net(x), target)
        with region(f"{label}|backward", failures):
            scaler.scale(loss).backward()
        with region(f"{label}|clip", failures):
            scaler.unscale_(optimiser)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with region(f"{label}|optimiser", failures):
            scaler.step(optimiser)
            scaler.update()
            optimiser.zero_grad()
        with region(f"{label}|item", failures):
            loss.item()
        if failures:
            return healthy()
    return True


def main():
    warnings.filterwarnings("ignore")
    first, *names = sys.argv[1:]
    torch.npu.init()
    for number in range(int(first), len(names)):
        print(number, flush=True)
        kind, name, *rest = names[number].split(":")
        if not (run_operator(name, rest[0]) if kind == "op" else run_model(name, "amp" in rest)):
            os._exit(3)
    print(len(names), flush=True)
    os._exit(0)  # without what ends the card, which a refused call may have left in any state


if __name__ == "__main__":
    main()
