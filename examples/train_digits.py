"""Trains a small convolutional network to read handwritten digits, on an NPU or, with --device=cpu, on the CPU.

The 1,797 images of 8 x 8 pixels come with scikit-learn, so nothing is downloaded. The lines that make it run on an
NPU are the two with `device`; everything else is ordinary PyTorch.
"""

import argparse
import sys
import time

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REQUIRED_ACCURACY = 0.95


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(64, 10),
        )

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


def load_data(batch_size):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1440], order[1440:]
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size, shuffle=True),
        DataLoader(TensorDataset(images[test], labels[test]), batch_size),
    )


def bar(epoch, done, total, loss):
    return f"epoch {epoch:2d} [{'#' * (30 * done // total):<30}] {done}/{total}  loss {loss:.4f}"


def train_epoch(model, loader, optimizer, device, epoch):
    model.train()
    losses = []
    for done, (images, labels) in enumerate(loader, start=1):
        images, labels = images.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if sys.stdout.isatty():
            print("\r" + bar(epoch, done, len(loader), losses[-1]), end="", flush=True)
    return sum(losses) / len(losses)


@torch.no_grad()
def accuracy(model, loader, device):
    model.eval()
    correct = total = 0
    for images, labels in loader:
        predicted = model(images.to(device)).argmax(dim=1)
        correct += (predicted == labels.to(device)).sum().item()
        total += len(labels)
    return correct / total


def save_curve(losses, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.plot(range(1, len(losses) + 1), losses, marker="o")
    pyplot.xlabel("epoch")
    pyplot.ylabel("training loss")
    pyplot.savefig(path)
    print(f"loss curve: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses", help="file for the loss of each epoch")
    parser.add_argument("--curve", default="train_digits_loss.png", help="loss curve, drawn if matplotlib is there")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    device = torch.device(arguments.device)
    train_loader, test_loader = load_data(arguments.batch_size)
    model = DigitNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    losses = []
    for epoch in range(1, arguments.epochs + 1):
        start = time.perf_counter()
        losses.append(train_epoch(model, train_loader, optimizer, device, epoch))
        seconds = time.perf_counter() - start
        reached = accuracy(model, test_loader, device)
        line = bar(epoch, len(train_loader), len(train_loader), losses[-1])
        start_of_line = "\r" if sys.stdout.isatty() else ""
        print(f"{start_of_line}{line}  test accuracy {reached:.1%}  {seconds:.2f} s")

    save_curve(losses, arguments.curve)
    if arguments.losses:
        with open(arguments.losses, "w") as file:
            file.write("\n".join(map(str, losses)))
    print(f"trained on {next(model.parameters()).device}: test accuracy {reached:.1%}")
    if reached < REQUIRED_ACCURACY:
        sys.exit(f"expected a test accuracy of at least {REQUIRED_ACCURACY:.0%}")


if __name__ == "__main__":
    main()
