"""Boxes: results whose size depends on data, samples drawn at random, and numbers that the official plugin's own tests publish."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import torch_npu

sys.path.insert(0, str(Path(__file__).parent))
from cases_boxes import MANY, SCORES, nms_rotated, to_corners  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "arguments", [(0.2,), (0.5, 0.3), (0.2, 0.0, 4), (0.2, 0.3, 5, 1), (0.01, 0.0, -1, 1), (1.0,), (0.2, 2.0)], ids=str
)
def test_suppression_of_rotated_boxes(arguments, dtype):
    boxes = (to_corners(MANY) if arguments[3:] == (1,) else MANY).to(dtype)
    actual = torch_npu.npu_nms_rotated(boxes.npu(), SCORES.npu(), *arguments)
    for a, e in zip(actual, nms_rotated(boxes.float(), SCORES, *arguments)):
        assert torch.equal(a.cpu(), e)


def drawn(low, high, one, two, dtype):
    np.random.seed(1234)

    def boxes(shape):
        centres = np.random.uniform(low, high, [*shape, 2]).astype(dtype)
        return torch.from_numpy(
            np.concatenate(
                [centres, np.random.randint(1, 20, size=[*shape, 2]), np.random.randint(-180, 180, size=[*shape, 1])], axis=-1, dtype=dtype
            )
        ).npu()

    return boxes(one), boxes(two)


def test_published_overlaps_of_rotated_boxes():
    expected = torch.zeros(4, 2, 3)
    expected[0, 0, 1], expected[2, 1, 0], expected[2, 1, 1] = 0.00045966, 0.00600622, 0.10504241
    torch.testing.assert_close(
        torch_npu.npu_rotated_iou(*drawn(20, 60, [4, 2], [4, 3], np.float32), False, 0, True, 0.0, 0.0).cpu(),
        expected,
        rtol=1e-3,
        atol=1e-5,
    )
    expected = torch.tensor([[[0.0, 10.289731], [0, 0], [0, 0]]])
    torch.testing.assert_close(
        torch_npu.npu_rotated_overlaps(*drawn(30, 60, [1, 3], [1, 2], np.float32)).cpu(), expected, rtol=1e-4, atol=1e-4
    )
    expected = torch.tensor([[[0.0, 13.27, 1.022, 0], [0, 0, 54.12, 0], [0, 0, 0, 19.17]]]).half()
    torch.testing.assert_close(
        torch_npu.npu_rotated_overlaps(*drawn(30, 60, [1, 3], [1, 4], np.float16)).cpu(), expected, rtol=1e-3, atol=1e-2
    )


def column(*numbers):
    return torch.tensor(numbers).view(1, 5, 1)


def test_published_codings_of_rotated_boxes():
    ones = torch.ones(5).npu()
    encoded = torch_npu.npu_rotated_box_encode(
        column(44.2877, 9.1412, 88.7575, 25.8879, 64.8047).npu(), column(39.1763, 0.9838, 78.1028, 29.5997, 51.5907).npu(), ones
    )
    torch.testing.assert_close(encoded.cpu(), column(-0.1773, -0.1327, -0.1331, 0.5358, -0.8643), rtol=1e-4, atol=1e-4)
    decoded = torch_npu.npu_rotated_box_decode(
        column(32.1855, 41.9922, 64.1435, 62.5325, 34.607).npu(), column(1.8725, -1.8915, 0.2395, -0.4622, -34.6539).npu(), ones
    )
    torch.testing.assert_close(decoded.cpu(), column(87.70366, 6.9412346, 128.31055, 19.879467, -88.313515), rtol=1e-4, atol=1e-3)


def test_published_assignment():
    torch.manual_seed(1234)
    start, overlaps = torch.rand(4), torch.rand(2, 4)
    best, truth_best = torch.rand(4), torch.rand(2)
    result = torch_npu.npu_grid_assign_positive(
        start.npu(),
        overlaps.npu(),
        torch.tensor([1, 1, 1, 0], dtype=torch.uint8).npu(),
        best.npu(),
        torch.tensor([1, 0, 1, 0], dtype=torch.int32).npu(),
        truth_best.npu(),
        torch.tensor([1, 0], dtype=torch.int32).npu(),
        128,
        0.5,
        0.0,
        True,
    )
    torch.testing.assert_close(result.cpu(), torch.tensor([2.0, 1.0, 0.25984418, 0.36664134]))


def test_published_average_of_a_region():
    out = torch_npu.npu_roi_align(
        torch.arange(1.0, 37).view(1, 1, 6, 6).npu(), torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]]).npu(), 0.25, 3, 3, 2, 0
    )
    assert torch.equal(out.cpu(), torch.tensor([[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]]))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"roi_end_mode": 3}, "roi_end_mode must be 0, 1 or 2"),
        ({"sample_num": -1}, "sample_num"),
        ({"pooled_height": 0}, "pooled_height"),
        ({"rois": torch.zeros(2, 4)}, "rois must be"),
        ({"input": torch.zeros(3, 4, 4)}, "4 dimensions"),
    ],
)
def test_regions_that_are_none_are_refused(change, words):
    arguments = {
        "input": torch.zeros(1, 2, 4, 4),
        "rois": torch.zeros(2, 5),
        "spatial_scale": 1.0,
        "pooled_height": 2,
        "pooled_width": 2,
        "sample_num": 2,
        "roi_end_mode": 0,
        **change,
    }
    for device in "npu", "meta":
        with pytest.raises((RuntimeError, ValueError), match=words):
            torch.ops.npu.npu_roi_align(**{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()})


def test_a_region_of_an_image_that_is_not_there_fails_on_the_device():
    for image in 1.0, -1.0, float("nan"):
        with pytest.raises(RuntimeError, match="is of image"):
            torch_npu.npu_roi_align(torch.zeros(1, 2, 4, 4).npu(), torch.tensor([[image, 0, 0, 2, 2]]).npu(), 1.0, 2, 2, 2, 0).cpu()


def test_rotated_overlaps_refuse_what_they_do_not_compute():
    boxes = torch.zeros(1, 2, 5).npu()
    with pytest.raises(NotImplementedError, match="is_cross must be True"):
        torch_npu.npu_rotated_iou(boxes, boxes, is_cross=False)
    with pytest.raises(ValueError, match="mode must be 0"):
        torch_npu.npu_rotated_iou(boxes, boxes, mode=2)
    with pytest.raises(ValueError, match="batch, n, 5"):
        torch_npu.npu_rotated_overlaps(boxes[0], boxes)
    with pytest.raises(ValueError, match="mode must be 0 or 1"):
        torch_npu.npu_nms_rotated(boxes[0], torch.zeros(2).npu(), 0.5, mode=7)
