"""DTensor and tensor parallelism work on npu meshes as upstream ships them; nothing is added."""
