"""Overlap of rotated boxes: the common polygon of two rectangles, for all pairs at once."""

import torch

_TOLERANCE = 1e-5  # relative to the boxes: corners on an edge count as inside


def box_iou_rotated(boxes1, boxes2):
    """[N, M] overlaps of boxes (centre x, centre y, width, height, degrees counter-clockwise)."""
    common = common_area(boxes1, boxes2)
    a, b = boxes1.double(), boxes2.double()
    area1, area2 = (a[:, 2] * a[:, 3]).abs()[:, None], (b[:, 2] * b[:, 3]).abs()[None]
    whole = area1 + area2 - common
    return torch.where(whole > 0, common / whole.where(whole > 0, 1.0), 0.0).to(boxes1.dtype)


def common_area(boxes1, boxes2):
    """[N, M] areas that boxes have in common, in float64."""
    a, b = boxes1.double(), boxes2.double()
    # Relative to the first box, so that distant boxes lose no digits.
    shift = b[None, :, :2] - a[:, None, :2]
    count = (len(a), len(b))
    first = _corners(torch.zeros_like(a[:, :2]), a)[:, None].expand(*count, 4, 2)
    second = _corners(torch.zeros_like(b[:, :2]), b)[None] + shift[:, :, None]
    points, valid = _common_points(first, second)
    return _hull_area(points, valid)


def _corners(centre, boxes):
    angle = torch.deg2rad(boxes[:, 4])
    cos, sin = angle.cos(), angle.sin()
    half_width, half_height = boxes[:, 2] / 2, boxes[:, 3] / 2
    along = torch.stack([cos, -sin], -1) * half_width[:, None]
    across = torch.stack([sin, cos], -1) * half_height[:, None]
    return torch.stack([centre + along + across, centre - along + across, centre - along - across, centre + along - across], 1)


def _cross(a, b):
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _common_points(first, second):
    """Crossings of edges and corners of one box inside the other: [N, M, 24, 2] and which of them exist."""
    edge1, edge2 = first.roll(-1, 2) - first, second.roll(-1, 2) - second
    start1, start2, d1, d2 = first.unsqueeze(3), second.unsqueeze(2), edge1.unsqueeze(3), edge2.unsqueeze(2)
    slope = _cross(d1, d2)
    parallel = slope.abs() <= 1e-14
    slope = slope.masked_fill(parallel, 1.0)
    t, u = _cross(start2 - start1, d2) / slope, _cross(start2 - start1, d1) / slope
    crossing = (~parallel & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)).flatten(2)
    points = torch.cat([(start1 + t.unsqueeze(-1) * d1).flatten(2, 3), first, second], 2)
    return points, torch.cat([crossing, _inside(first, second, edge2), _inside(second, first, edge1)], 2)


def _inside(points, corners, edges):
    """Which points lie between the two pairs of edges of a box."""
    along, across = edges[:, :, 0:1], edges[:, :, 1:2]
    relative = points - corners[:, :, 0:1]
    result = torch.ones(points.shape[:3], dtype=torch.bool, device=points.device)
    for axis in (along, across):
        length = (axis * axis).sum(-1)
        place = (relative * axis).sum(-1)
        result = result & (length > 0) & (place >= -_TOLERANCE * length) & (place <= (1 + _TOLERANCE) * length)
    return result


def _hull_area(points, valid):
    """Area of the convex polygon of the valid points, which are its corners in any order, some of them twice."""
    weight = valid.to(points.dtype).unsqueeze(-1)
    centre = (points * weight).sum(2, keepdim=True) / weight.sum(2, keepdim=True).clamp(min=1.0)
    around = torch.where(valid.unsqueeze(-1), points - centre, 0.0)
    angle = torch.atan2(around[..., 1], around[..., 0]).masked_fill(~valid, 10.0)
    order = angle.argsort(-1)
    around = around.gather(2, order.unsqueeze(-1).expand_as(around))
    count = valid.sum(-1, keepdim=True)
    following = (torch.arange(1, points.shape[2] + 1, device=points.device) % count.clamp(min=1)).expand_as(order)
    after = around.gather(2, following.unsqueeze(-1).expand_as(around))
    ordered = torch.arange(points.shape[2], device=points.device) < count
    return (_cross(around, after) * ordered).sum(-1).abs() / 2
