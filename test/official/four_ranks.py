"""Four ranks of the client: every collective, and training."""

import importlib

import torch
from ranks import PLAIN, TYPED, world
from rows import each

IN_MODES = ("queue 1",)


@each(
    {
        f"{name}, {str(dtype).removeprefix('torch.')}": (name, dtype)
        for name in TYPED
        for dtype in (torch.float32, torch.int64, torch.float16)
    }
)
def check_a_collective(row):
    name, dtype = row
    world(4).run(getattr(importlib.import_module("rank_bodies"), name), dtype)


@each(PLAIN)
def check_four_ranks(name):
    world(4).run(getattr(importlib.import_module("rank_bodies"), name))


@each(["ddp", "fsdp2"])
def check_training(name):
    world(4).run(getattr(importlib.import_module("training_cases"), name), "mlp")
