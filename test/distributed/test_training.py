"""Data, tensor and pipeline parallel training on npu equals training in one process on the CPU."""

import pytest
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
