"""Attention and feed-forward layers on different cards (AFD): the schedule lies in memory whose layout is not published."""

from torch_npu._refusal import refuse, refuse_class

__all__ = ["create_schedule_context_holder"]

_REASON = "the layout of the schedule that the cards share is not published; use torch.distributed's point-to-point calls"
_PARAMETERS = ("schedule_mode: int, session_num: int, micro_batch_num: int, micro_batch_size: int, selected_expert_num: int, "
               "expert_num: int, attn_to_ffn_token_size: int, ffn_to_attn_token_size: int, *args, **kwargs")

ScheduleContextHolder = refuse_class("torch_npu._afd.ScheduleContextHolder", _REASON)
create_schedule_context_holder = refuse("torch_npu._afd.create_schedule_context_holder", _REASON, _PARAMETERS)
