"""Run by ci/official.sh with the official torch_npu wheel on softnpu: mm and three training steps, as on the CPU."""

import copy
import time

import torch
from torch import nn

import torch_npu

STEPS = 3


def check_mm():
    x, y = torch.randn(2, 2), torch.randn(2, 2)
    z = x.npu().mm(y.npu())
    assert z.device.type == "npu"
    torch.testing.assert_close(z.cpu(), x.mm(y))


def train(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check_training():
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    images, labels = torch.randn(64, 16), torch.randint(0, 10, (64,))
    expected = train(copy.deepcopy(model), images, labels)
    got = train(model.npu(), images.npu(), labels.npu())
    torch.testing.assert_close(torch.tensor(got), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    assert got[-1] < got[0]


def main():
    torch.manual_seed(0)
    print(f"official torch_npu {torch_npu.__version__} from {torch_npu.__path__[0]}")
    for check in (check_mm, check_training):
        start = time.perf_counter()
        check()
        print(f"{check.__name__} PASSED in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
