"""What a profile is told: settings, schedules, activities, metadata, folders. Each sentence that says why something is not taken."""

import gc
import json
import os
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_profile import add, record, warned

from torch_npu import profiler
from torch_npu.profiler import _about, _folder, _listeners, profiler as module
from torch_npu.profiler.experimental_config import AiCMetrics, _ExperimentalConfig
from torch_npu.profiler.profiler import ProfilerActivity, _TraceHandler

PREFIX = "torch_npu.profiler: "


def told(work):
    """The sentences, without their beginning, and what the work gives."""
    results = []
    sentences = warned(lambda: results.append(work()))
    return [sentence.removeprefix(PREFIX) for sentence in sentences], results[0]


# ---- Settings ----

DEFAULTS = {"_profiler_level": "Level0", "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION", "_mstx": False, "_data_simplification": True,
            "_export_type": ["text"], "_mstx_domain_include": [], "_mstx_domain_exclude": [], "_gc_detect_threshold": None}
COUNTERS = "would need counters that this profiler does not read; ignored."


def test_settings_without_a_word():
    assert told(lambda: vars(_ExperimentalConfig())) == ([], DEFAULTS)
    for given, kept in (
        ({"profiler_level": "Level2"}, {"_profiler_level": "Level2"}), ({"mstx": True}, {"_mstx": True}),
        ({"msprof_tx": True}, {"_mstx": True}), ({"aic_metrics": AiCMetrics.L2Cache}, {"_aic_metrics": "ACL_AICORE_L2_CACHE"}),
        ({"data_simplification": False}, {"_data_simplification": False}), ({"export_type": None}, {"_export_type": ["text"]}),
        ({"export_type": ["db", "text", "db"]}, {"_export_type": ["db", "text"]}), ({"export_type": "db"}, {"_export_type": ["db"]}),
        ({"mstx_domain_include": ("a",)}, {"_mstx_domain_include": ["a"]}), ({"host_sys": []}, {}),
        ({"gc_detect_threshold": 0}, {"_gc_detect_threshold": 0.0}),
    ):
        assert told(lambda given=given: vars(_ExperimentalConfig(**given))) == ([], DEFAULTS | kept), given


@pytest.mark.parametrize(("given", "sentence", "kept"), [
    ({"profiler_level": "x"}, "profiler_level must be one of Level0, Level1, Level2, Level_none, but got 'x'; Level0 is used.", {}),
    ({"profiler_level": 1}, "profiler_level must be one of Level0, Level1, Level2, Level_none, but got 1; Level0 is used.", {}),
    ({"mstx": 1}, "mstx must be True or False, but got 1; False is used.", {}),
    ({"msprof_tx": None}, "msprof_tx must be True or False, but got None; False is used.", {}),
    ({"data_simplification": 0}, "data_simplification must be True or False, but got 0; True is used.", {}),
    ({"export_type": ["xml"]}, "export_type must be 'text', 'db' or a list of them, but got ['xml']; text is used.", {}),
    ({"export_type": []}, "export_type must be 'text', 'db' or a list of them, but got []; text is used.", {}),
    ({"export_type": 3}, "export_type must be 'text', 'db' or a list of them, but got 3; text is used.", {}),
    ({"mstx_domain_include": "a"}, "mstx_domain_include must be a list of texts, but got 'a'; ignored.", {}),
    ({"mstx_domain_exclude": [1]}, "mstx_domain_exclude must be a list of texts, but got [1]; ignored.", {}),
    ({"gc_detect_threshold": -1}, "gc_detect_threshold must be milliseconds, but got -1; garbage collection is not recorded.", {}),
    ({"gc_detect_threshold": True}, "gc_detect_threshold must be milliseconds, but got True; garbage collection is not recorded.", {}),
    ({"mstx_domain_include": ["a"], "mstx_domain_exclude": ["b"]}, "mstx_domain_include and mstx_domain_exclude cannot be combined; "
     "mstx_domain_exclude is ignored.", {"_mstx_domain_include": ["a"]}),
    ({"l2_cache": True, "host_sys": ["cpu"]}, f"l2_cache, host_sys {COUNTERS}", {}),
    ({"record_op_args": True, "op_attr": True, "sys_io": True, "sys_interconnection": True},
     f"record_op_args, op_attr, sys_io, sys_interconnection {COUNTERS}", {}),
])
def test_settings_that_are_not_taken(given, sentence, kept):
    assert told(lambda: vars(_ExperimentalConfig(**given))) == ([sentence], DEFAULTS | kept)


