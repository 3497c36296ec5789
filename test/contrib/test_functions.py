"""torch_npu.contrib.function: each function against its plain-torch meaning, with gradients where it has them."""

import math

import pytest
import torch

from torch_npu import contrib
from torch_npu.contrib import function
from torch_npu.contrib.function import (
    dropout_with_byte_mask,
    fuse_add_softmax_dropout,
    matmul_transpose,
    npu_batched_multiclass_nms,
    npu_bbox_coder_decode_xywh2xyxy,
    npu_bbox_coder_encode_xyxy2xywh,
    npu_bbox_coder_encode_yolo,
    npu_ciou,
    npu_diou,
    npu_fast_condition_index_put,
    npu_fused_attention,
    npu_fused_attention_with_layernorm,
    npu_giou,
    npu_iou,
    npu_multiclass_nms,
    npu_ptiou,
    npu_single_level_responsible_flags,
    roll,
)


def rand(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def corners(n, seed=0):
    corner = rand(n, 2, seed=seed).abs() * 5
    return torch.cat([corner, corner + 1 + rand(n, 2, seed=seed + 7).abs() * 4], 1)


def same_with_gradients(actual, expected, *inputs, rtol=1e-4, atol=1e-5):
    """Values and gradients of two functions, the first on the npu."""
    npu, cpu = ([t.clone().to(device).requires_grad_() for t in inputs] for device in ("npu", "cpu"))
    a, e = actual(*npu), expected(*cpu)
    torch.testing.assert_close(a.cpu(), e, rtol=rtol, atol=atol)
    seed = rand(*e.shape, seed=9)
    for x, y in zip(torch.autograd.grad(a, npu, seed.npu()), torch.autograd.grad(e, cpu, seed)):
        torch.testing.assert_close(x.cpu(), y, rtol=rtol, atol=atol)


def test_every_function_is_reached_from_contrib():
    assert len(function.__all__) == 18
    for name in function.__all__:
        assert getattr(contrib, name) is getattr(function, name)


def test_matmul_transpose():
    same_with_gradients(matmul_transpose, lambda a, b: a @ b.transpose(-1, -2), rand(2, 3, 4), rand(2, 5, 4))


def test_roll():
    same_with_gradients(lambda x: roll(x, (-1, 2), (0, 1)), lambda x: torch.roll(x, (-1, 2), (0, 1)), rand(3, 4, 2))


def test_condition_index_put():
    x, condition = rand(3, 4), rand(3, 4) > 0
    same_with_gradients(lambda t: npu_fast_condition_index_put(t, condition.npu(), 2.5), lambda t: t.masked_fill(condition, 2.5), x)
    rows = torch.tensor([True, False, True])
    assert torch.equal(npu_fast_condition_index_put(x.npu(), rows.npu(), 7.0).cpu(), x.masked_fill(rows[:, None], 7.0))
    with pytest.raises(TypeError, match="must be bool"):
        npu_fast_condition_index_put(x.npu(), x.npu(), 0.0)


def test_add_softmax_dropout():
    dropout = torch.nn.Dropout(0.1).eval()
    mask = rand(2, 1, 1, 5)
    same_with_gradients(lambda s: fuse_add_softmax_dropout(False, dropout, mask.npu(), s, 16),
                        lambda s: torch.softmax(s / 4 + mask, -1), rand(2, 3, 5, 5))


def test_dropout_with_byte_mask():
    x = torch.ones(1000, device="npu")
    assert set(dropout_with_byte_mask(x, 0.5).unique().tolist()) == {0.0, 2.0}
    assert torch.equal(dropout_with_byte_mask(x, 0.5, training=False), x)
    assert dropout_with_byte_mask(x, 0.5, inplace=True) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        dropout_with_byte_mask(x, 1.5)


def test_functions_drop_at_their_rates():
    x = torch.ones(4000, device="npu")
    assert torch.equal(dropout_with_byte_mask(x, 0.0), x) and not dropout_with_byte_mask(x, 1.0).any()
    assert 0.25 < dropout_with_byte_mask(x).eq(0).float().mean().item() < 0.75
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"between 0 and 1, but got {p}"):
            dropout_with_byte_mask(x, p)
    scores, mask = rand(20, 10, 20).npu(), rand(20, 1, 20).npu()
    probs = torch.softmax(scores / 2 + mask, -1)
    torch.testing.assert_close(fuse_add_softmax_dropout(False, None, mask, scores, 4), probs)
    dropped = fuse_add_softmax_dropout(True, None, mask, scores, 4)
    torch.testing.assert_close(dropped, probs * 2 * dropped.ne(0))
    assert 0.4 < dropped.eq(0).float().mean().item() < 0.6
    by_rows = fuse_add_softmax_dropout(True, None, mask, scores, 4, p=0.0, dim=1)
    torch.testing.assert_close(by_rows, torch.softmax(scores / 2 + mask, 1))


