"""One profile of two training steps, which several files read."""

import sys
import warnings
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu import profiler

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "ops")]
from counters import Counted  # noqa: E402
from profile_folder import Recorded, make_step, settings  # noqa: E402


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    if not torch.npu.is_available() or not torch_npu.is_softnpu():
        pytest.skip("counts are softnpu's")
    step = make_step()
    step()
    with Counted() as count:
        step()
    folder = tmp_path_factory.mktemp("profile")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handler = profiler.tensorboard_trace_handler(str(folder), worker_name="worker")
        with profiler.profile(schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=handler, record_shapes=True,
                              profile_memory=True, with_stack=True, experimental_config=settings(export_type=["text", "db"])) as profile:
            for _ in range(4):
                step()
                profile.step()
    return Recorded(profile.folder, count)
