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


def test_only_the_buffers_own_memory_is_valid():
    tensors = [torch.ones(2, device="npu"), torch.ones(0, device="npu"), torch.ones(2, 2, device="npu")]
    combined = npu_combine_tensors(tensors)
    assert is_combined_tensor_valid(combined, tensors)
    others = {
        "a missing one": [tensors[0], None, tensors[2]],
        "another order": [tensors[2], tensors[1], tensors[0]],
        "another type": [tensors[0].view(torch.int32), *tensors[1:]],
        "another stride": [*tensors[:2], tensors[2].t()],
        "a gap": [combined[:2], combined[3:]],
        "more than the buffer": [*tensors, torch.ones(1, device="npu")],
        "less": tensors[:2],
        "nothing": [],
    }
    assert [name for name, given in others.items() if is_combined_tensor_valid(combined, given)] == []
    assert is_combined_tensor_valid(combined, [combined[:3], combined[3:], torch.ones(0, device="npu")])


def test_values_are_copied_unless_that_is_not_required():
    tensors = [torch.full((2,), 3.0, device="npu"), torch.full((1,), 4.0, device="npu")]
    before = [t.data_ptr() for t in tensors]
    combined = npu_combine_tensors(tensors, require_copy_value=False)
    assert is_combined_tensor_valid(combined, tensors) and combined.shape == (3,) and tensors[0].data_ptr() != before[0]
    with pytest.raises(RuntimeError, match="different dtype or device cannot share a buffer: torch.float32 on npu:0, torch.float32 on cpu"):
        npu_combine_tensors([torch.ones(1, device="npu"), torch.ones(1)])


def test_parameters_move_with_their_gradients_left_alone():
    parameters = [torch.nn.Parameter(torch.full((2,), float(n), device="npu")) for n in range(2)]
    combined = npu_combine_tensors(parameters)
    assert combined.tolist() == [0, 0, 1, 1] and not combined.requires_grad and all(p.requires_grad for p in parameters)
