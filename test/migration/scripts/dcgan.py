"""A generator and a discriminator that train each other."""

import argparse
import random

import torch
import torch.nn as nn
import torch.optim as optim
import torch.utils.data

parser = argparse.ArgumentParser()
parser.add_argument("--niter", type=int, default=1)
parser.add_argument("--cuda", action="store_true", default=True)
parser.add_argument("--nz", type=int, default=16)
opt = parser.parse_args()

random.seed(3)
torch.manual_seed(3)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(3)
    torch.backends.cudnn.benchmark = True
device = torch.device("cuda:0" if opt.cuda and torch.cuda.is_available() else "cpu")

images = torch.rand(64, 1, 16, 16) * 2 - 1
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images), batch_size=16, shuffle=False, pin_memory=True)


def weights_init(module):
    name = module.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(opt.nz, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
            nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(32, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, image):
        return self.main(image).view(-1, 1).squeeze(1)


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
netG, netD = netG.to(device), netD.to(device)
criterion = nn.BCELoss()
fixed_noise = torch.randn(4, opt.nz, 1, 1).to(device)
optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for epoch in range(opt.niter):
    for i, (real,) in enumerate(loader):
        netD.zero_grad()
        real = real.to(device, non_blocking=True)
        label = torch.full((real.size(0),), 1.0, dtype=real.dtype, device=device)
        errD_real = criterion(netD(real), label)
        errD_real.backward()
        noise = torch.randn(real.size(0), opt.nz, 1, 1).to(device)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()), label)
        errD_fake.backward()
        optimizerD.step()

        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake), label)
        errG.backward()
        optimizerG.step()
        print(f"epoch {epoch} step {i} loss_D {(errD_real + errD_fake).item():.6f} loss_G {errG.item():.6f}")
netG(fixed_noise).detach().cpu()
