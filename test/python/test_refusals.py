"""What is refused, by the exception and the words, and beside it the nearest call that is not: one row for each `raise` of the package
that no test of its file meets.
"""

import os
import re
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

import torch_npu  # noqa: F401
from torch_npu import contrib, optim
from torch_npu.contrib._transfer import environment
from torch_npu.migrate import edits, project

npu = torch.ops.npu


def card(*shape):
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).npu()


def overlapping(start):
    return edits.apply(b"abcdef", [edits.Edit(0, 3, "x", "", ""), edits.Edit(start, 5, "y", "", "")])


def capability(text):
    with mock.patch.dict(os.environ, {"TORCH_NPU_DEVICE_CAPABILITY": text}):
        return torch.npu.get_device_capability()


def converted(source, final, force=False):
    """Of a source below /sources, where nothing is."""
    output = project.Output(Path(final), Path(source), force)
    output.close()
    return final


def depthwise(kernel):
    tensors = card(1, 2, 3, 3), card(1, 2, 4, 4), card(2, 1, 2, 2)
    grads = npu._conv_depthwise2d_backward(*tensors, kernel, [1, 1], [0, 0], [1, 1], [True, True])
    return [list(t.shape) for t in grads]


def choose(count):
    return list(npu.npu_random_choice_with_mask(torch.tensor([True, False]).npu(), count)[0].shape)


def pooled(*bins):
    return type(contrib.module.PSROIPool(*bins, group_size=3)).__name__


def aligned(kilobytes):
    return npu.empty_with_format([2], dtype=torch.float32, device="npu", acl_format=2, base_addr_aligned_kb=kilobytes).data_ptr() % 1024


def overlaps(*shape):
    return list(npu.npu_rotated_overlaps(card(*shape), card(2, 4, 5)).shape)


def fraction(value):
    before = torch.npu.get_per_process_memory_fraction()
    try:
        torch.npu.set_per_process_memory_fraction(value)
        return torch.npu.get_per_process_memory_fraction()
    finally:
        torch.npu.set_per_process_memory_fraction(before)


def pooling_gradient(*size):
    return list(npu.npu_ps_roi_pooling_backward(card(2, 1, 1, 1), torch.zeros(1, 5, 2).npu(), 1.0, 1, 1, list(size)).shape)


def pipeline(**options):
    from torch.distributed import pipelining as upstream

    with mock.patch.object(upstream, "pipeline", lambda *args: args):
        return torch_npu.distributed.pipelining.pipeline("a module", (1,), {"b": 2}, "spec", "policy", **options)


def pairs(*shape):
    """Boxes, and as many of another shape."""
    return list(contrib.function.npu_bbox_coder_encode_yolo(card(*shape) + 1, card(2, 4) + 2, 3.0).shape)