def test_conditions_of_numbers():
    x = rand(3, 4)
    condition = torch.tensor([[1], [0], [2]], dtype=torch.uint8).expand(3, 4)
    assert torch.equal(npu_fast_condition_index_put(x.npu(), condition.npu(), 2.5).cpu(), x.masked_fill(condition != 0, 2.5))


def attention(x, mask, wq, wk, wv, bq, bk, bv, scale):
    heads, length = mask.shape[1], mask.shape[-1]
    q, k, v = ((x @ w.t() + b).view(-1, length, heads, w.shape[0] // heads).transpose(1, 2)
               for w, b in ((wq, bq), (wk, bk), (wv, bv)))
    probs = torch.softmax(q @ k.transpose(-1, -2) * scale + mask, -1)
    return (probs @ v).transpose(1, 2).reshape(x.shape)


def test_fused_attention():
    mask = rand(2, 2, 4, 4, seed=8)
    x, weights = rand(8, 6), [*(rand(6, 6, seed=i) for i in range(3)), *(rand(6, seed=i) for i in range(3))]
    defaults = npu_fused_attention(x.npu(), mask.npu(), *(w.npu() for w in weights))
    torch.testing.assert_close(defaults.cpu(), attention(x, mask, *weights, 1.0), rtol=1e-4, atol=1e-5)
    out, normal = npu_fused_attention_with_layernorm(x.npu(), mask.npu(), *(w.npu() for w in weights))
    torch.testing.assert_close(normal.cpu(), torch.nn.functional.layer_norm(x, (6,)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out.cpu(), attention(normal.cpu(), mask, *weights, 1.0), rtol=1e-4, atol=1e-5)
    drops = [npu_fused_attention(x.npu(), mask.npu(), *(w.npu() for w in weights), keep_prob=0.5) for _ in range(2)]
    assert not torch.allclose(*drops)
    inputs = [rand(8, 6), *(rand(6, 6, seed=i) for i in range(3)), *(rand(6, seed=i) for i in range(3))]
    same_with_gradients(lambda x, *w: npu_fused_attention(x, mask.npu(), *w, scale=0.5), lambda x, *w: attention(x, mask, *w, 0.5), *inputs)


def test_fused_attention_with_layernorm():
    mask = torch.zeros(2, 2, 4, 4)
    x, *weights = rand(8, 6), *(rand(6, 6, seed=i) for i in range(3)), *(rand(6, seed=i) for i in range(3))
    gamma, beta = rand(6, seed=4), rand(6, seed=5)
    out, normal = npu_fused_attention_with_layernorm(x.npu(), mask.npu(), *(w.npu() for w in weights), gamma.npu(), beta.npu(), 0.5)
    expected = torch.nn.functional.layer_norm(x, (6,), gamma, beta)
    torch.testing.assert_close(normal.cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out.cpu(), attention(expected, mask, *weights, 0.5), rtol=1e-4, atol=1e-5)


def plain_iou(a, b, extra=0.0):
    a, b = a[:, None], b[None]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2]) + extra).clamp(min=0)
    common = sides.prod(-1)
    areas = [(x[..., 2:] - x[..., :2] + extra).prod(-1) for x in (a, b)]
    return common / (areas[0] + areas[1] - common)


