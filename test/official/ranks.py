"""Two ranks of the client over softnpu's HCCL: every collective with every type, and the training of test/distributed."""

import atexit
import functools
import importlib
import sys
from pathlib import Path

import torch
from rows import each

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "distributed"))
from world import World, start_hccl  # noqa: E402

IN_MODES = ("queue 1",)
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)
TYPED = (
    "all_reduce",
    "all_reduce_async",
    "all_reduce_coalesced",
    "reduce",
    "reduce_scatter_tensor",
    "reduce_scatter",
    "broadcast",
    "all_gather",
    "all_gather_uneven",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "all_to_all_single",
    "all_to_all_single_uneven",
    "all_to_all",
    "send_and_recv",
    "batch_isend_irecv",
)
PLAIN = (
    "barrier",
    "object_list_is_broadcast",
    "objects_are_gathered",
    "objects_are_scattered",
    "objects_are_sent",
    "subgroup_reduces_alone",
    "a_group_is_named",
    "a_backend_is_hccl",
    "bitwise_reductions_are_refused",
    "tensors_of_the_cpu_go_to_gloo",
    "a_mesh_of_all",
    "functional_collectives",
    "collectives_are_in_the_order_of_their_stream",
    "a_future_of_a_collective",
    "gradients_of_a_gather",
)


# The client refuses to scatter sums of bytes; coalesced, it gives them back before they are summed.
WITHOUT_BYTES = {"reduce_scatter", "reduce_scatter_tensor", "all_reduce_coalesced"}
TABLE = [(name, dtype) for name in TYPED for dtype in DTYPES if not (name in WITHOUT_BYTES and dtype in (torch.uint8, torch.bool))]


@functools.cache
def world(size):
    made = World(size, start_hccl, {"PYTHONPATH": f"{HERE}:{HERE.parent / 'distributed'}"})
    atexit.register(made.close)
    return made


@each({f"{name}, {str(dtype).removeprefix('torch.')}": (name, dtype) for name, dtype in TABLE})
def check_a_collective(row):
    name, dtype = row
    world(2).run(getattr(importlib.import_module("rank_bodies"), name), dtype)


@each(PLAIN)
def check_two_ranks(name):
    world(2).run(getattr(importlib.import_module("rank_bodies"), name))


# test/distributed's own, that need no more than two ranks and the client's public functions.
COLLECTIVES = (
    "coalesced",
    "coalesced_with_transfers",
    "async_work",
    "future_of_a_late_collective",
    "groups_on_two_streams",
    "functional",
    "to_itself",
    "memory_afterwards",
)


@each(COLLECTIVES)
def check_collectives_of_this_projects_tests(name):
    world(2).run(getattr(importlib.import_module("collective_cases"), name))


@each({f"{name} {model}": (name, model) for name in ("ddp", "fsdp2") for model in ("mlp", "cnn", "gpt")})
def check_training_in_two_ranks_is_training_alone(row):
    name, model = row
    world(2).run(getattr(importlib.import_module("training_cases"), name), model)


@each(
    [
        "ddp_options",
        "ddp_unused",
        "ddp_no_sync",
        "ddp_comm_hook",
        "ddp_join",
        "ddp_amp",
        "fsdp2_amp",
        "zero_optimizer",
        "sync_batch_norm",
        "fsdp1",
        "dtensor",
        "tensor_parallel",
        "pipelining",
    ]
)
def check_ways_of_training_in_two_ranks(name):
    world(2).run(getattr(importlib.import_module("training_cases"), name))
