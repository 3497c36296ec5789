"""Data, tensor and pipeline parallel training on npu equals training in one process on the CPU."""

import attention_cases
import pytest
import sharding_cases
import training_cases as cases


@pytest.mark.parametrize("model", ["mlp", "cnn", "gpt"])
def test_ddp(pair, model):
    pair.run(cases.ddp, model)


@pytest.mark.parametrize("model", ["mlp", "cnn", "gpt"])
def test_fsdp2(pair, model):
    pair.run(cases.fsdp2, model)


@pytest.mark.parametrize("name", cases.CASES)
def test_case(pair, name):
    pair.run(getattr(cases, name))


def test_four_ranks(four):
    four.run(cases.ddp, "mlp")
    four.run(cases.fsdp2, "mlp")


def test_checkpoint_of_four_ranks_is_loaded_by_two(four, pair, tmp_path):
    four.run(cases.save_checkpoint, str(tmp_path))
    pair.run(cases.load_checkpoint, str(tmp_path))


@pytest.mark.parametrize("bias", attention_cases.BIASES)
@pytest.mark.parametrize("dim", [None, 0, 1, 2])
def test_attention_of_dtensors(pair, dim, bias):
    pair.run(attention_cases.of_dtensors, dim, bias)


@pytest.mark.parametrize("rotate", ["allgather", "alltoall"])
@pytest.mark.parametrize(("causal", "balanced"), [(True, True), (True, False), (False, False)])
def test_context_parallel_attention(pair, causal, balanced, rotate):
    pair.run(attention_cases.along_the_sequence, causal, rotate, balanced)


def test_context_parallel_attention_of_four_ranks(four):
    four.run(attention_cases.along_the_sequence, True, "alltoall", True)


def test_context_parallel_attention_with_a_mask_is_refused(pair):
    for message in pair.run(attention_cases.a_mask_along_the_sequence):
        assert "mask" in message


@pytest.mark.parametrize("name", sharding_cases.CASES)
def test_npu_operators_of_dtensors(pair, name):
    pair.run(sharding_cases.splits_as_whole, name)


def test_npu_operators_of_dtensors_move_nothing_that_may_be_split(pair):
    pair.run(sharding_cases.stays_where_it_is)