def test_groups_of_counters_that_are_none():
    ((sentence,), config) = told(lambda: _ExperimentalConfig(aic_metrics=3))
    assert sentence.endswith("but got 3; ACL_AICORE_NONE is used.") and config._aic_metrics == "ACL_AICORE_NONE"


def test_what_settings_answer():
    config = _ExperimentalConfig(gc_detect_threshold=1.5, mstx=True, mstx_domain_include=["a"], profiler_level="Level1", export_type="db")
    assert (config.with_gc, config.gc_detect_threshold, config.tx_enabled, config.profiler_level, config.export_type) == (
        True, 1.5, True, "Level1", ["db"])
    assert config.takes_domain("a") is True and config.takes_domain("b") is False
    config = _ExperimentalConfig(mstx_domain_exclude=["a"])
    assert config.takes_domain("a") is False and config.takes_domain("b") is True and config.with_gc is False
    assert profiler.supported_profiler_level() == {"Level0", "Level1", "Level2", "Level_none"}
    assert profiler.supported_export_type() == {"text", "db"} and len(profiler.supported_ai_core_metrics()) == 9


def test_schedules_that_are_not_taken():
    sentences, made = told(lambda: profiler.schedule(wait=-1, active=0, warmup="1", repeat=-1, skip_first=None, skip_first_wait=-1))
    assert [sentence.split()[1] for sentence in sentences] == ["wait", "active", "warmup", "repeat", "skip_first", "skip_first_wait"]
    assert sentences[1] == "schedule's active must be an integer of at least 1, but got 0; 1 is used."
    assert sentences[2] == "schedule's warmup must be an integer of at least 0, but got '1'; 0 is used."
    assert vars(made) == {"wait": 0, "active": 1, "warmup": 0, "repeat": 0, "skip_first": 0, "skip_first_wait": 0}
    assert vars(profiler.schedule(2, 1)) == {"wait": 2, "active": 1, "warmup": 0, "repeat": 0, "skip_first": 0, "skip_first_wait": 0}
    with pytest.raises(ValueError, match="step must not be negative, but got -1"):
        made(-1)


# ---- Arguments of a profile ----


def test_arguments_that_are_not_taken():
    sentences, made = told(lambda: profiler.profile(use_cuda=False, experimental_config=3, on_trace_ready=3, schedule=3, with_stack=1,
                                                    record_shapes=None))
    assert sentences == [
        "use_cuda has no meaning for an npu; ignored.", "experimental_config must be torch_npu.profiler._ExperimentalConfig; the default "
        "is used.", "on_trace_ready must be callable; ignored.", "schedule must be callable; every step is recorded.",
        "with_stack must be True or False, but got 1; False is used."]
    assert vars(made.config) == DEFAULTS and made.on_trace_ready is None and made._user_schedule is None and made.record_steps is True
    assert made._flags == dict.fromkeys(("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"), False)
    given = dict.fromkeys(made._flags, True)
    assert profiler.profile(**given)._flags == given and all(getattr(profiler.profile(**given), name) is True for name in given)


