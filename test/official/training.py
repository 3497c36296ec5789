"""Three training steps of small networks: the losses and the parameters are the CPU's."""

import copy
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

import torch_npu  # noqa: F401

STEPS = 3


def train(model, inputs, target, make_optimizer, loss_function, device):
    model = copy.deepcopy(model).to(device)
    inputs, target = inputs.to(device), target.to(device)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_function(model(inputs), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().cpu() for parameter in model.parameters()]


def compare(model, inputs, target, make_optimizer, loss_function=F.cross_entropy):
    runs = {device: train(model, inputs, target, make_optimizer, loss_function, device) for device in ("cpu", "npu")}
    torch.testing.assert_close(runs["npu"], runs["cpu"], rtol=1e-3, atol=1e-4)
    assert runs["npu"][0][-1] < runs["npu"][0][0]


def compare_mlp(make_optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    compare(model, torch.randn(64, 16), torch.randint(0, 10, (64,)), make_optimizer)


def check_mlp_with_sgd():
    compare_mlp(partial(torch.optim.SGD, lr=0.1))
    compare_mlp(partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True))
    compare_mlp(partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False))


def check_mlp_with_adam():
    compare_mlp(partial(torch.optim.Adam, lr=0.01))
    compare_mlp(partial(torch.optim.Adam, lr=0.01, foreach=False))
    compare_mlp(partial(torch.optim.Adam, lr=0.01, amsgrad=True))


def check_mlp_with_adamw():
    compare_mlp(partial(torch.optim.AdamW, lr=0.01))
    compare_mlp(partial(torch.optim.AdamW, lr=0.01, fused=True))


def check_mlp_with_other_optimizers():
    for optimizer in (torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam):
        compare_mlp(partial(optimizer, lr=0.01))


def check_regression_losses():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))
    inputs, target = torch.randn(64, 16), torch.rand(64, 1)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits):
        compare(model, inputs, target, partial(torch.optim.SGD, lr=0.1), loss)


def check_activations_and_norms():
    torch.manual_seed(0)
    inputs, target = torch.randn(64, 16), torch.randint(0, 10, (64,))
    for layer in (nn.Sigmoid(), nn.GELU(), nn.SiLU(), nn.LeakyReLU(), nn.ELU(), nn.Softplus(), nn.Hardswish(), nn.PReLU(), nn.Mish(),
                  nn.LayerNorm(16), nn.GroupNorm(4, 16), nn.RMSNorm(16), nn.BatchNorm1d(16)):
        compare(nn.Sequential(nn.Linear(16, 16), layer, nn.Linear(16, 10)), inputs, target, partial(torch.optim.SGD, lr=0.1))


def check_cnn():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=2),
                          nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    compare(model, torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,)), partial(torch.optim.SGD, lr=0.05))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens)).mean(1))


def check_transformer_encoder():
    torch.manual_seed(0)
    compare(Encoder(), torch.randint(0, 20, (4, 6)), torch.randint(0, 10, (4,)), partial(torch.optim.SGD, lr=0.1))


def check_gradient_scaling():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).npu()
    inputs, target = torch.randn(64, 16, device="npu"), torch.randint(0, 10, (64,), device="npu")
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("npu", init_scale=1024.0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=torch.float16):
            loss = F.cross_entropy(model(inputs), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]
    assert scaler.get_scale() == 1024.0
