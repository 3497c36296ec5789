"""torchair.ops: operators that graphs record beside the model's own."""

import torch

from torch_npu._refusal import refuse

_EVENTS = "use torch.npu.ExternalEvent, whose record and wait become part of a captured graph"
npu_create_tagged_event = refuse("torchair.ops.npu_create_tagged_event", _EVENTS)
npu_record_tagged_stream = refuse("torchair.ops.npu_record_tagged_stream", "use tensor.record_stream(stream)")
npu_tagged_event_record = refuse("torchair.ops.npu_tagged_event_record", _EVENTS)
npu_tagged_event_wait = refuse("torchair.ops.npu_tagged_event_wait", _EVENTS)
record = refuse("torchair.ops.record", _EVENTS)
wait = refuse("torchair.ops.wait", _EVENTS)
npu_print = refuse("torchair.ops.npu_print", "use torch_npu.print_npugraph_tensor, which graphs capture", "*args, summarize_size=3")


def npu_fused_infer_attention_score(*args, **kwargs):
    """torch_npu.npu_fused_infer_attention_score."""
    return torch.ops.npu.npu_fused_infer_attention_score(*args, **kwargs)


def npu_fused_infer_attention_score_v2(*args, **kwargs):
    """torch_npu.npu_fused_infer_attention_score_v2."""
    return torch.ops.npu.npu_fused_infer_attention_score_v2(*args, **kwargs)
