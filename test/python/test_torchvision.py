"""torchvision's operators on npu tensors against plain loops in double precision: results and gradients.

Whether torchvision could load its extension (its wheel on PyPI needs CUDA libraries) makes no difference to any of them.
"""

import math

import pytest
import torch

tv = pytest.importorskip("torchvision", reason="torchvision is not installed: pip install --no-deps torchvision==0.28.0")
ops = tv.ops


def regions(count=6, size=12.0):
    """Regions of all kinds: inside, over the edge, outside, empty."""
    torch.manual_seed(1)
    begin = torch.rand(count, 2) * size
    boxes = torch.cat([begin, begin + torch.rand(count, 2) * size * 0.7], 1)
    boxes = torch.cat([boxes, torch.tensor([[-5.3, -3.1, 4.2, 6.0], [size * 3, size * 3, size * 4, size * 4], [5.0, 5.0, 5.0, 5.0]])])
    return torch.cat([torch.arange(len(boxes)).remainder(2).unsqueeze(1).float(), boxes], 1)


def sample(plane, y, x):
    """Bilinear value of a [C, H, W] map; up to a pixel outside of it the border's."""
    height, width = plane.shape[-2:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return plane[:, 0, 0] * 0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    fy, fx = y - y0, x - x0
    return (plane[:, y0, x0] * (1 - fy) * (1 - fx) + plane[:, y0, x1] * (1 - fy) * fx + plane[:, y1, x0] * fy * (1 - fx)
            + plane[:, y1, x1] * fy * fx)


def align_loop(features, rois, bins, scale, ratio, aligned, own_channels=False):
    shift, results = 0.5 if aligned else 0.0, []
    for image, *box in rois.tolist():
        x0, y0, x1, y1 = (c * scale - shift for c in box)
        height, width = (y1 - y0, x1 - x0) if aligned else (max(y1 - y0, 1.0), max(x1 - x0, 1.0))
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(height / bins[0]), math.ceil(width / bins[1]))
        for i in range(bins[0]):
            for j in range(bins[1]):
                plane = features[int(image)]
                plane = plane[i * bins[1] + j :: bins[0] * bins[1]] if own_channels else plane
                values = [sample(plane, y0 + height * (i + (a + 0.5) / rows) / bins[0], x0 + width * (j + (b + 0.5) / columns) / bins[1])
                          for a in range(rows) for b in range(columns)]
                results.append(sum(values) / len(values) if values else plane[:, 0, 0] * 0)
    return torch.stack(results).view(len(rois), *bins, -1).permute(0, 3, 1, 2)


def bins_loop(features, rois, bins, scale, reduce, extra, limit, own_channels=False):
    results = []
    for image, *box in rois.tolist():
        x0, y0, x1, y1 = (math.floor(abs(c * scale) + 0.5) * (1 if c > 0 else -1) for c in box)
        height, width = max(y1 - y0 + extra, 1), max(x1 - x0 + extra, 1)

        def span(start, size, i, count, most):
            low, high = math.floor(i * size / count) + start, math.ceil((i + 1) * size / count) + start
            return slice(min(max(low, 0), most), min(max(high, 0), most))

        for i in range(bins[0]):
            for j in range(bins[1]):
                plane = features[int(image)]
                plane = plane[i * bins[1] + j :: bins[0] * bins[1]] if own_channels else plane
                part = plane[:, span(y0, height, i, bins[0], plane.shape[1] - limit), span(x0, width, j, bins[1], plane.shape[2] - limit)]
                results.append(reduce(part.flatten(1)) if part.numel() else plane[:, 0, 0] * 0)
    return torch.stack(results).view(len(rois), *bins, -1).permute(0, 3, 1, 2)


def with_gradient(function, *tensors):
    """Result and gradients; the gradient of the result is a fixed pattern."""
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    result = function(*leaves)
    pattern = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).view(result.shape)
    return [result.detach(), *torch.autograd.grad(result, leaves, pattern.to(result))]


