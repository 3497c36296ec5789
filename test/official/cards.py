"""Gradients between cards. With its task queues, one for each card, the client may destroy an event before the other queue waits for it."""

import torch

import torch_npu  # noqa: F401

IN_MODES = ("queue 0",)


def check_gradients_cross_cards():
    x = torch.ones(3, device="npu:0").requires_grad_()
    (x.to("npu:1") * torch.arange(3.0, device="npu:1")).sum().backward()
    assert x.grad.device == torch.device("npu:0") and x.grad.tolist() == [0, 1, 2]
