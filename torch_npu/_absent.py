"""Names of the official plugin that torch_npu itself does not have, and why: torch_npu.X raises the sentence, and hasattr is truthful."""

_ATB = "what this operator of CANN's library ATB computes is not published; torch_npu.atb lists those that are there"
REASONS = {
    "_npu_flash_attention": _ATB + ", and torch_npu.npu_fusion_attention computes attention",
    "_npu_flash_attention_qlens": _ATB,
    "_npu_flash_attention_v2": _ATB,
    "_npu_flash_attention_v3": _ATB,
    "_npu_flash_attention_prefix_v2": _ATB,
    "_npu_group_topk": _ATB,
    "_npu_paged_attention_mla": _ATB,
    "_npu_paged_attention_quant": _ATB,
    "_npu_paged_attention_splitfuse": _ATB,
    "_npu_paged_attention_splitfuse_v2": _ATB,
    "_npu_quant_rms_norm": _ATB,
    "_npu_quantize_per_tensor": _ATB,
    "npu_fusion_attention_graph": "it is npu_fusion_attention for CANN's graph compiler; graphs here capture npu_fusion_attention itself",
    "onnx": "torch.onnx exports torch's operators; export the model before it uses npu operators",
    "_apply_all_patches": "torch is not patched when torch_npu is imported; torch_npu.contrib.transfer_to_npu patches on request",
    "_inductor": "torch.compile's default backend for npu is torch_npu.dynamo, which needs no Triton",
}