def test_which_activities_are_watched():
    both = [ProfilerActivity.CPU, ProfilerActivity.NPU]
    torchs = torch.profiler.ProfilerActivity
    for given, expected in ((None, both), ([ProfilerActivity.NPU, ProfilerActivity.CPU], both), ([torchs.PrivateUse1], both[1:]),
                            ([torchs.CUDA, torchs.CPU], both), ({torchs.CPU}, both[:1]), (ProfilerActivity.NPU, both[1:])):
        assert told(lambda given=given: module._watched(given)) == ([], expected)
    sentences = ["There is no activity 'GPU' on an npu; ignored."]
    assert told(lambda: module._watched(["GPU", both[0]])) == (sentences, both[:1])
    assert told(lambda: module._watched(["GPU"])) == ([*sentences, "No activity is left to be watched; CPU and NPU are."], both)
    assert told(lambda: module._watched([]))[1] == both
    config = _ExperimentalConfig()
    assert module._of_torch(both, config) == [torchs.CPU, torchs.PrivateUse1] and module._of_torch(both[1:], config) == [torchs.PrivateUse1]
    assert module._of_torch(both, _ExperimentalConfig("Level_none")) == [torchs.CPU]
    assert (ProfilerActivity.CPU.value, ProfilerActivity.NPU.value) == (1, 2)


def test_handlers_and_what_they_do_not_take(monkeypatch):
    def handler(*args, **options):
        return told(lambda: vars(profiler.tensorboard_trace_handler(*args, **options)))

    usual = {"directory": None, "worker": None, "analyse_flag": True, "async_mode": False}
    assert handler() == ([], usual) == handler(analyse_flag=None, async_mode=None)
    assert handler("d", "w" * 226, False, True) == ([], {"directory": "d", "worker": "w" * 226, "analyse_flag": False, "async_mode": True})
    for wrong in (3, ""):
        assert handler(wrong) == ([f"dir_name must be a path, but got {wrong!r}; the working directory is used."], usual)
    for wrong in (3, "", "a/b", "w" * 227):
        assert handler(None, wrong) == ([f"worker_name must be a text of up to 226 characters without '/', but got {wrong!r}; the host's "
                                         "name is used."], usual)
    assert handler(analyse_flag="no") == (["analyse_flag must be True or False, but got 'no'; True is used."], usual)
    assert handler(async_mode=1) == (["async_mode must be True or False, but got 1; False is used."], usual)
    analysed = []
    monkeypatch.setattr(module, "_analyse", lambda *given: analysed.append(given))
    monkeypatch.setattr(module, "_analyse_beside", lambda *given: analysed.append(given))
    profile = profiler.profile()
    for flag, beside in ((True, False), (True, True), (False, False)):
        for folder in (None, Path("/x")):
            profile.folder = folder
            _TraceHandler(None, None, flag, beside)(profile)
    assert analysed == [([Path("/x")], None), (Path("/x"),)]
    sentences, _ = told(lambda: _TraceHandler(None, None, True, False)(torch.profiler.profile()))
    assert sentences == ["tensorboard_trace_handler takes profiles of torch_npu.profiler.profile; this one is not written."]


def test_who_analyses_how_many(monkeypatch, tmp_path):
    for name in "abcde":
        (tmp_path / f"{name}_ascend_pt").mkdir()
    done, started = [], []
    monkeypatch.setattr("torch_npu.profiler.analysis.analyse_profile", lambda folder, types: done.append((folder.name[0], types)))

    def start(folders, types):
        started.append(("".join(folder.name[0] for folder in folders), types))
        return SimpleNamespace(wait=lambda: started.append("waited"), poll=lambda: None)

    monkeypatch.setattr(module, "_start_analysis", start)
    profiler.profiler.analyse(str(tmp_path), 2, ["db"])
    assert started == [("ace", ["db"]), ("bd", ["db"]), "waited", "waited"] and done == []
    started.clear()
    profiler.profiler.analyse(str(tmp_path), 9)
    assert [entry[0] for entry in started[:5]] == list("abcde") and started[5:] == ["waited"] * 5
    started.clear()
    profiler.profiler.analyse(str(tmp_path), export_type="text")
    profiler.profiler.analyse(str(tmp_path / "a_ascend_pt"), 7)
    assert done == [(name, ["text"]) for name in "abcde"] + [("a", None)] and started == []
    done.clear()
    for wrong in (0, True, 1.0, "2"):
        sentences, _ = told(lambda wrong=wrong: profiler.profiler.analyse(str(tmp_path / "a_ascend_pt"), wrong))
        assert sentences == [f"max_process_number must be at least 1, but got {wrong!r}; 1 is used."] and done.pop() == ("a", None)
    for wrong in (["xml"], 3, "xml", ("text",)):
        sentences, _ = told(lambda wrong=wrong: profiler.profiler.analyse(str(tmp_path / "a_ascend_pt"), export_type=wrong))
        shown = [wrong] if isinstance(wrong, str) else wrong
        assert done.pop() == ("a", None) and len(sentences) == 1 and sentences[0].startswith("export_type must be 'text', 'db' or a list")
        assert repr(wrong) in sentences[0] or repr(shown) in sentences[0]
    monkeypatch.setattr(profiler.profiler, "_beside", [])  # other tests may have left some
    profiler.profiler._analyse_beside(tmp_path)
    profiler.profiler._beside[0].poll = lambda: 0  # it has ended
    profiler.profiler._analyse_beside(tmp_path)
    assert len(profiler.profiler._beside) == 1 and started == [(tmp_path.name[0], None)] * 2