# function, arguments that are refused, exception, words, arguments that are not, and what they give
ROWS = [
    (contrib.npu_fast_condition_index_put, lambda: (card(2), card(2).int(), 3.0), TypeError, "condition must be bool, not torch.int32",
     lambda: (card(2), torch.tensor([1, 0], dtype=torch.uint8).npu(), 3.0), [3.0, 2.0]),
    (pooled, lambda: (3, 2), ValueError, "pooled_height and pooled_width must equal group_size", lambda: (3, 3), "PSROIPool"),
    (pooled, lambda: (2, 3), ValueError, "pooled_height and pooled_width must equal group_size", lambda: (3, 3), "PSROIPool"),
    (choose, lambda: (0,), ValueError, "count must be positive, got 0", lambda: (1,), [1, 1]),
    (npu.npu_random_choice_with_mask, lambda: (card(2),), TypeError, "must be a bool tensor of 1 to 5 dimensions, got torch.float32 of 1",
     None, None),
    (npu.npu_random_choice_with_mask, lambda: (torch.ones(1, 1, 1, 1, 1, 1, dtype=torch.bool).npu(),), TypeError, "got torch.bool of 6",
     None, None),
    (aligned, lambda: (0,), ValueError, "base_addr_aligned_kb must be positive, got 0", lambda: (1,), 0),
    (depthwise, lambda: ([2, 3],), ValueError, "kernel_size is [2, 3], expected the last two sizes of weight, [2, 1, 2, 2]",
     lambda: ([2, 2],), [[1, 2, 4, 4], [2, 1, 2, 2]]),
    (pooling_gradient, lambda: (4, 5, 6), ValueError, "input_size must be height and width, got [4, 5, 6]", lambda: (4, 5), [1, 1, 4, 5]),
    (overlaps, lambda: (3, 5), ValueError, "must be [batch, n, 5] on both sides, got [3, 5] and [2, 4, 5]", lambda: (2, 3, 5), [2, 3, 4]),
    (overlaps, lambda: (1, 3, 5), ValueError, "must be [batch, n, 5] on both sides, got [1, 3, 5] and [2, 4, 5]", None, None),
    (pipeline, lambda: {"mode": "x"}, NotImplementedError, "mode and atomic_units are not supported", lambda: (),
     ("a module", (1,), {"b": 2}, "spec", "policy")),
    (pipeline, lambda: {"atomic_units": ["x"]}, NotImplementedError, "mode and atomic_units are not supported", None, None),
    (torch.npu.devices._get_device_index, lambda: ("npu",), ValueError, "Expected a torch.device with a specified index or an integer",
     lambda: ("npu:0",), 0),
    (torch.npu.devices._get_device_index, lambda: (None,), ValueError, "but got: None", lambda: (None, True), 0),
    (torch.npu.devices._get_device_index, lambda: ("npu", False, True), ValueError, "but got: npu", lambda: ("cpu", False, True), -1),
    (capability, lambda: ("8",), ValueError, "must be major.minor, for example 8.0, but is: 8", lambda: ("8.6",), (8, 6)),
    (capability, lambda: ("x.1",), ValueError, "must be major.minor", lambda: ("",), None),
    (fraction, lambda: (1.5,), ValueError, "Invalid fraction value: 1.5. Allowed range: 0~1", lambda: (1.0,), 1.0),
    (fraction, lambda: (-0.5,), ValueError, "Invalid fraction value: -0.5. Allowed range: 0~1", lambda: (0.0,), 0.0),
    (fraction, lambda: (1,), TypeError, "Invalid type for fraction argument, must be `float`", lambda: (0.5,), 0.5),
    (torch.npu.memory._record_memory_history, lambda: {"compile_context": True}, NotImplementedError, "compile_context and", None, None),
    (torch.npu.memory._record_memory_history, lambda: {"global_record_annotations": True}, NotImplementedError,
     "global_record_annotations are not supported by torch.npu", None, None),
    (torch.npu.set_option, lambda: ({"NO_OPTION": "1"},), ValueError, "unknown npu option 'NO_OPTION'; the options are: ",
     lambda: ({},), None),
    (torch.npu.FloatStorage.from_buffer, lambda: (b"",), RuntimeError, "from_buffer: Not available for NPU storage", None, None),
    (torch.npu.FloatStorage._new_shared_filename, lambda: (b"", b"", 1), RuntimeError, "_new_shared_filename: Not available", None, None),
    (lambda: optim.NpuFusedOptimizerBase([torch.nn.Parameter(card(2))], {}).update({}, None), lambda: (), NotImplementedError, "", None,
     None),
    (pairs, lambda: (3, 4), ValueError, "boxes come in pairs of shape [n, 4], not [3, 4] and [2, 4]", lambda: (2, 4), [2, 4]),
    (pairs, lambda: (2, 5), ValueError, "boxes come in pairs of shape [n, 4], not [2, 5] and [2, 4]", None, None),
    (environment._on_npu, lambda: ("PYTORCH_CUDA_ALLOC_CONF", "backend:x"), ValueError, "chooses one of CUDA's allocators, and npu has one",
     lambda: ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:2"), "max_split_size_mb:2"),
    (environment._on_npu, lambda: ("CUDA_VISIBLE_DEVICES", "GPU-1"), ValueError, "names GPUs by UUID",
     lambda: ("CUDA_VISIBLE_DEVICES", "1,0"), "1,0"),
    (environment._on_npu, lambda: ("CUDA_VISIBLE_DEVICES", "a"), ValueError, "names GPUs by UUID",
     lambda: ("OTHER", "backend:a"), "backend:a"),
    (torch_npu.utils.get_cann_version, lambda: ("cann",), ValueError, "module must be one of CANN, RUNTIME", lambda: ("DRIVER",),
     torch_npu.utils.get_cann_version()),
    (overlapping, lambda: (2,), ValueError, "two edits overlap at byte 2: 'y'", lambda: (3,), b"xyf"),
    (converted, lambda: ("/sources/a/b", "/sources/a"), project.Refusal, "the input lies inside the output /sources/a", None, None),
    (converted, lambda: ("/sources/a", "/sources/a"), project.Refusal, "the output /sources/a lies inside the input", None, None),
    (converted, lambda: ("/sources/a", "/proc/none/there"), project.Refusal, "cannot write to /proc/none: ", None, None),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].__name__}: {row[3]}")
def test_refusal(row):
    function, refused, exception, words, accepted, expected = row
    given = refused()
    with pytest.raises(exception, match=re.escape(words)):
        function(**given) if isinstance(given, dict) else function(*given)
    if accepted is not None:
        result = function(*accepted())
        assert (result.tolist() if isinstance(result, torch.Tensor) else result) == expected


@pytest.mark.filterwarnings("ignore:.*found in sys.modules")
@pytest.mark.parametrize("program", ["compare", "dashboard", "distributed.run", "doctor", "hang", "smi", "verify"])
def test_programs_refuse_arguments_that_there_are_not(program, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [program, "--no-such-argument"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"torch_npu.{program}", run_name="__main__")
    assert ended.value.code == 2 and "usage: " in capsys.readouterr().err


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_regions_of_another_shape_are_refused(name):
    ops = pytest.importorskip("torchvision").ops
    with pytest.raises(RuntimeError, match=re.escape("rois must have shape as Tensor[K, 5]")):
        options = {"roi_align": [1, True], "ps_roi_align": [1]}.get(name, [])
        getattr(torch.ops.torchvision, name)(card(1, 4, 8, 8), card(2, 4), 1.0, 2, 2, *options)
    if name.startswith("ps_"):
        with pytest.raises(RuntimeError, match="input channels must be a multiple of pooling height . pooling width"):
            getattr(ops, name)(card(1, 6, 8, 8), card(2, 5), 2)
