"""See torch_npu/custom_ops/atb.py for the operators."""
