"""Names of the official plugin below torch_npu.op_plugin that packages import."""
