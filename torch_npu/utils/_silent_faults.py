"""Detecting silent data corruption: the official plugin's rules are not published, so that these names refuse."""

from torch_npu._refusal import refuse

_REASON = "the rule by which the official plugin judges gradients is not published; watch losses and gradient norms, or compare two runs"

register_asd_hook = refuse("torch_npu.utils.register_asd_hook", _REASON, "x, weight")
set_asd_loss_scale = refuse("torch_npu.utils.set_asd_loss_scale", _REASON, "loss_scale=1.0")
