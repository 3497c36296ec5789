"""Why names of CANN's graph engine refuse."""

REASON = "it is of CANN's graph engine, which torch_npu does not use: torch.compile(backend=\"npu\") captures the model's own operators"
