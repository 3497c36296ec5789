"""torch_npu.contrib.function."""

from torch_npu._refusal import alias_modules as _alias
from torch_npu.contrib.function import attention as _attention, boxes as _boxes, indexing as _indexing
from torch_npu.contrib.function.attention import (
    dropout_with_byte_mask,
    fuse_add_softmax_dropout,
    matmul_transpose,
    npu_fused_attention,
    npu_fused_attention_with_layernorm,
)
from torch_npu.contrib.function.boxes import (
    npu_bbox_coder_decode_xywh2xyxy,
    npu_bbox_coder_encode_xyxy2xywh,
    npu_bbox_coder_encode_yolo,
    npu_ciou,
    npu_diou,
    npu_giou,
    npu_iou,
    npu_ptiou,
    npu_single_level_responsible_flags,
)
from torch_npu.contrib.function.indexing import npu_fast_condition_index_put, roll
from torch_npu.contrib.function.nms import npu_batched_multiclass_nms, npu_multiclass_nms

__all__ = [
    "dropout_with_byte_mask",
    "fuse_add_softmax_dropout",
    "matmul_transpose",
    "npu_batched_multiclass_nms",
    "npu_bbox_coder_decode_xywh2xyxy",
    "npu_bbox_coder_encode_xyxy2xywh",
    "npu_bbox_coder_encode_yolo",
    "npu_ciou",
    "npu_diou",
    "npu_fast_condition_index_put",
    "npu_fused_attention",
    "npu_fused_attention_with_layernorm",
    "npu_giou",
    "npu_iou",
    "npu_multiclass_nms",
    "npu_ptiou",
    "npu_single_level_responsible_flags",
    "roll",
]

# The official plugin has a file for each of these.
_alias(__name__, {
    "anchor_generator": _boxes, "bbox_coder": _boxes, "iou": _boxes, "fused_attention": _attention, "npu_functional": _attention,
    "fuse_add_softmax_dropout": _attention, "matmul_transpose": _attention, "index_op": _indexing, "roll": _indexing,
})
