"""DTensor and tensor parallelism work on npu meshes as upstream ships them; attention.py adds the rules of the fused attention."""
