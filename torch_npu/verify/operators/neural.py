"""Convolutions, pooling, normalisation, resizing, attention and recurrent layers."""

import torch
from torch import nn
from torch.nn import functional as F

from torch_npu.verify.samples import FLOAT32, Operator, f, mask

LINE, IMAGE, VOLUME = f(2, 16, 20), f(2, 16, 12, 14), f(2, 8, 6, 7, 8)
WEIGHT, BIAS = f(24, 16, 3, 3, low=-0.3, high=0.3), f(24)
HEADS = f(2, 4, 16, 32)
SCALE, SHIFT = f(16, low=0.5, high=1.5), f(16)


def conv(name, shape, image=IMAGE, loose=8.0, types=None, bias=True, **options):
    """A convolution `name` of F with a weight of `shape`."""
    outputs = shape[1] * options.get("groups", 1) if "transpose" in name else shape[0]
    label = "".join(f"_{key}" for key in options)
    tensors = (image, f(*shape, low=-0.3, high=0.3)) + ((f(outputs),) if bias else ())
    more = {"types": types} if types else {}
    return Operator(f"F.{name}{label}", lambda *t: getattr(F, name)(*t, **options), tensors, loose=loose, **more)


def on(name, image, *numbers, types=None, label="", gradient=True, **options):
    more = {"types": types} if types else {}
    return Operator(f"F.{name}{label}", lambda x: getattr(F, name)(x, *numbers, **options), (image,), gradient=gradient, **more)


def resized(mode, image, **options):
    return Operator(f"F.interpolate_{mode}", lambda x: F.interpolate(x, scale_factor=2, mode=mode, **options), (image,), FLOAT32, loose=4)


def recurrent(kind):
    """A layer of 16 to 24 numbers whose weights come in one tensor; sequences first."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * 24

    def run(x, flat):
        layer = getattr(nn, kind)(16, 24).to(x.device, x.dtype)
        with torch.no_grad():
            start = 0
            for parameter in layer.parameters():
                parameter.copy_(flat[start : start + parameter.numel()].view(parameter.shape))
                start += parameter.numel()
        return layer(x)[0]

    return Operator(f"nn.{kind}", run, (f(7, 3, 16), f(gates * (16 + 24 + 2), low=-0.3, high=0.3)), FLOAT32, gradient=False, loose=8)


def normalised(x, w, b):
    return F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b, training=True)


OPERATORS = [
    conv("conv1d", (24, 16, 3), LINE, padding=1),
    conv("conv2d", (24, 16, 3, 3)),
    conv("conv2d", (24, 16, 3, 3), padding=1, stride=2),
    conv("conv2d", (24, 16, 3, 3), dilation=2),
    conv("conv2d", (24, 4, 3, 3), groups=4),
    conv("conv2d", (16, 1, 3, 3), groups=16, padding=1),
    conv("conv3d", (12, 8, 3, 3, 3), VOLUME, padding=1, types=FLOAT32),
    conv("conv_transpose1d", (16, 12, 3), LINE, stride=2, types=FLOAT32),
    conv("conv_transpose2d", (16, 12, 3, 3), stride=2, padding=1),
    conv("conv_transpose3d", (8, 6, 2, 2, 2), VOLUME, stride=2, types=FLOAT32),
    Operator("F.conv2d_1x1", F.conv2d, (IMAGE, f(24, 16, 1, 1)), loose=8),
    Operator("F.conv2d_channels_last", lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w), (IMAGE, WEIGHT), loose=8),
    on("max_pool1d", LINE, 3, types=FLOAT32), on("max_pool2d", IMAGE, 2), on("max_pool2d", IMAGE, 3, 2, 1, label="_padding"),
    on("max_pool3d", VOLUME, 2, types=FLOAT32),
    on("avg_pool1d", LINE, 3), on("avg_pool2d", IMAGE, 2), on("avg_pool2d", IMAGE, 3, 2, 1, label="_padding"),
    on("avg_pool3d", VOLUME, 2, types=FLOAT32),
    on("adaptive_avg_pool1d", LINE, 5), on("adaptive_avg_pool2d", IMAGE, (3, 4)), on("adaptive_avg_pool2d", IMAGE, 1, label="_one"),
    on("adaptive_avg_pool3d", VOLUME, (2, 3, 2), types=FLOAT32), on("adaptive_max_pool2d", IMAGE, (3, 4), types=FLOAT32),
    on("lp_pool2d", f(2, 4, 8, 8, low=0.1), 2.0, 2, types=FLOAT32),
    Operator("F.batch_norm_training", normalised, (IMAGE, SCALE, SHIFT), loose=4),
    Operator("F.batch_norm_eval", lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b), (IMAGE, SCALE, SHIFT, f(16), f(16, low=0.5)), FLOAT32,
             gradient=False),
    Operator("F.layer_norm", lambda x, w, b: F.layer_norm(x, (64,), w, b), (f(33, 64), f(64, low=0.5), f(64)), loose=4),
    Operator("F.layer_norm_plain", lambda x: F.layer_norm(x, (16, 20)), (LINE,), loose=4),
    Operator("F.group_norm", lambda x, w, b: F.group_norm(x, 4, w, b), (IMAGE, SCALE, SHIFT), loose=4),
    Operator("F.instance_norm", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (IMAGE, SCALE, SHIFT), FLOAT32, loose=4),
    Operator("F.rms_norm", lambda x, w: F.rms_norm(x, (64,), w, 1e-6), (f(33, 64), f(64, low=0.5)), loose=4),
    Operator("F.local_response_norm", lambda x: F.local_response_norm(x, 3), (IMAGE,), FLOAT32),
    Operator("F.normalize", F.normalize, (f(33, 64),)),
    Operator("F.cosine_similarity", F.cosine_similarity, (f(33, 64), f(33, 64))),
    Operator("F.pairwise_distance", F.pairwise_distance, (f(33, 64), f(33, 64)), FLOAT32),
    resized("nearest", IMAGE), resized("bilinear", IMAGE), resized("bicubic", IMAGE, align_corners=True), resized("linear", LINE),
    resized("trilinear", VOLUME), resized("area", IMAGE),
    Operator("F.grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), (f(2, 3, 8, 9), f(2, 5, 6, 2, low=-0.9, high=0.9)),
             FLOAT32, loose=4),
    Operator("F.affine_grid", lambda t: F.affine_grid(t, [2, 3, 5, 6], align_corners=False), (f(2, 2, 3),), FLOAT32),
    on("unfold", f(2, 3, 8, 9), 3), on("fold", f(2, 27, 42), (8, 9), 3),
    Operator("F.scaled_dot_product_attention", F.scaled_dot_product_attention, (HEADS, HEADS, HEADS), loose=4),
    Operator("F.scaled_dot_product_attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
             (HEADS, HEADS, HEADS), loose=4),
    Operator("F.scaled_dot_product_attention_mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m | torch.eye(
        16, dtype=torch.bool, device=m.device)), (HEADS, HEADS, HEADS, mask(2, 1, 16, 16)), loose=4),
    Operator("F.dropout_eval", lambda x: F.dropout(x, 0.5, training=False), (f(33, 64),)),
    recurrent("LSTM"), recurrent("GRU"), recurrent("RNN"),
]