def test_iou():
    a, b = corners(4), corners(3, seed=1)
    same_with_gradients(lambda x, y: npu_iou(x, y, mode="iou"), plain_iou, a, b)
    torch.testing.assert_close(npu_ptiou(a.npu(), b.npu()).cpu(), plain_iou(a, b, 1.0))
    torch.testing.assert_close(npu_iou(a.npu(), b.npu(), is_normalized=True).cpu(), plain_iou(a * 100, b * 100, 1.0))
    torch.testing.assert_close(npu_iou(a.npu(), b.npu(), "iou", True, 3.0).cpu(), plain_iou(a, b))
    torch.testing.assert_close(npu_iou(a.npu(), b.npu(), "ptiou", True, 3.0).cpu(), plain_iou(a * 3, b * 3, 1.0))
    with pytest.raises(ValueError, match="iou"):
        npu_iou(a.npu(), b.npu(), mode="giou")


@pytest.mark.parametrize("function, kind", [(npu_diou, "diou"), (npu_ciou, "ciou")])
def test_pairs_of_all_boxes_and_corners(function, kind):
    a, b = centres(5), centres(3, 1)
    crossed = torch.stack([pairs(kind, box.expand(3, 4), b) for box in a], 1)  # ground truths by boxes
    torch.testing.assert_close(function(a.t().npu(), b.t().npu(), is_cross=True).cpu(), crossed, rtol=1e-4, atol=1e-5)
    corner = function(as_corners(a).t().npu(), as_corners(a.roll(1, 0)).t().npu(), trans=False)
    torch.testing.assert_close(corner.cpu()[0], pairs(kind, a, a.roll(1, 0)), rtol=1e-4, atol=1e-5)
    first = function(a.t().npu(), (a + 0.5).t().npu(), mode=1) - function(a.t().npu(), (a + 0.5).t().npu())
    assert first.gt(0).all()  # the area of one box is less than that of both


def centres(n, seed=0):
    box = corners(n, seed)
    return torch.cat([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], 1)