# ---- The folder ----


def test_names_of_folders(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)

    def parts(*given):
        folder = _folder.new_profile(*given)
        assert (folder / "FRAMEWORK").is_dir() and folder.name.endswith("_ascend_pt")
        worker, pid, stamp = folder.name.removesuffix("_ascend_pt").rsplit("_", 2)
        assert pid == str(os.getpid()) and stamp.isdigit() and len(stamp) == 17
        return folder.parent, worker

    assert parts(None, None) == (tmp_path, socket.gethostname()) and parts("below/it", "w") == (tmp_path / "below/it", "w")
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    assert parts(None, "w") == (tmp_path / "work/profiling_data", "w") and parts("d", "w") == (tmp_path / "d", "w")


def test_profiles_below_a_folder(tmp_path):
    for name in ("b_ascend_pt", "a_ascend_pt", "other", "raw/FRAMEWORK"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "c_ascend_pt").touch()
    assert [path.name for path in _folder.profiles_in(tmp_path)] == ["a_ascend_pt", "b_ascend_pt"]
    assert _folder.profiles_in(tmp_path / "raw") == [tmp_path / "raw"]
    assert _folder.profiles_in(tmp_path / "none_ascend_pt") == [tmp_path / "none_ascend_pt"]
    assert _folder.profiles_in(tmp_path / "other") == []


def test_what_was_written_about_a_recording(tmp_path):
    assert _folder.read_info(tmp_path) == ({}, None)
    assert (_folder.info_file(None), _folder.info_file(0)) == ("profiler_info.json", "profiler_info_0.json")
    (tmp_path / "profiler_info_x.json").write_text("5")
    for rank in (12, None):
        (tmp_path / _folder.info_file(rank)).write_text(json.dumps({"of": rank}))
        assert _folder.read_info(tmp_path) == ({"of": rank}, rank)  # the name without a number comes first


def test_reasons_are_a_line():
    assert _folder.reason(OSError("\n one thing.\nmore")) == "one thing" and _folder.reason(KeyError()) == "KeyError"


