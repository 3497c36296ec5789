"""Small networks with what a training step needs: of the kit's training checks, and of tools/calls, which opens this file with any client.

Needs torch alone.
"""

import torch
import torch.nn.functional as F
from torch import nn

NAMES = ("mlp", "cnn", "gpt", "llama", "vit")


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
