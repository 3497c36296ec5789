"""torch.compile for npu: what Dynamo asks about the device (interface, rules), and the backends (backend, fusions, capture, inductor)."""
