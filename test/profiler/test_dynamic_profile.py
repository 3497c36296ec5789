"""torch_npu.profiler.dynamic_profile: a file that is edited starts a profile in a running program."""

import json
import warnings
from types import SimpleNamespace

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


# ---- Without a card: what a file means ----


class Recording:
    """Stands for a profile: keeps what it is told."""

    begins = True

    def __init__(self, **arguments):
        self.arguments, self.said = arguments, []
        self.is_running = False

    def start(self):
        self.is_running = self.begins

    def step(self):
        self.said.append("step")

    def stop(self):
        self.said.append("stop")

    def add_metadata_json(self, key, value):
        self.said.append((key, value))


@pytest.fixture
def recordings(watch, monkeypatch):
    made = []
    monkeypatch.setattr(dynamic_profile, "profile", lambda **arguments: made.append(Recording(**arguments)) or made[-1])
    return made


def begin(tmp_path, plan):
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    dynamic_profile.start(str(file))


FLAGS = dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), False)


def test_an_empty_file_means_one_step_of_everything(recordings, tmp_path):
    begin(tmp_path, {})
    given = recordings[0].arguments
    handler, config, plan = (vars(given.pop(name)) for name in ("on_trace_ready", "experimental_config", "schedule"))
    assert [str(entry) for entry in given.pop("activities")] == ["ProfilerActivity.CPU", "ProfilerActivity.NPU"] and given == FLAGS
    assert handler == {"directory": "./", "worker": None, "analyse_flag": False, "async_mode": False}
    assert plan == {"wait": 0, "active": 1, "warmup": 0, "repeat": 1, "skip_first": 0, "skip_first_wait": 0}
    assert config["_aic_metrics"] == "ACL_AICORE_NONE" and config["_profiler_level"] == "Level0" and recordings[0].said == []


def test_every_setting_of_a_file_arrives(recordings, tmp_path):
    plan = {"activities": ["ProfilerActivity.NPU"], "prof_dir": "there", "analyse": True, "async_mode": True, "active": 2, "warmup": 3,
            "metadata": {"a": 1, "b": "x"}, **dict.fromkeys(FLAGS, True),
            "experimental_config": {"aic_metrics": "MemoryUB", "profiler_level": "Level2", "mstx": True, "mstx_domain_include": ["d"],
                                    "gc_detect_threshold": 4, "export_type": ["db"], "data_simplification": False}}
    begin(tmp_path, plan)
    given = recordings[0].arguments
    handler, config, plan = (vars(given.pop(name)) for name in ("on_trace_ready", "experimental_config", "schedule"))
    assert [str(entry) for entry in given.pop("activities")] == ["ProfilerActivity.NPU"] and given == dict.fromkeys(FLAGS, True)
    assert handler == {"directory": "there", "worker": None, "analyse_flag": True, "async_mode": True}
    assert (plan["active"], plan["warmup"]) == (2, 3) and recordings[0].said == [("a", "1"), ("b", '"x"')]
    assert config == {"_aic_metrics": "ACL_AICORE_MEMORY_UB", "_profiler_level": "Level2", "_mstx": True, "_mstx_domain_include": ["d"],
                      "_mstx_domain_exclude": [], "_gc_detect_threshold": 4.0, "_export_type": ["db"], "_data_simplification": False}
    for _ in range(7):
        dynamic_profile.step()
    assert recordings[0].said[2:] == ["step"] * 5 + ["stop"] and len(recordings) == 1
    begin(tmp_path, {"experimental_config": {"aic_metrics": "ACL_AICORE_MEMORY_UB"}})
    assert recordings[1].arguments["experimental_config"]._aic_metrics == "ACL_AICORE_MEMORY_UB"


def test_a_profile_that_does_not_begin_is_not_under_way(recordings, watch, tmp_path, monkeypatch):
    monkeypatch.setattr(Recording, "begins", False)
    begin(tmp_path, {"metadata": {"a": 1}})
    assert watch.running is None and recordings[0].said == []