def compare(on_npu, reference, *tensors):
    got = with_gradient(on_npu, *(t.npu() for t in tensors))
    for a, b in zip(got, with_gradient(reference, *(t.double() for t in tensors)), strict=True):
        assert a.device.type == "npu"
        torch.testing.assert_close(a.cpu().double(), b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(ratio, aligned):
    rois, features = regions(), torch.randn(2, 3, 10, 11)
    compare(lambda x: ops.roi_align(x, rois.npu(), (3, 2), 0.8, ratio, aligned),
            lambda x: align_loop(x, rois.double(), (3, 2), 0.8, ratio, aligned), features)


@pytest.mark.parametrize("aligned", [False, True])
def test_samples_just_at_the_limits_of_the_map(aligned):
    """A pixel outside of the map, where its border counts for the last time, and half a pixel further, where nothing does."""
    begins = [-1.5, -2.0, 9.5, 10.0, 8.5, -1.0]
    rois = torch.tensor([[0.0, x, y, x + 1, y + 1] for x in begins for y in begins]) + (torch.tensor([0.0, *[0.5] * 4]) if aligned else 0)
    features = torch.randn(1, 2, 10, 10)
    compare(lambda x: ops.roi_align(x, rois.npu(), 1, 1.0, 1, aligned),
            lambda x: align_loop(x, rois.double(), (1, 1), 1.0, 1, aligned), features)
    corner = align_loop(features, rois, (1, 1), 1.0, 1, aligned)
    assert corner[0, :, 0, 0].tolist() == features[0, :, 0, 0].tolist() and not corner[7].any()


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool"])
def test_channels_of_each_bin_are_numbered(name):
    """The second result, which a program that calls the operator by name gets: channel (c, i, j) for bin (i, j) of output c."""
    rois, more = regions(3)[:3].mul(torch.tensor([0.0, 1, 1, 1, 1])), [1] if name.endswith("align") else []
    numbers = getattr(torch.ops.torchvision, name)(torch.randn(1, 12, 8, 8).npu(), rois.npu(), 1.0, 2, 3, *more)[1]
    assert numbers.dtype == torch.int32
    assert numbers.tolist() == [[[[(c * 2 + i) * 3 + j for j in range(3)] for i in range(2)] for c in range(2)]] * 3


def test_places_of_the_largest_values():
    """The second result of roi_pool: the number of the pixel in its map, -1 for a bin without one."""
    features = torch.randn(2, 3, 6, 5)
    rois = torch.tensor([[1.0, 1, 1, 4, 3], [0, 40, 40, 50, 50], [0, 0, 0, 4, 5]])
    values, places = torch.ops.torchvision.roi_pool(features.npu(), rois.npu(), 1.0, 2, 2)
    assert places.dtype == torch.int32 and places[1].unique().tolist() == [-1] and not values[1].any()
    for n, image in ((0, 1), (2, 0)):
        assert torch.equal(features[image].flatten(1).gather(1, places[n].cpu().long().flatten(1)).view(3, 2, 2), values[n].cpu())
    same = torch.ops.torchvision.roi_pool(torch.ones(1, 1, 4, 4).npu(), torch.tensor([[0.0, 0, 0, 3, 3]]).npu(), 1.0, 2, 2)[1]
    assert same.flatten().tolist() == [0, 2, 8, 10]  # of equal ones the first


def test_roi_align_of_no_regions():
    assert ops.roi_align(torch.randn(1, 3, 8, 8).npu(), torch.zeros(0, 5).npu(), 2).shape == (0, 3, 2, 2)


@pytest.mark.parametrize("ratio", [2, -1])
def test_ps_roi_align(ratio):
    rois, features = regions()[:-1], torch.randn(2, 12, 10, 11)  # torchvision divides by zero samples of an empty region
    compare(lambda x: ops.ps_roi_align(x, rois.npu(), (2, 3), 0.8, ratio),
            lambda x: align_loop(x, rois.double(), (2, 3), 0.8, ratio, True, own_channels=True), features)


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_regions_of_another_type_are_refused(name):
    with pytest.raises(RuntimeError, match="the same type"):
        getattr(ops, name)(torch.randn(1, 4, 8, 8).npu(), torch.zeros(2, 5).half().npu(), 2)


@pytest.mark.parametrize("elements", [1, 1000, 1 << 22])
def test_roi_pool(elements, monkeypatch):
    """However many elements exist at a time."""
    import torch_npu._torchvision.kernels as kernels

    monkeypatch.setattr(kernels, "_POOL_ELEMENTS", elements)
    rois, features = regions(), torch.randn(2, 3, 10, 11)
    compare(lambda x: ops.roi_pool(x, rois.npu(), (3, 2), 0.8),
            lambda x: bins_loop(x, rois.double(), (3, 2), 0.8, lambda p: p.amax(1), 1, 0), features)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_short_types_are_computed_in_float32(name, dtype):
    features, rois = torch.randn(2, 6, 10, 11).to(dtype), (regions()[:-1] * 8).round().div(8).to(dtype)
    wide = getattr(ops, name)(features.float().npu(), rois.float().npu(), (2, 3), 0.75)
    short = getattr(ops, name)(features.npu(), rois.npu(), (2, 3), 0.75)
    assert short.dtype == dtype and torch.equal(short, wide.to(dtype))


def test_nms_of_short_types():
    boxes = torch.tensor([[0.0, 0, 100.5, 100], [0, 1, 100.5, 101], [50, 50, 60, 60]])
    for dtype in (torch.float16, torch.bfloat16):
        short = boxes.to(dtype)
        assert ops.nms(short.npu(), torch.tensor([0.9, 0.8, 0.7]).to(dtype).npu(), 0.97).tolist() == greedy(
            short.float(), torch.tensor([0.9, 0.8, 0.7]), 0.97).tolist()


def test_ps_roi_pool():
    rois, features = regions()[:3], torch.randn(2, 12, 20, 21)  # clear of the last row and column
    compare(lambda x: ops.ps_roi_pool(x, rois.npu(), (2, 3), 0.8),
            lambda x: bins_loop(x, rois.double(), (2, 3), 0.8, lambda p: p.mean(1), 0, 0, own_channels=True), features)
    edge, small = regions(), features[..., :9, :8]
    torch.testing.assert_close(ops.ps_roi_pool(small.contiguous().npu(), edge.npu(), (2, 3)).cpu().double(),
                               bins_loop(small.double(), edge.double(), (2, 3), 1.0, lambda p: p.mean(1), 0, 1, True))


@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv2d(masked):
    torch.manual_seed(0)
    n, out_channels, groups, parts, (kh, kw), stride, pad, dilation = 2, 4, 2, 2, (3, 2), (3, 1), (2, 1), (1, 3)
    x, weight, bias = torch.randn(n, 4, 5, 4), torch.randn(out_channels, 4 // groups, kh, kw), torch.randn(out_channels)
    rows, columns = (5 + 2 * pad[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1, (4 + 2 * pad[1] - dilation[1] - 1) // stride[1] + 1
    offset = torch.randn(n, parts * 2 * kh * kw, rows, columns)
    mask = torch.rand(n, parts * kh * kw, rows, columns)

    def reference(x, offset, weight, bias, mask=None):
        padded = torch.nn.functional.pad(x, [20] * 4)  # zeros outside of the map
        result = []
        for image in range(n):
            for out in range(out_channels):
                for i in range(rows):
                    for j in range(columns):
                        total = bias[out]
                        for c in range(4 // groups):
                            channel = out // (out_channels // groups) * (4 // groups) + c
                            part = channel // (4 // parts)
                            for k in range(kh * kw):
                                where = (part * kh * kw + k) * 2
                                y = offset[image, where, i, j] + i * stride[0] - pad[0] + k // kw * dilation[0] + 20
                                z = offset[image, where + 1, i, j] + j * stride[1] - pad[1] + k % kw * dilation[1] + 20
                                y0, z0 = int(y), int(z)
                                corner = padded[image, channel, y0 : y0 + 2, z0 : z0 + 2]
                                wy, wz = torch.stack([y0 + 1 - y, y - y0]), torch.stack([z0 + 1 - z, z - z0])
                                value = wy @ corner @ wz * weight[out, c, k // kw, k % kw]
                                total = total + (value if mask is None else value * mask[image, part * kh * kw + k, i, j])
                        result.append(total)
        return torch.stack(result).view(n, out_channels, rows, columns)

    tensors = (x, offset, weight, bias, mask) if masked else (x, offset, weight, bias)
    compare(lambda x, offset, weight, bias, mask=None: ops.deform_conv2d(x, offset, weight, bias, stride, pad, dilation, mask),
            reference, *tensors)


def greedy(boxes, scores, threshold):
    kept, covered, overlaps = [], torch.zeros(len(boxes), dtype=torch.bool), ops.box_iou(boxes, boxes)
    for i in scores.argsort(descending=True, stable=True).tolist():
        if not covered[i]:
            kept.append(i)
            covered |= overlaps[i] > threshold
    return torch.tensor(kept)


@pytest.mark.parametrize("count", [0, 1, 60, 1500])
def test_nms(count):
    torch.manual_seed(0)
    corner = torch.rand(count, 2) * count**0.5 * 2
    boxes, scores = torch.cat([corner, corner + 1 + torch.rand(count, 2) * 4], 1), torch.rand(count).mul(50).round()
    assert ops.nms(boxes.npu(), scores.npu(), 0.3).tolist() == greedy(boxes, scores, 0.3).tolist()


def test_batched_nms_keeps_classes_apart():
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4.5], [0, 0, 4, 4]])
    kept = ops.batched_nms(boxes.npu(), torch.tensor([0.9, 0.8, 0.7]).npu(), torch.tensor([0, 0, 1]).npu(), 0.5)
    assert kept.tolist() == [0, 2]


def test_nms_refuses_what_torchvision_refuses():
    with pytest.raises(RuntimeError, match="boxes should have 4 elements in dimension 1, got 5"):
        ops.nms(torch.rand(2, 5).npu(), torch.rand(2).npu(), 0.5)
    with pytest.raises(RuntimeError, match="scores should be a 1d tensor, got 2D"):
        ops.nms(torch.rand(2, 4).npu(), torch.rand(2, 1).npu(), 0.5)
    with pytest.raises(RuntimeError, match="boxes should be a 2d tensor, got 1D"):
        ops.nms(torch.rand(4).npu(), torch.rand(1).npu(), 0.5)
    with pytest.raises(RuntimeError, match="same number of elements"):
        ops.nms(torch.rand(4, 4).npu(), torch.rand(1).npu(), 0.5)


def clip_polygon(polygon, start, end):
    """The part of a polygon on the left of the line from start to end."""
    result = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1]):
        side_p, side_q = (((end[0] - start[0]) * (r[1] - start[1]) - (end[1] - start[1]) * (r[0] - start[0])) for r in (p, q))
        if side_p >= 0:
            result.append(p)
        if side_p * side_q < 0:
            t = side_p / (side_p - side_q)
            result.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
    return result


def polygon_area(polygon):
    return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(polygon, polygon[1:] + polygon[:1]))) / 2