def test_symbolic_links_are_not_followed(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        _folder.write_json(tmp_path / "link", [])
    assert (tmp_path / "target").read_text() == "kept"
    _folder.write_json(tmp_path / "target", {"a": [1]})
    assert json.loads((tmp_path / "target").read_text()) == {"a": [1]}
    _folder.write_json(tmp_path / "wide", {"a": [1]}, indent=4)
    assert (tmp_path / "wide").read_text().splitlines()[1] == '    "a": ['


# ---- What files say of the program ----


def test_the_rank(monkeypatch):
    for text, rank in (("", None), ("5", 5), ("0", 0), ("x", None), ("-1", None)):
        monkeypatch.setenv("RANK", text)
        assert _about.rank() == rank
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    assert _about.rank() == 3
    monkeypatch.setenv("RANK", "7")
    assert _about.rank() == 7


def test_hosts_have_numbers(monkeypatch, tmp_path):
    (tmp_path / "id").write_bytes(b"one")
    marks = {"/etc/machine-id": tmp_path / "id"}
    monkeypatch.setattr(_about, "Path", marks.get)
    one = _about.host_number()
    assert one.isdigit() and int(one) < 2**56 and one == _about.host_number()
    (tmp_path / "id").unlink()
    monkeypatch.setattr(socket, "gethostname", lambda: "one")
    assert _about.host_number() == one
    monkeypatch.setattr(socket, "gethostname", lambda: "two")
    assert _about.host_number() != one


def test_groups_are_named_by_their_communicator(monkeypatch):
    assert _about.groups() == {}

    class Group:
        group_name = "7"

        def __init__(self, name, description):
            self.name, self.group_desc = name, description

        def _get_backend(self, device):
            assert device.type == "npu"
            if self.name == "other":
                raise RuntimeError
            return SimpleNamespace(get_hccl_comm_name=lambda card, init_comm: (self.name, card, init_comm) if self.name else "")

    dist = torch.distributed
    groups = [Group("a", "default"), Group("other", ""), Group("", ""), Group("b", "")]
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist.distributed_c10d, "_world", SimpleNamespace(pg_map=dict.fromkeys(groups)))
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda group: [groups.index(group), 9])
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 4)
    assert _about.groups() == {"parallel_group_info": {
        ("a", 0, False): {"group_name": "default", "group_rank": 4, "global_ranks": [0, 9]},
        ("b", 0, False): {"group_name": "7", "group_rank": 4, "global_ranks": [3, 9]}}}
    monkeypatch.setattr(dist.distributed_c10d, "_world", SimpleNamespace(pg_map={groups[1]: 1}))
    assert _about.groups() == {}


def test_moments():
    first, second = _about.end(), _about.end()
    assert first.keys() == {"end_time_ns", "end_monotonic_ns"} and first["end_monotonic_ns"] < second["end_monotonic_ns"]


# ---- Listeners ----


def test_marks_ranges_and_collections_of_garbage(monkeypatch):
    clock = iter(range(100, 10**9, 100))
    monkeypatch.setattr(_listeners, "time", SimpleNamespace(time_ns=lambda: next(clock)))
    own = threading.get_native_id()
    listeners = _listeners.Listeners(lambda domain: domain == "kept", 0.001)
    listeners._collecting("stop", {})  # its begin was before
    listeners.mark("a", "kept")
    listeners.mark("b", "dropped")
    listeners.begin(1, "c", "kept")
    listeners.begin(2, "d", "dropped")
    listeners.begin(3, "e", "kept")
    listeners.end(1)
    listeners.end(2)
    listeners._collecting("start", {})
    for _ in range(9):
        next(clock)
    listeners._collecting("stop", {})  # 1000 ns: the threshold
    listeners._collecting("start", {})
    for _ in range(8):
        next(clock)
    listeners._collecting("stop", {})
    found = listeners.stop()
    marks = [(mark["message"], mark["domain"], mark["begin"], mark["end"] - mark["begin"], mark["thread"]) for mark in found["mstx"]]
    assert marks[:2] == [("a", "kept", 200, 0, own), ("c", "kept", 400, 200, own)] and marks[2][:3] == ("e", "kept", 500)
    assert found["gc"] == [{"begin": 700, "end": 1700, "thread": own}]


def test_listeners_listen_from_start_to_stop():
    quiet = _listeners.Listeners()
    quiet.start()
    assert _listeners._mstx.listener is None and quiet._collecting not in gc.callbacks
    assert quiet.stop() == {"mstx": [], "gc": []}
    listeners, other = _listeners.Listeners(bool, 0.0), _listeners.Listeners(bool)
    listeners.start()
    assert _listeners._mstx.listener is listeners and listeners._collecting in gc.callbacks
    other.stop()
    assert _listeners._mstx.listener is listeners
    listeners.stop()
    assert _listeners._mstx.listener is None and listeners._collecting not in gc.callbacks


