"""Mixed precision by apex: O1 casts calls, O2 casts the model; static and dynamic loss scale."""

import argparse

import torch
from apex import amp

parser = argparse.ArgumentParser()
parser.add_argument("--opt-level", default="O1")
parser.add_argument("--loss-scale", default=None)
args = parser.parse_args()

torch.backends.cudnn.benchmark = True
torch.manual_seed(0)
x = torch.randn(32, 3, 8, 8).cuda()
y = torch.randint(0, 4, (32,)).cuda()
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
    torch.nn.Flatten(), torch.nn.Linear(8 * 64, 4),
).cuda()  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
loss_scale = args.loss_scale if args.loss_scale in (None, "dynamic") else float(args.loss_scale)
model, optimizer = amp.initialize(model, optimizer, opt_level=args.opt_level, loss_scale=loss_scale)

for step in range(8):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x).float(), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    print(f"{args.opt_level} step {step} loss {loss.item():.4f}")
