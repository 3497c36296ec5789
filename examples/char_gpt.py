"""Trains a small GPT on characters with mixed precision, then writes text of its own.

Reads any text file (`--text`); without one, a rhyme. Everything is ordinary PyTorch; the device is named once.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

RHYME = """This is the house that Jack built.
This is the malt that lay in the house that Jack built.
This is the rat that ate the malt that lay in the house that Jack built.
This is the cat that killed the rat that ate the malt that lay in the house that Jack built.
This is the dog that worried the cat that killed the rat that ate the malt that lay in the house that Jack built.
""" * 8


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class CharGPT(nn.Module):
    def __init__(self, characters, width=64, heads=4, layers=2, context=48):
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, characters)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.blocks(x))

    @torch.inference_mode()
    def write(self, tokens, count, temperature):
        """Appends `count` tokens: drawn by their probability, or at temperature 0 the likeliest."""
        for _ in range(count):
            logits = self(tokens[:, -self.context :])[:, -1].float()
            best = logits.argmax(-1, keepdim=True) if temperature == 0 else torch.multinomial(torch.softmax(logits / temperature, -1), 1)
            tokens = torch.cat([tokens, best], 1)
        return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    parser.add_argument("--text")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--amp", choices=["float16", "bfloat16", "off"], default="float16")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--losses", help="file for the loss of each step")
    parser.add_argument("--checkpoint", default="char_gpt.pt", help="file for the trained network")
    options = parser.parse_args()

    text = open(options.text).read() if options.text else RHYME
    characters = sorted(set(text))
    data = torch.tensor([characters.index(c) for c in text])
    torch.manual_seed(0)
    device = torch.device(options.device)
    model = CharGPT(len(characters)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler(device.type, enabled=options.amp == "float16")
    picks = torch.Generator().manual_seed(1)
    dtype = torch.bfloat16 if options.amp == "bfloat16" else torch.float16
    losses = []
    for step in range(1, options.steps + 1):
        starts = torch.randint(len(data) - model.context - 1, (16, 1), generator=picks)
        window = data[starts + torch.arange(model.context + 1)].to(device)
        with torch.autocast(device.type, dtype=dtype, enabled=options.amp != "off"):
            loss = F.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        if step % 40 == 0:
            print(f"step {step:4d}  loss {losses[-1]:.4f}", flush=True)
    start = torch.tensor([[characters.index("T" if "T" in characters else characters[0])]], device=device)
    written = model.eval().write(start, 120, options.temperature)[0].tolist()
    print("".join(characters[i] for i in written))
    torch.save({"characters": characters, "model": model.state_dict()}, options.checkpoint)
    if options.losses:
        with open(options.losses, "w") as file:
            file.write("\n".join(map(str, losses)))


if __name__ == "__main__":
    main()