# ---- What is written ----


def test_what_a_folder_says_of_the_program(tmp_path):
    plan = profiler.schedule(0, 1, repeat=1)
    config = _ExperimentalConfig(data_simplification=False)
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)), schedule=plan, with_stack=True,
                          experimental_config=config, activities=[ProfilerActivity.NPU]) as profile:
        profile.add_metadata("a", "[1]")
        profile.add_metadata_json("b", "[1]")
        add()
        profile.step()
    info = json.loads((profile.folder / "profiler_info.json").read_text())
    common = info["config"]["common_config"]
    assert common.pop("schedule") == vars(plan) and common.pop("activities") == ["ProfilerActivity.NPU"]
    assert common.pop("with_stack") is True
    assert common == dict.fromkeys(("record_shapes", "profile_memory", "with_flops", "with_modules"), False)
    assert info["config"]["experimental_config"] == DEFAULTS | {"_data_simplification": False}
    assert info["start_info"]["start_time_ns"] > 1e18 and info["end_info"]["end_time_ns"] >= info["start_info"]["start_time_ns"] - 10**9
    assert info["device_name"] == torch.npu.get_device_name() and info["host_name"] == socket.gethostname() and "rank_id" not in info
    assert info["host_uid"] == _about.host_number() and info["torch_npu_version"].startswith("2.13") and "cann_version" in info
    metadata = json.loads((profile.folder / "profiler_metadata.json").read_text())
    assert (metadata["a"], metadata["b"]) == ("[1]", [1]) and metadata["trace_id"] == profile.get_trace_id()
    assert json.loads((profile.folder / "FRAMEWORK/host.json").read_text()) == {"mstx": [], "gc": []}
    assert sorted(file.name for file in (profile.folder / "FRAMEWORK").iterdir()) == ["host.json", "launches.tsv", "trace.json"]


def test_the_users_own_function_gets_the_profile_and_no_folder_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got = []
    profile = record(tmp_path, add, on_trace_ready=got.append)
    assert got == [profile] and profile.folder is None and list(tmp_path.iterdir()) == []
    profile.export_chrome_trace(str(tmp_path / "t.json"))
    assert "aclnnAdds" in (tmp_path / "t.json").read_text()


def test_whether_a_trace_was_written_to_its_end(tmp_path):
    file = tmp_path / "t.json"
    for text, whole in (("{}", True), ("{}" + " \n" * 5, True), ('{"a": [1', False), ("", False), ('{"a": ' + "1" * 40 + "}\n", True),
                        ("{}" + "1" * 40, False)):
        file.write_text(text)
        assert module._is_whole(file) is whole, text


def test_a_thread_that_cannot_take_part_is_told():
    for call in (profiler.profile.enable_profiler_in_child_thread, profiler.profile.disable_profiler_in_child_thread):
        assert told(call)[0] == ["No profile is running that this thread takes part in; ignored."]


def test_a_profile_that_cannot_begin_is_told(monkeypatch):
    def refuse(self):
        raise RuntimeError("it is taken.\nmore")

    monkeypatch.setattr(torch.profiler.profile, "start", refuse)
    profile = profiler.profile()
    assert told(profile.start)[0] == ["Profiling cannot begin: it is taken; the program goes on without it."] and not profile.is_running
    for what, call in (("stop", profile.stop), ("step", profile.step)):
        assert told(call)[0] == [f"The profiler is not running; this {what}() is ignored."]


def test_metadata_of_up_to_a_limit():
    profile = profiler.profile()
    sentence = "Metadata must be texts, the value of up to 51200 characters; 'k' is ignored."
    assert told(lambda: profile.add_metadata("k", "x" * 51201))[0] == [sentence] and profile._extra_metadata == {}
    assert told(lambda: profile.add_metadata_json("k", 5))[0][0].startswith("The metadata 'k' is not JSON: ")
