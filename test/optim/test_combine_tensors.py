"""torch_npu.utils.npu_combine_tensors: several tensors in one buffer."""

import pytest
import torch

from torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors


def test_tensors_become_views_with_their_values():
    tensors = [torch.arange(6.0, device="npu").view(2, 3), torch.ones(2, 2, device="npu").t(), torch.full((), 7.0, device="npu")]
    combined = npu_combine_tensors(tensors)
    assert combined.tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 1, 1, 7]
    combined.mul_(2)
    assert tensors[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert is_combined_tensor_valid(combined, tensors)
    assert get_part_combined_tensor(combined, 6, 4).tolist() == [2, 2, 2, 2]


def test_a_replaced_tensor_is_noticed():
    tensors = [torch.ones(2, device="npu"), torch.ones(3, device="npu")]
    combined = npu_combine_tensors(tensors)
    assert not is_combined_tensor_valid(combined, tensors[:1])
    tensors[1] = tensors[1].clone()
    assert not is_combined_tensor_valid(combined, tensors)


def test_bad_input():
    assert npu_combine_tensors([]) is None
    with pytest.raises(RuntimeError, match="different dtype or device"):
        npu_combine_tensors([torch.ones(1, device="npu"), torch.ones(1, device="npu").half()])
    with pytest.raises(RuntimeError, match="not within the buffer"):
        get_part_combined_tensor(torch.ones(3, device="npu"), 2, 2)
    with pytest.raises(RuntimeError, match="not within the buffer"):
        get_part_combined_tensor(torch.ones(3, device="npu"), -1, 2)
    with pytest.raises(RuntimeError, match="not within the buffer"):
        get_part_combined_tensor(torch.ones(3, device="npu"), 1, -1)


@pytest.mark.parametrize("index, size", [(0, 3), (0, 0), (2, 1), (3, 0)])
def test_a_part_may_begin_and_end_with_the_buffer(index, size):
    buffer = torch.arange(3.0, device="npu")
    part = get_part_combined_tensor(buffer, index, size)
    assert part.tolist() == list(range(index, index + size)) and part.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()


def test_nothing_is_combined_into_nothing():
    assert is_combined_tensor_valid(None, []) is True
    assert is_combined_tensor_valid(None, [torch.ones(1, device="npu")]) is False
