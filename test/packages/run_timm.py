"""timm: a residual network and a vision transformer, their answers and a training step with timm's optimiser and loss, against the CPU."""

from importlib.metadata import version

import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2

pictures = torch.randn(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
labels = torch.tensor([0, 1, 2, 3])
NETWORKS = {"resnet10t": {}, "vit_tiny_patch16_224": {"img_size": 64, "depth": 2}}


def step(name, place):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **NETWORKS[name]).to(place)
    answers = model.eval()(pictures.to(place)).detach()
    optimizer = create_optimizer_v2(model, opt="sgd", lr=0.1, momentum=0.9)
    model.train()
    losses = []
    for _ in range(2):
        loss = LabelSmoothingCrossEntropy(0.1)(model(pictures.to(place)), labels.to(place))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.cat([answers.flatten().cpu(), torch.stack(losses).cpu()])


for name in NETWORKS:
    torch.testing.assert_close(step(name, "npu"), step(name, "cpu"), rtol=1e-3, atol=1e-3)
print(f"ok: timm {version('timm')}: {' and '.join(NETWORKS)}: answers and the losses of two steps as on the CPU")