@pytest.mark.parametrize(("rank", "plan", "records"), [
    (None, {"is_rank": True, "rank_list": [0]}, True), (3, {"is_rank": True, "rank_list": [0]}, False), (3, {"rank_list": [0]}, True),
    (3, {"is_rank": True, "rank_list": [1, 3]}, True), (3, {"is_rank": True}, False), (0, {"is_rank": True, "rank_list": None}, False),
])
def test_the_ranks_that_are_named(recordings, tmp_path, monkeypatch, rank, plan, records):
    monkeypatch.setattr(dynamic_profile._about, "rank", lambda: rank)
    begin(tmp_path, plan)
    assert len(recordings) == records


@pytest.mark.parametrize(("plan", "words"), [
    ([], "it must be a JSON object"), ({"active": 0}, "active must be an integer of at least 1"),
    ({"active": True}, "active must be an integer of at least 1"), ({"warmup": -1}, "warmup must be an integer of at least 0"),
    ({"start_step": 1.0}, "start_step must be an integer of at least 0"), ({"z": 1, "b": 2}, "there is no setting 'b'"),
    ({"analyse": 1}, "analyse must be true or false"), ({"rank_list": {}}, "rank_list must be a list"),
    ({"metadata": []}, "metadata must be a JSON object"), ({"prof_dir": 1}, "prof_dir must be a text"),
    ({"activities": [1]}, "activities must be a list of texts"),
    ({"experimental_config": {"z": 1, "l": 1}}, "experimental_config has no setting 'l'"),
])
def test_what_a_file_may_not_say(recordings, tmp_path, plan, words):
    (sentence,) = sentences(lambda: begin(tmp_path, plan))
    assert sentence == f"torch_npu.profiler: dynamic_profile does not take {tmp_path / 'plan.json'}: {words}." and recordings == []
    assert dynamic_profile._wrong({"active": 1, "warmup": 0, "start_step": 0, "is_valid": True}) is None
    assert dynamic_profile._wrong(dynamic_profile._TEMPLATE) is None


def test_the_step_that_is_named(recordings, watch, tmp_path):
    def planned(first, at):
        watch.planned, watch.steps, watch.running = {"start_step": first}, at - 1, None
        recordings.clear()
        return sentences(dynamic_profile.step), len(recordings), watch.planned is None

    assert planned(0, 9) == planned(5, 5) == ([], 1, True) and planned(6, 5) == ([], 0, False)
    (sentence,), count, _ = planned(4, 5)
    assert sentence.endswith("dynamic_profile is at step 5 already; start_step 4 of None is past, nothing is recorded.") and count == 0
    dynamic_profile.set_state({"cur_step": 40})
    assert watch.steps == 40
    for wrong in (40, {"cur_step": "4"}, {}):
        (sentence,) = sentences(lambda wrong=wrong: dynamic_profile.set_state(wrong))
        assert sentence.endswith(f"set_state takes {{'cur_step': a number}}, but got {wrong!r}; ignored.") and watch.steps == 40
    assert sentences(dynamic_profile.start)[0].endswith("dynamic_profile.start() needs a file, or init() before it.")


def test_the_file_is_looked_at_every_two_seconds(recordings, watch, tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(dynamic_profile, "_watch", watch)
    now, read = [0.0], []
    monkeypatch.setattr(dynamic_profile, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(dynamic_profile, "_read", lambda file: read.append(now[0]))
    dynamic_profile._look()
    dynamic_profile.init(str(tmp_path))
    assert json.loads((tmp_path / "profiler_config.json").read_text()) == dynamic_profile._TEMPLATE
    for second in (10.0, 11.9, 12.0, 12.5):
        now[0] = second
        (tmp_path / "profiler_config.json").write_text("{}" + " " * int(second))
        watch.seen = 0  # it has changed
        dynamic_profile._look()
    assert read == [10.0, 12.0]
    now[0] = 20.0
    dynamic_profile._look()
    now[0] = 30.0
    dynamic_profile._look()  # nothing has changed since
    (tmp_path / "profiler_config.json").unlink()
    now[0] = 40.0
    dynamic_profile._look()
    assert read == [10.0, 12.0, 20.0]
    (tmp_path / "profiler_config.json").write_text("[]")
    watch.planned = {}
    dynamic_profile.init(str(tmp_path))  # leaves the file as it is, and what was planned before
    assert watch.planned is None and (tmp_path / "profiler_config.json").read_text() == "[]"
