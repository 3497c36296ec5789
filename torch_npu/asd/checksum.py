"""Checksums of matrix products."""

from torch_npu._refusal import refuse

matmul_checksum = refuse("torch_npu.matmul_checksum", "the checksum that the official plugin compares is not published; compare a @ b with "
                         "a.double() @ b.double()", "a, b, c")