def rotated_corners(x, y, width, height, degrees):
    """Counter-clockwise for an image, whose y grows downwards."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [(x + c * dx + s * dy, y - s * dx + c * dy) for dx, dy in
            ((-width / 2, -height / 2), (width / 2, -height / 2), (width / 2, height / 2), (-width / 2, height / 2))]


def test_overlap_of_any_rotated_boxes():
    """Against one box clipped by the edges of the other."""
    torch.manual_seed(0)
    a, b = (torch.cat([torch.rand(n, 2) * 6, torch.rand(n, 2) * 5 + 0.2, torch.rand(n, 1) * 360 - 180], 1) for n in (9, 11))
    expected = torch.zeros(9, 11)
    for i, first in enumerate(a.tolist()):
        for j, second in enumerate(b.tolist()):
            polygon, corners = rotated_corners(*first), rotated_corners(*second)
            for start, end in zip(corners, corners[1:] + corners[:1]):
                polygon = clip_polygon(polygon, start, end)
            common = polygon_area(polygon)
            expected[i, j] = common / (first[2] * first[3] + second[2] * second[3] - common)
    assert expected.gt(0).sum() > 40 and expected.eq(0).sum() > 5
    for shift in (0.0, 5000.0):  # distant boxes overlap as near ones do
        moved = torch.tensor([shift, -shift, 0, 0, 0])
        result = ops.box_iou((a + moved).npu(), (b + moved).npu(), fmt="cxcywhr")
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-3, atol=1e-3 if shift else 1e-5)


def test_overlap_of_rotated_boxes_that_touch():
    """Edges that lie on each other, and corners on edges, have no area or all of it."""
    box = torch.tensor([[0.0, 0, 4, 2, 30], [0, 0, 4, 2, 0]])
    others = torch.tensor([[0.0, 0, 4, 2, 30], [0, 0, 4, 2, 210], [4, 0, 4, 2, 0], [4, 2, 4, 2, 0], [2, 0, 4, 2, 0], [0, 0, 2, 1, 0]])
    result = ops.box_iou(box.npu(), others.npu(), fmt="cxcywhr").cpu()
    torch.testing.assert_close(result[0, :2], torch.ones(2), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(result[1, 2:], torch.tensor([0.0, 0.0, 1 / 3, 1 / 4]), rtol=1e-4, atol=1e-4)


def test_overlap_of_rotated_boxes():
    square = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]])
    others = torch.tensor([[0.0, 0, 2, 2, 0], [0, 0, 2, 2, 45], [1, 0, 2, 2, 90], [9, 9, 2, 2, 30], [0, 0, 1, 1, 30], [0, 0, 0, 0, 0]])
    octagon = 8 * (math.sqrt(2) - 1)
    expected = torch.tensor([[1.0, octagon / (8 - octagon), 2 / 6, 0.0, 1 / 4, 0.0]])
    torch.testing.assert_close(ops.box_iou(square.npu(), others.npu(), fmt="cxcywhr").cpu(), expected, rtol=1e-4, atol=1e-4)


def test_autocast_computes_in_float32():
    features, rois = torch.randn(1, 3, 16, 16).npu(), torch.tensor([[0.0, 1.3, 1.7, 9.1, 8.2]]).npu()
    with torch.autocast("npu", dtype=torch.float16):
        result = ops.roi_align(features.half(), rois, 3)
        kept = ops.nms(rois[:, 1:].half(), torch.ones(1).npu().half(), 0.5)
    assert result.dtype == torch.float16 and kept.tolist() == [0]
    torch.testing.assert_close(result, ops.roi_align(features.half().float(), rois, 3).half())


def test_tensors_of_the_cpu_are_taken_where_torchvision_has_no_extension():
    """Its own kernels otherwise: with the same numbers."""
    features, rois = torch.randn(1, 4, 8, 8), torch.tensor([[0.0, 1.3, 1.7, 5.1, 6.2]])
    for name in ("roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"):
        on_cpu, on_npu = (getattr(ops, name)(features.to(device), rois.to(device), 2) for device in ("cpu", "npu"))
        assert on_cpu.device.type == "cpu"
        torch.testing.assert_close(on_npu.cpu(), on_cpu, rtol=1e-4, atol=1e-5)
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2.1], [5, 5, 6, 6]])
    assert ops.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
    assert torch.ops.torchvision._cuda_version() <= 0 or torch.version.cuda


def test_a_program_that_defines_an_operator_of_torchvision_itself(run):
    """As one does where the extension cannot be loaded."""
    code = """
