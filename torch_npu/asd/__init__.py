"""Silent data corruption, as torch_npu.asd of the official plugin: the names are there and refuse."""

from torch_npu.asd import asd as asd
