"""DTensor and tensor parallelism work on npu meshes as upstream ships them. The rules of operators that upstream has none for are in
attention.py (the fused attention) and sharding.py (operators that only an NPU has)."""
