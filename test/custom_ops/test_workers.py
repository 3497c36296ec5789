"""Attention and FFN workers: a context with addresses of the card, written as the record that the workers share."""

import struct

import pytest
import torch

import torch_npu


def context(tokens, micro_batch, size=None):
    """1024 bytes; the area of attention is the third, and says where tokens arrive and which micro batch is next."""
    size = tokens.nbytes if size is None else size
    area = struct.pack("<QQQQI92x", 0, 0, tokens.data_ptr(), size, micro_batch)
    record = bytes(256) + area + bytes(1024 - 256 - len(area))
    return torch.frombuffer(bytearray(record), dtype=torch.int8).npu()


def combined(tokens, micro_batch, scales):
    """The last of each token's rows is the shared expert's."""
    rows = tokens[micro_batch].double()
    result = rows[:, -1].clone()
    for k in range(scales.shape[1]):
        result += rows[:, k] * scales[:, k : k + 1].double()
    return result


@pytest.mark.parametrize(("number", "dtype"), [(0, torch.float16), (1, torch.bfloat16)], ids=str)
@pytest.mark.parametrize(("batches", "rows", "experts", "size"), [(1, 5, 8, 16), (3, 4, 2, 33), (2, 1, 1, 8)], ids=str)
def test_combine_adds_up_the_tokens_of_the_micro_batch(number, dtype, batches, rows, experts, size):
    tokens = torch.randn(batches, rows, experts + 1, size).to(dtype)
    scales, layer = torch.rand(rows, experts), torch.tensor([7], dtype=torch.int32)
    arrived = tokens.npu()
    for micro_batch in range(batches):
        y, following = torch_npu.npu_attention_worker_combine(context(arrived, micro_batch), scales.npu(), layer.npu(), size,
                                                              token_dtype=number)
        assert y.dtype == dtype and following.tolist() == [8]
        torch.testing.assert_close(y.cpu().double(), combined(tokens, micro_batch, scales), rtol=1e-2, atol=1e-2)


def test_combine_of_meta_tensors():
    arguments = (torch.empty(1024, dtype=torch.int8), torch.empty(5, 2), torch.empty(1, dtype=torch.int32))
    y, following = torch.ops.npu.npu_attention_worker_combine(*(t.to("meta") for t in arguments), 16, token_dtype=1)
    assert (y.shape, y.dtype, following.shape, following.dtype) == ((5, 16), torch.bfloat16, (1,), torch.int32)


def test_combine_refuses_what_it_cannot_do():
    tokens, scales, layer = torch.zeros(1, 3, 3, 8).half().npu(), torch.ones(3, 2).npu(), torch.ones(1, dtype=torch.int32).npu()
    with pytest.raises(RuntimeError, match="need_schedule"):
        torch_npu.npu_attention_worker_combine(context(tokens, 0), scales, layer, 8, need_schedule=1)
    with pytest.raises(RuntimeError, match="token_dtype must be 0"):
        torch_npu.npu_attention_worker_combine(context(tokens, 0), scales, layer, 8, token_dtype=2)
    with pytest.raises(RuntimeError, match="1024"):
        torch_npu.npu_attention_worker_combine(context(tokens, 0)[:512], scales, layer, 8)
    with pytest.raises(RuntimeError, match="too few for micro batch 1"):
        torch_npu.npu_attention_worker_combine(context(tokens, 1), scales, layer, 8)
        torch.npu.synchronize()