def as_corners(box):
    return torch.cat([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1)


def pairs(kind, a, b):
    """GIoU, DIoU or CIoU of box i with box i, both as centre and sides, [n]."""
    a, b = as_corners(a), as_corners(b)
    iou = plain_iou(a, b).diagonal()
    low, high = torch.minimum(a[:, :2], b[:, :2]), torch.maximum(a[:, 2:], b[:, 2:])
    whole = (high - low).prod(-1)
    if kind == "giou":
        areas = [(x[:, 2:] - x[:, :2]).prod(-1) for x in (a, b)]
        return iou - (whole - (areas[0] + areas[1]) / (1 + iou)) / whole
    apart = ((a[:, :2] + a[:, 2:] - b[:, :2] - b[:, 2:]) / 2).square().sum(-1) / (high - low).square().sum(-1)
    if kind == "diou":
        return iou - apart
    ratio = [torch.atan((x[:, 2] - x[:, 0]) / (x[:, 3] - x[:, 1])) for x in (a, b)]
    aspect = 4 / math.pi**2 * (ratio[1] - ratio[0]).square()
    return iou - apart - (aspect / (1 - iou + aspect)).detach() * aspect


def test_giou():
    same_with_gradients(lambda a, b: npu_giou(a, b)[:, 0], lambda a, b: pairs("giou", a, b), centres(5), centres(5, 1))
    same_with_gradients(lambda a, b: npu_giou(a.t(), b.t(), is_permuted=False)[:, 0], lambda a, b: pairs("giou", a, b), centres(5),
                        centres(5, 1))


def test_diou():
    same_with_gradients(lambda a, b: npu_diou(a.t(), b.t())[0], lambda a, b: pairs("diou", a, b), centres(5), centres(5, 1))


def test_ciou():
    same_with_gradients(lambda a, b: npu_ciou(a.t(), b.t())[0], lambda a, b: pairs("ciou", a, b), centres(5), centres(5, 1))


def test_box_coder_decodes_what_it_encodes():
    anchors, boxes = corners(6) * 10, corners(6, 1) * 10
    means, stds = [0.1, 0.2, 0.0, 0.1], [0.1, 0.1, 0.2, 0.2]
    code = npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu(), means, stds)
    side = anchors[:, 2:] - anchors[:, :2] + 1
    shift = (boxes[:, :2] + boxes[:, 2:] - anchors[:, :2] - anchors[:, 2:]) / 2 / side
    torch.testing.assert_close(code[:, :2].cpu(), (shift - torch.tensor(means[:2])) / 0.1, rtol=1e-4, atol=1e-4)
    again = npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), code, means, stds)
    torch.testing.assert_close(again.cpu(), boxes, rtol=1e-4, atol=1e-3)
    clipped = npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), code, means, stds, max_shape=(30, 20))
    assert clipped[:, 0].max() <= 19 and clipped[:, 1].max() <= 29
    expected = torch.minimum(boxes.clamp(min=0), torch.tensor([19.0, 29, 19, 29]))
    torch.testing.assert_close(clipped.cpu(), expected, rtol=1e-4, atol=1e-3)
    for wrong in (boxes[:2], torch.cat([boxes, boxes], 1)):
        with pytest.raises(ValueError, match="pairs of shape"):
            npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), wrong.npu())
    with pytest.raises(ValueError, match="pairs of shape"):
        npu_bbox_coder_encode_xyxy2xywh(*[torch.cat([boxes, boxes], 1).npu()] * 2)


def test_box_coder_of_plain_and_normalised_boxes():
    anchors, boxes = corners(6), corners(6, 1)

    def plain(a, b):
        side, other = a[:, 2:] - a[:, :2] + 1, b[:, 2:] - b[:, :2] + 1
        return torch.cat([(b[:, :2] + b[:, 2:] - a[:, :2] - a[:, 2:]) / 2 / side, (other / side).log()], 1)

    code = npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu())
    torch.testing.assert_close(code.cpu(), plain(anchors, boxes), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), code).cpu(), boxes, rtol=1e-4, atol=1e-3)
    normalised = npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu(), is_normalized=True)
    torch.testing.assert_close(normalised.cpu(), plain(anchors * 1e4, boxes * 1e4), rtol=1e-4, atol=1e-5)
    # Sides grow by no more than the inverse of the clip; nothing is beyond 9998, the last pixel of the largest image.
    wide = npu_bbox_coder_decode_xywh2xyxy(torch.tensor([[0.0, 0, 99, 99]]).npu(), torch.tensor([[0.0, 0, 90, 0]]).npu())
    torch.testing.assert_close(wide.cpu(), torch.tensor([[0.0, 0, 49.5 + 100 / 0.016 / 2 - 0.5, 99]]))
    far = npu_bbox_coder_decode_xywh2xyxy(torch.tensor([[0.0, 0, 9999, 9999]]).npu(), torch.tensor([[5.0, 5, 0, 0]]).npu())
    assert far.tolist() == [[9998.0] * 4]


def test_yolo_coder():
    anchors, boxes = corners(4), corners(4, 1)
    code = npu_bbox_coder_encode_yolo(anchors.npu(), boxes.npu(), 8).cpu()
    shift = (boxes[:, :2] + boxes[:, 2:] - anchors[:, :2] - anchors[:, 2:]) / 16 + 0.5
    torch.testing.assert_close(code[:, :2], shift.clamp(1e-6, 1 - 1e-6))
    torch.testing.assert_close(code[:, 2:], ((boxes[:, 2:] - boxes[:, :2]) / (anchors[:, 2:] - anchors[:, :2])).log())