import torch
mine = torch.library.Library("torchvision", "FRAGMENT")
mine.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import torch_npu, torchvision
b = torch.tensor([[0., 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6]]).npu()
print(torchvision.ops.nms(b, b[:, 2], 0.5).tolist(), torchvision.extension._has_ops())
"""
    if not tv.extension._has_ops.__module__.startswith("torch_npu"):
        pytest.skip("this torchvision has its extension, which defines them")
    result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout == "[2, 0] True\n", result.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_returns_the_type_of_the_features_for_every_operator(dtype):
    features, rois = torch.randn(1, 4, 8, 8).to(dtype).npu(), torch.tensor([[0.0, 1.25, 1.75, 5, 6.25]]).npu()
    wide = [getattr(torch.ops.torchvision, name)(features.float(), rois, 1.0, 2, 2, *more)
            for name, more in (("roi_pool", ()), ("ps_roi_align", (2,)))]
    with torch.autocast("npu", dtype=dtype):
        short = [getattr(torch.ops.torchvision, name)(features, rois, 1.0, 2, 2, *more)
                 for name, more in (("roi_pool", ()), ("ps_roi_align", (2,)))]
    for results, expected in zip(short, wide):
        assert results[0].dtype == dtype and results[1].dtype == torch.int32 and torch.equal(results[1], expected[1])
        assert torch.equal(results[0], expected[0].to(dtype))


def test_meta_results():
    out = ops.roi_align(torch.empty(1, 3, 8, 8, device="meta"), torch.empty(4, 5, device="meta"), 2)
    assert out.shape == (4, 3, 2, 2)


@pytest.mark.parametrize("order, autoload", [("import torch_npu, torchvision", "1"), ("import torchvision, torch_npu", "1"),
                                             ("import torchvision", "1"), ("import torch_npu, torchvision", "0"),
                                             ("import torchvision, torch_npu", "0")])
def test_either_order_of_imports(run, order, autoload):
    if autoload == "0" and order.startswith("import torchvision"):
        if run("import torchvision", TORCH_DEVICE_BACKEND_AUTOLOAD="0").returncode:
            pytest.skip("this torchvision needs CUDA libraries: without torch_npu it cannot be imported")
    code = f"{order}; import torch; b = torch.tensor([[0., 0, 2, 2]]).npu(); print(torchvision.ops.nms(b, b[:, 2], 0.5).tolist())"
    result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert result.stdout == "[0]\n", result.stderr
