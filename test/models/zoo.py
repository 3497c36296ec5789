"""Networks in plain torch. Small, but with the operators of their full-size relatives; dropout is off, noise comes with the batch."""

import torch
from network import Network
from torch import nn
from torch.nn import functional as F


def images(channels=3, size=32, batch=8, classes=10):
    return lambda g: (torch.randn(batch, channels, size, size, generator=g), torch.randint(classes, (batch,), generator=g))


def classify(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.LayerNorm(128), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 49, 10))


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                  nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x))


def resnet18(width=16):
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    layers = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    for i in range(4):
        layers += [Block(widths[i], widths[i + 1], 1 if i == 0 else 2), Block(widths[i + 1], widths[i + 1], 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()

        def double(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.SiLU())

        self.down1, self.down2, self.middle = double(1, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.right2, self.right1 = double(4 * width, 2 * width), double(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.avg_pool2d(b, 2))
        b = self.right2(torch.cat([self.up2(c), b], 1))
        return self.out(self.right1(torch.cat([self.up1(b), a], 1)))


class DCGAN(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(16, 4 * width, 4), nn.BatchNorm2d(4 * width), nn.ReLU(),
            nn.ConvTranspose2d(4 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Tanh())
        self.discriminator = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(width, 4 * width, 4, 2, 1), nn.BatchNorm2d(4 * width),
            nn.LeakyReLU(0.2), nn.Conv2d(4 * width, 1, 4), nn.Flatten())


def real_or_not(logits, real):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(real)))


def discriminator_loss(m, batch):
    fake = m.generator(batch[1]).detach()
    return real_or_not(m.discriminator(batch[0]), True) + real_or_not(m.discriminator(fake), False)


def generator_loss(m, batch):
    return real_or_not(m.discriminator(m.generator(batch[1])), True)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(64, 2 * 8), nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 64))

    def forward(self, x, noise):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + noise * (0.5 * log_variance).exp()), mean, log_variance


def vae_loss(model, batch):
    x, noise = batch
    rebuilt, mean, log_variance = model(x, noise)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1).mean()
    return F.mse_loss(rebuilt, x, reduction="sum") / x.shape[0] + divergence


class LanguageModel(nn.Module):
    """An embedding, something that maps [batch, length, width] to the same, and a head."""

    def __init__(self, body, words=50, width=32):
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(words, width), body, nn.Linear(width, words)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        if isinstance(self.body, nn.LSTM):
            return self.head(self.body(hidden)[0])
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.head(self.body(hidden, mask=causal, is_causal=True))


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def tokens(g):
    return (torch.randint(50, (8, 17), generator=g),)


def next_token(model, batch):
    text = batch[0]
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


class GraphNet(nn.Module):
    """Messages along edges, summed at their targets."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.head = nn.Linear(16, 4)

    def forward(self, x, edges):
        degree = torch.zeros(x.shape[0], 1, device=x.device).index_add(0, edges[1], torch.ones(edges.shape[1], 1, device=x.device))
        for layer in self.layers:
            messages = torch.zeros_like(x).scatter_add(0, edges[1].unsqueeze(1).expand(-1, x.shape[1]), x[edges[0]])
            x = F.relu(layer(x + messages / degree.clamp(min=1)))
        return self.head(x)


def graph(g):
    return torch.randn(40, 16, generator=g), torch.randint(40, (2, 160), generator=g), torch.randint(4, (40,), generator=g)


class Recommender(nn.Module):
    """Bags of items on one side, one item on the other."""

    def __init__(self):
        super().__init__()
        self.bag, self.item = nn.EmbeddingBag(100, 16, mode="mean"), nn.Embedding(100, 16)
        self.top = nn.Sequential(nn.Linear(33, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, history, offsets, item):
        user, target = self.bag(history, offsets), self.item(item)
        return self.top(torch.cat([user, target, (user * target).sum(-1, keepdim=True)], -1)).squeeze(-1)


def visits(g):
    return (torch.randint(100, (64,), generator=g), torch.arange(0, 64, 4), torch.randint(100, (16,), generator=g),
            torch.randint(2, (16,), generator=g).float())


NETWORKS = [
    Network("mlp", mlp, lambda g: (torch.randn(32, 64, generator=g), torch.randint(10, (32,), generator=g)), classify),
    Network("cnn", cnn, images(1, 28, 16), classify),
    Network("resnet18", resnet18, images(), classify, torch.optim.SGD, 0.01),
    Network("unet", UNet, lambda g: (torch.randn(2, 1, 32, 32, generator=g), torch.rand(2, 1, 32, 32, generator=g).round()),
            lambda m, b: F.binary_cross_entropy_with_logits(m(b[0]), b[1])),
    Network("dcgan", DCGAN, lambda g: (torch.rand(8, 1, 16, 16, generator=g) * 2 - 1, torch.randn(8, 16, 1, 1, generator=g)),
            {"discriminator": discriminator_loss, "generator": generator_loss}, torch.optim.Adam, 2e-4),
    Network("vae", VAE, lambda g: (torch.randn(16, 64, generator=g), torch.randn(16, 8, generator=g)), vae_loss),
    Network("lstm_lm", lambda: LanguageModel(nn.LSTM(32, 32, 2, batch_first=True)), tokens, next_token),
    Network("transformer_encoder", lambda: LanguageModel(encoder()), tokens, next_token),
    Network("gnn", GraphNet, graph, lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])),
    Network("recommender", Recommender, visits, lambda m, b: F.binary_cross_entropy_with_logits(m(*b[:3]), b[3]), torch.optim.Adagrad,
            0.05),
]