def test_yolo_coder_takes_a_stride_for_each_box():
    anchors, boxes = corners(3), corners(3, 1)
    strides = torch.tensor([4, 8, 16])
    each = [npu_bbox_coder_encode_yolo(anchors[i : i + 1].npu(), boxes[i : i + 1].npu(), int(s)) for i, s in enumerate(strides)]
    assert torch.equal(npu_bbox_coder_encode_yolo(anchors.npu(), boxes.npu(), strides.npu()), torch.cat(each))


def test_responsible_flags():
    flags = npu_single_level_responsible_flags((2, 3), torch.tensor([[8.0, 8, 24, 24]]).npu(), (16, 16), 2)
    assert flags.tolist() == [0] * 8 + [1, 1] + [0, 0]


def test_multiclass_nms():
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    scores = torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.7, 0.0], [0.3, 0.02, 0.0]])
    dets, labels = npu_multiclass_nms(boxes.npu(), scores.npu(), max_num=5)
    # 0.8 falls to its neighbour of class 0, 0.02 is below the threshold, 0.1 of class 1 falls to 0.7
    assert dets[:, 4].cpu().tolist() == pytest.approx([0.9, 0.7, 0.3, 0, 0])
    assert labels.tolist()[:3] == [0, 1, 0]
    torch.testing.assert_close(dets[:3, :4].cpu(), boxes[[0, 1, 2]])
    batch = npu_batched_multiclass_nms(boxes[None].npu(), scores[None].npu(), max_num=5, score_factors=torch.ones(1, 3).npu())
    assert torch.equal(batch[0][0], dets)
    factors = torch.tensor([0.1, 1.0, 2.0])
    dets, labels = npu_multiclass_nms(boxes.npu(), scores.npu(), max_num=3, score_factors=factors.npu())
    assert dets[:, 4].cpu().tolist() == pytest.approx([0.8, 0.7, 0.6]) and labels.tolist() == [0, 1, 0]
    both = torch.stack([boxes, boxes + 2]), torch.stack([scores, scores.flip(0)])
    dets, labels = npu_batched_multiclass_nms(both[0].npu(), both[1].npu(), score_thr=0.5, nms_thr=0.9, max_num=4)
    assert dets[0, :, 4].cpu().tolist() == dets[1, :, 4].cpu().tolist() == pytest.approx([0.9, 0.8, 0.7, 0.0])
    torch.testing.assert_close(dets[1, :3, :4].cpu(), both[0][1][[2, 1, 1]])
    many = npu_multiclass_nms(torch.rand(60, 4).npu(), torch.rand(60, 3).npu(), nms_thr=2.0)
    assert many[0].shape == (50, 5) and many[0][:, 4].gt(0).all()


def test_multiclass_nms_with_boxes_of_each_class():
    boxes = torch.tensor([[0.0, 0, 10, 10, 40, 40, 50, 50], [20, 20, 30, 30, 60, 60, 70, 70]])
    scores = torch.tensor([[0.9, 0.6, 0.0], [0.3, 0.7, 0.0]])
    dets, labels = npu_multiclass_nms(boxes.npu(), scores.npu(), max_num=4)
    assert dets[:, 4].cpu().tolist() == pytest.approx([0.9, 0.7, 0.6, 0.3]) and labels.tolist() == [0, 1, 1, 0]
    torch.testing.assert_close(dets[:, :4].cpu(), torch.stack([boxes[0, :4], boxes[1, 4:], boxes[0, 4:], boxes[1, :4]]))
    with pytest.raises(ValueError, match="boxes for one class or for each of 3, not for 2"):
        npu_multiclass_nms(boxes.npu(), torch.rand(2, 4).npu())
