"""Trains a ResNet-18 with mixed precision to tell ten drawn shapes apart, and writes a checkpoint that infer.py reads.

The pictures are drawn as needed, so nothing is downloaded. `--resume` continues from the checkpoint, bit by bit.
"""

import argparse
import math
import os

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = ["circle", "square", "triangle", "ring", "cross", "bar", "column", "diamond", "stripes", "checks"]
SIZE = 32


def draw(labels, generator):
    """Pictures [n, 3, 32, 32] of the shapes, somewhere, in some colour, on noise."""
    n = len(labels)
    axis = torch.linspace(-1, 1, SIZE)
    centre = torch.rand(n, 2, 1, 1, generator=generator) * 0.6 - 0.3
    scale = torch.rand(n, 1, 1, generator=generator) * 0.3 + 0.4
    y, x = (axis.view(1, -1, 1) - centre[:, 0]) / scale, (axis.view(1, 1, -1) - centre[:, 1]) / scale
    y, x = y.expand(n, SIZE, SIZE), x.expand(n, SIZE, SIZE)
    radius, inside = (x * x + y * y).sqrt(), (x.abs() < 1) & (y.abs() < 1)
    shapes = torch.stack([
        radius < 1, inside, inside & (y > 2 * x.abs() - 1), (radius < 1) & (radius > 0.55),
        inside & ((x.abs() < 0.3) | (y.abs() < 0.3)), inside & (y.abs() < 0.3), inside & (x.abs() < 0.3), x.abs() + y.abs() < 1,
        inside & ((y * 5).floor() % 2 == 0), inside & (((y * 3).floor() + (x * 3).floor()) % 2 == 0),
    ], 1)
    mask = shapes[torch.arange(n), labels].float().unsqueeze(1)
    colour = torch.rand(n, 3, 1, 1, generator=generator) * 0.5 + 0.5
    return mask * colour + torch.randn(n, 3, SIZE, SIZE, generator=generator) * 0.1


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width=16, classes=10):
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        blocks = [Block(widths[i // 2 + i % 2], widths[i // 2 + 1], 2 if i in (2, 4, 6) else 1) for i in range(8)]
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(8 * width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def save(path, state):
    """All or nothing: a full disk leaves the old file."""
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--amp", choices=["float16", "bfloat16", "off"], default="float16")
    parser.add_argument("--checkpoint", default="resnet18.pt")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--losses", help="file for the loss of each step")
    options = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device(options.device)
    model = ResNet18().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / options.steps)))
    scaler = torch.amp.GradScaler(device.type, enabled=options.amp == "float16")
    data = torch.Generator().manual_seed(1)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "scaler": scaler}
    first = 0
    if options.resume:
        state = torch.load(options.checkpoint, map_location="cpu")
        for name, part in parts.items():
            part.load_state_dict(state[name])
        data.set_state(state["data"])
        first = state["step"]
    losses = []
    for step in range(first, options.steps):
        labels = torch.randint(len(CLASSES), (options.batch_size,), generator=data)
        images, labels = draw(labels, data).to(device), labels.to(device)
        dtype = torch.bfloat16 if options.amp == "bfloat16" else torch.float16
        with torch.autocast(device.type, dtype=dtype, enabled=options.amp != "off"):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4d}  loss {sum(losses[-20:]) / len(losses[-20:]):.4f}  scale {scaler.get_scale():g}", flush=True)
    save(options.checkpoint, {name: part.state_dict() for name, part in parts.items()} | {"data": data.get_state(), "step": options.steps})
    model.eval()
    test = torch.Generator().manual_seed(2)
    labels = torch.randint(len(CLASSES), (200,), generator=test)
    with torch.inference_mode():
        right = (model(draw(labels, test).to(device)).argmax(1).cpu() == labels).float().mean().item()
    print(f"trained on {next(model.parameters()).device}: test accuracy {right:.1%}; checkpoint {options.checkpoint}")
    if options.losses:
        with open(options.losses, "w") as file:
            file.write("\n".join(map(str, losses)))


if __name__ == "__main__":
    main()
