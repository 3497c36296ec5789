"""torch_npu.profiler.dynamic_profile: a file that is edited starts a profile in a running program."""

import json
import warnings

import pytest
import torch
from profile_folder import rows

from torch_npu.profiler import dynamic_profile


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.setattr(dynamic_profile, "_watch", dynamic_profile._Watch())
    monkeypatch.setattr(dynamic_profile, "_SECONDS", 0)
    return dynamic_profile._watch


def edit(folder, **changes):
    file = folder / "profiler_config.json"
    plan = json.loads(file.read_text()) | {"prof_dir": str(folder / "out"), "analyse": True} | changes
    file.write_text(json.dumps(plan))


def steps(count):
    for _ in range(count):
        torch.ones(8, device="npu")
        dynamic_profile.step()


def sentences(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(entry.message) for entry in caught if "torch_npu.profiler:" in str(entry.message)]


def test_an_edited_file_starts_a_profile(watch, tmp_path):
    dynamic_profile.init(str(tmp_path))
    steps(2)
    assert not (tmp_path / "out").exists()
    edit(tmp_path, start_step=4, active=2)
    steps(5)
    (folder,) = (tmp_path / "out").iterdir()
    assert len(rows(folder, "kernel_details")) == 2 and watch.running is None
    steps(3)
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_start_at_once(watch, tmp_path):
    dynamic_profile.init(str(tmp_path))
    edit(tmp_path, active=1, metadata={"model": {"layers": 2}}, experimental_config={"profiler_level": "Level1"})
    dynamic_profile.start()
    assert len(sentences(dynamic_profile.start)) == 1
    steps(1)
    (folder,) = (tmp_path / "out").iterdir()
    assert json.loads((folder / "profiler_metadata.json").read_text())["model"] == {"layers": 2}
    assert (folder / "ASCEND_PROFILER_OUTPUT" / "api_statistic.csv").exists()


def test_other_ranks_do_not_record(watch, tmp_path):
    dynamic_profile.init(str(tmp_path))
    edit(tmp_path, is_rank=True, rank_list=[3])
    dynamic_profile.start()
    steps(2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("changes", [
    {"activities": [1]}, {"activities": "CPU"}, {"prof_dir": 5}, {"is_rank": True, "rank_list": 3}, {"metadata": [1]}, {"metadata": "x"},
    {"experimental_config": 5}, {"analyse": "no"}, {"with_stack": 1}, {"warmup": None},
])  # fmt: skip
def test_a_file_with_values_of_other_kinds_does_not_stop_the_program(watch, tmp_path, changes):
    dynamic_profile.init(str(tmp_path))
    edit(tmp_path, **changes)
    (sentence,) = sentences(lambda: steps(3))
    assert "does not take" in sentence and any(name in sentence for name in changes)
    assert watch.running is None and not (tmp_path / "out").exists()


def test_null_is_as_if_a_setting_were_not_there(watch, tmp_path):
    dynamic_profile.init(str(tmp_path))
    nothing = {"profiler_level": None, "export_type": None, "data_simplification": None, "mstx": None, "host_sys": None}
    edit(tmp_path, activities=None, metadata=None, record_shapes=None, rank_list=None, experimental_config=nothing)
    assert sentences(lambda: steps(3)) == []
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_what_cannot_be_is_told_once(watch, tmp_path):
    assert len(sentences(dynamic_profile.start)) == 1
    (tmp_path / "file").touch()
    assert "cannot watch" in sentences(lambda: dynamic_profile.init(str(tmp_path / "file" / "below")))[0]
    dynamic_profile.init(str(tmp_path))
    for changes, word in (({"active": 0}, "active"), ({"acitve": 1}, "acitve"), ({"experimental_config": {"levle": 1}}, "experimental")):
        dynamic_profile.init(str(tmp_path))
        before = (tmp_path / "profiler_config.json").read_text()
        edit(tmp_path, **changes)
        (sentence,) = sentences(lambda: steps(3))
        assert word in sentence
        (tmp_path / "profiler_config.json").write_text(before)
        dynamic_profile.init(str(tmp_path))
    (tmp_path / "profiler_config.json").write_text("{")
    assert len(sentences(lambda: steps(3))) == 1
    dynamic_profile.set_state({"cur_step": 100})
    (tmp_path / "profiler_config.json").unlink()
    dynamic_profile.init(str(tmp_path))
    edit(tmp_path, start_step=50)
    assert "is past" in sentences(lambda: steps(2))[0]
    assert len(sentences(lambda: dynamic_profile.set_state({}))) == 1
