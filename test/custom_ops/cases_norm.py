"""Gradients of normalisations as operators of their own, by torch's differentiation of the plain definition."""

import torch
from cases import Case, grads, rand
from torch.nn import functional as F

X, G, DY, W, B = rand(4, 6, 8), rand(4, 6, 8, seed=2), rand(4, 6, 8, seed=3), rand(8, seed=1), rand(8, seed=4)
IMAGE, DIMAGE, WEIGHT, BIAS = rand(2, 6, 5), rand(2, 6, 5, seed=3), rand(6), rand(6, seed=1)


def statistics(x, eps):
    return x.mean(-1, keepdim=True), (x.var(-1, correction=0, keepdim=True) + eps).rsqrt()


def group_statistics(x, groups):
    mean = x.reshape(x.shape[0], groups, -1).mean(-1)
    return mean, (x.reshape(x.shape[0], groups, -1).var(-1, correction=0) + 1e-5).rsqrt()


def add_layer_norm_backward(dy, x1, x2, rstd, mean, gamma, dsum):
    dx, dgamma, dbeta = grads(lambda x, w, b: F.layer_norm(x, (8,), w, b), (x1 + x2, gamma, torch.zeros(8)), dy)
    dx = dx if dsum is None else dx + dsum
    return dx, dx, dgamma, dbeta


def swish(x, w, b, scale):
    y = F.group_norm(x, 3, w, b)
    return y * torch.sigmoid(scale * y)


CASES = [
    Case("npu_add_layer_norm_backward", (DY, X, G, *statistics(X + G, 1e-5)[::-1], W, None), add_layer_norm_backward),
    Case("npu_add_layer_norm_backward", (DY, X, G, *statistics(X + G, 1e-5)[::-1], W, G), add_layer_norm_backward, label="sum"),
    Case("npu_deep_norm_backward", (DY, X, G, W, *statistics(0.5 * X + G, 1e-6), 0.5),
         lambda dy, x, g, w, m, r, a: grads(lambda x, g, b, w: F.layer_norm(a * x + g, (8,), w, b, 1e-6), (x, g, torch.zeros(8), w), dy)),
    Case("npu_group_norm_swish_grad", (DIMAGE, IMAGE, 3, WEIGHT, BIAS, *group_statistics(IMAGE, 3), [True] * 3, 2.0),
         lambda dy, x, n, w, b, m, r, mask, s: grads(lambda x, w, b: swish(x, w, b, s), (x, w, b), dy)),
    Case("npu_rms_norm", (rand(3, 4, 5), rand(4, 5, seed=1)), lambda x, w: (
        x * (x.square().mean((1, 2), keepdim=True) + 1e-6).rsqrt() * w, (x.square().mean((1, 2), keepdim=True) + 1e-6).rsqrt()),
        grad=(0, 1), label="two dimensions"),
]
