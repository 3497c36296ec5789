"""The modules of torch_npu.utils: paths, checkpoints of the official plugin, cores, counted operations, extensions, bug reports."""

import io
import logging
import os
import pickle
import sys
import warnings

import pytest
import torch

import torch_npu
from torch_npu.npu import npu_config
from torch_npu.utils import affinity, collect_env, cpp_extension, flops_count, patch_getenv, serialization, storage, syncbatchnorm
from torch_npu.utils._path_manager import PathManager


def warned(record):
    return [str(warning.message) for warning in record]


@pytest.mark.parametrize("check, mode, word", [
    (PathManager.check_directory_path_readable, os.R_OK, "read"), (PathManager.check_directory_path_writeable, os.W_OK, "write"),
    (collect_env.check_directory_path_readable, os.R_OK, "read"),
])  # fmt: skip
def test_paths_that_can_be_used(tmp_path, monkeypatch, recwarn, check, mode, word):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    link.symlink_to(file)
    check(str(file))
    assert not recwarn.list
    check(str(link))
    assert warned(recwarn) == [f"{link} is a symbolic link"]
    with pytest.raises(RuntimeError, match="absent does not exist"):
        check(str(tmp_path / "absent"))
    recwarn.clear()
    monkeypatch.setattr(os, "access", lambda path, asked: asked != mode)
    check(str(file))
    assert warned(recwarn) == [f"this user may not {word} {file}"]


def test_files_and_folders_are_told_apart(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    for check, good, bad in ((PathManager.check_input_directory_path, tmp_path, file), (PathManager.check_input_file_path, file, tmp_path)):
        check(str(good))
        check(str(tmp_path / "absent"))
        with pytest.raises(RuntimeError, match=str(bad)):
            check(str(bad))
    for check, mode in ((PathManager.check_path_is_readable, os.R_OK), (PathManager.check_path_is_writeable, os.W_OK)):
        monkeypatch.setattr(os, "access", lambda path, asked, mode=mode: path == str(file) and asked == mode)
        assert check(str(file)) is True and check(str(tmp_path)) is False


def test_paths_are_made_and_removed(tmp_path, recwarn):
    warnings.simplefilter("always")
    folder, file, link = tmp_path / "a/b", tmp_path / "file", tmp_path / "link"
    before = os.umask(0)
    try:
        for _ in range(2):  # what is there already stays
            PathManager.make_dir_safety(str(folder))
            PathManager.create_file_safety(str(file))
    finally:
        os.umask(before)
    assert folder.is_dir() and folder.stat().st_mode & 0o777 == 0o750 and file.stat().st_mode & 0o777 == 0o640
    file.write_text("kept")
    PathManager.create_file_safety(str(file))
    assert file.read_text() == "kept" and not recwarn.list
    for call, target in ((PathManager.make_dir_safety, folder), (PathManager.create_file_safety, file), (PathManager.remove_file_safety,
                                                                                                         file)):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        call(str(link))
        assert warned(recwarn) == [f"{link} is a symbolic link"]
        recwarn.clear()
    assert not link.exists() and file.exists()
    PathManager.remove_path_safety(str(folder))
    PathManager.remove_file_safety(str(file))
    assert not folder.exists() and folder.parent.exists() and not file.exists()
    PathManager.remove_path_safety(str(folder))  # what is absent is removed
    PathManager.remove_file_safety(str(file))
    link.symlink_to(tmp_path / "absent")
    PathManager.remove_path_safety(str(link))
    assert warned(recwarn) == [f"{link} is a symbolic link"]


def test_names_of_other_modules():
    assert npu_config.PathManager is PathManager and torch_npu.utils.utils is torch_npu.utils
    assert npu_config.set_device_limit is torch_npu.npu.core_limits.set_device_limit and callable(npu_config.init_dump)
    for name in ("collect_env", "cpp_extension", "dlpack", "flops_count", "patch_getenv", "profiler", "storage", "syncbatchnorm"):
        assert torch_npu.utils.__getattr__(name) is sys.modules[f"torch_npu.utils.{name}"]
    assert torch_npu.utils.FlopsCounter is flops_count.FlopsCounter
    for module in (npu_config, torch_npu.utils):
        with pytest.raises(AttributeError, match=f"{module.__name__}.*no_such_name"):
            getattr(module, "no_such_name")  # noqa: B009


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("number", [-1, 0, 2, 29])
def test_tensors_of_official_checkpoints(device, number):
    source = torch.arange(2048.0, device=device)
    made = storage._rebuild_npu_tensor(torch.storage.TypedStorage(
        wrap_storage=source.untyped_storage(), dtype=torch.float32, _internal=True), 1024, (32, 32), (32, 1), True, {}, number)
    assert made.device.type == device and made.requires_grad and torch.equal(made.detach().cpu(), torch.arange(1024.0, 2048).view(32, 32))
    if device == "npu":
        assert torch_npu.get_npu_format(made) == (29 if number == 29 else 2)
    with pytest.raises(NotImplementedError, match="torch.save"):
        storage.save_npu_tensor(made)


def test_files_are_written_with_the_given_options(tmp_path, recwarn):
    class Pickler:
        """As pickle, and counts what it is asked to write."""

        asked: list = []
        __name__, Unpickler, load, loads = "Pickler", pickle.Unpickler, pickle.load, pickle.loads

        class Pickler(pickle._Pickler):
            def __init__(self, file, protocol):
                Pickler.asked.append(protocol)
                super().__init__(file, protocol)

        @staticmethod
        def dump(*args, **kwargs):
            Pickler.asked.append(kwargs.get("protocol"))
            pickle.dump(*args, **kwargs)

    plain, chosen, old = tmp_path / "plain.pt", tmp_path / "chosen.pt", tmp_path / "old.pt"
    tensors = {"x": torch.ones(2, device="npu"), "y": [torch.zeros(3)]}
    serialization.save_async(tensors, plain).join()
    serialization.save_async(tensors, str(chosen), Pickler, 4).join()
    serialization.save_async(tensors, old, _use_new_zipfile_serialization=False).join()
    buffer = io.BytesIO()
    serialization.save_async(tensors, buffer).join()
    assert Pickler.asked and set(Pickler.asked) == {4}
    assert plain.read_bytes()[:2] == b"PK" != old.read_bytes()[:2]
    for file in (plain, chosen, old, io.BytesIO(buffer.getvalue())):
        loaded = torch.load(file, weights_only=file != chosen)  # of its protocol torch wants to be sure
        assert loaded["x"].tolist() == [1, 1] and loaded["y"][0].tolist() == [0, 0, 0]
        assert loaded["x"].device.type == "cpu"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chosen.pt", "old.pt", "plain.pt"] and not recwarn.list
    serialization.save_async({"x": lambda: 0}, plain).join()
    assert "plain.pt was not written" in warned(recwarn)[-1] and torch.load(plain)["x"].tolist() == [1, 1]
    assert len(list(tmp_path.iterdir())) == 3


def test_the_program_waits_for_its_checkpoints(run, tmp_path):
    process = run(f"""
import time, torch, torch_npu
from torch_npu.utils import serialization
write = serialization._write
def slow(*args):
    time.sleep(0.5)
    write(*args)
serialization._write = slow
thread = serialization.save_async(torch.ones(2, device="npu"), {str(tmp_path / "x.pt")!r})
assert serialization._running == [thread] and thread.name == "torch_npu.save_async"
thread = serialization.save_async(torch.ones(3, device="npu"), {str(tmp_path / "x.pt")!r})
assert len(serialization._running) == 2
thread.join()
last = serialization.save_async(torch.ones(4, device="npu"), {str(tmp_path / "x.pt")!r})
assert serialization._running[-1] is last and thread not in serialization._running
serialization._finish()
assert torch.load({str(tmp_path / "x.pt")!r}).shape == (4,)
""")
    assert process.returncode == 0, process.stderr


def test_cores_of_a_thread(monkeypatch):
    bound = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: bound.append((process, set(cores))))
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for given, cores in (([0, 2], {0, 1, 2}), ([[0, 1], [5, 7]], {0, 1, 5, 6, 7}), ([3, 3], {3}), ([[7, 7]], {7}),
                         (None, set(affinity._at_import))):
        affinity.set_thread_affinity(given)
        assert bound.pop() == (0, cores)
    affinity.reset_thread_affinity()
    assert bound.pop() == (0, set(affinity._at_import))
    for wrong in ([], [1], [2, 1], [-1, 1], [0, 1, 2], (0, 1), "01", [[0, 1], 2], [[0, True]], [[1, 0]], [0, 8], [[0, 1], [8, 9]], 3):
        with pytest.raises(ValueError, match="core_range"):
            affinity.set_thread_affinity(wrong)
    with pytest.raises(ValueError, match=r"does not have: \[8, 9\]"):
        affinity.set_thread_affinity([7, 9])
    assert not bound


def test_counted_operations():
    def product(rows):
        torch.ones(rows, 3, device="npu") @ torch.ones(3, 5, device="npu")
        return 2 * rows * 3 * 5

    with flops_count.FlopsCounter() as counter:
        recorded = product(2)
        assert counter.get_flops() == [recorded, recorded]
        counter.resume()  # without pause: nothing
        counter.pause()
        skipped = product(7)
        counter.pause()  # twice is once
        assert counter.get_flops() == [recorded, recorded + skipped]
        counter.resume()
        recorded += product(4)
        counter.resume()
        counter.pause()
        skipped += product(3)
        assert counter.get_flops() == [recorded, recorded + skipped]
        counter.resume()
        with pytest.raises(RuntimeError, match="stop"):
            counter.start()
    for call in (counter.stop, counter.get_flops, counter.pause):
        with pytest.raises(RuntimeError, match="not running"):
            call()
    counter.start()
    assert counter.get_flops() == [0, 0]
    counter.stop()


def test_variables_are_logged_once(caplog):
    with caplog.at_level(logging.INFO, "torch_npu.env"):
        for value in (3, 4):
            patch_getenv._log_once("TEST_UTILS_PARTS", value)
        patch_getenv._log_once("TEST_UTILS_PARTS_2", 5)
    assert caplog.messages == ["environment: TEST_UTILS_PARTS=3", "environment: TEST_UTILS_PARTS_2=5"]


def test_extensions_find_headers_and_library():
    made = cpp_extension.NpuExtension("x", ["x.cpp"], include_dirs=["mine"], library_dirs=["there"], libraries=["m"])
    folder = os.path.dirname(os.path.realpath(torch_npu.__file__))
    assert made.name == "x" and made.sources == ["x.cpp"] and made.include_dirs[:2] == ["mine", f"{folder}/include"]
    assert made.library_dirs[:2] == ["there", f"{folder}/lib"] and made.libraries[:2] == ["m", "torch_npu"]
    plain = cpp_extension.NpuExtension("x", ["x.cpp"])
    assert f"{folder}/include" in plain.include_dirs and f"{folder}/lib" in plain.library_dirs and "torch_npu" in plain.libraries


def test_synchronised_normalisation_is_upstreams(monkeypatch):
    calls = []
    monkeypatch.setattr(syncbatchnorm._SyncBatchNorm, "forward", lambda *args: calls.append(args) or args[1] * 3)
    monkeypatch.setattr(syncbatchnorm._SyncBatchNorm, "backward", lambda *args: calls.append(args) or (args[1] * 5, *[None] * 8))
    x = torch.ones(2, requires_grad=True)
    out = syncbatchnorm.SyncBatchNorm.apply(x, "w", "b", "m", "v", 0.1, 0.2, "group", 2)
    out.sum().backward()
    assert out.tolist() == [3, 3] and x.grad.tolist() == [5, 5] and calls[0][2:] == ("w", "b", "m", "v", 0.1, 0.2, "group", 2)


def test_what_a_report_says(monkeypatch, tmp_path, recwarn):
    monkeypatch.setenv("HCCL_TEST", "5")
    monkeypatch.setenv("UNRELATED", "5")
    found = collect_env.collect_env()
    assert found["HCCL_TEST"] == "5" and "UNRELATED" not in found and "npu" not in found
    assert found["runtime"].startswith("softnpu" if torch_npu.is_softnpu() else "CANN")
    assert collect_env.get_cann_version() in found["runtime"]
    assert found["torch_npu"].startswith(torch_npu.__version__) and found["npu:0"] == str(torch.npu.get_device_properties(0))
    assert f"npu:{torch.npu.device_count()}" not in found
    text = collect_env.get_pretty_env_info()
    assert text.splitlines() == [f"{name}: {value}" for name, value in found.items()]
    monkeypatch.setattr(collect_env._C, "why_unavailable", lambda: "no driver")
    without = collect_env.collect_env()
    assert without["npu"] == "not available: no driver" and not {"runtime", "npu:0"} & set(without)
    assert collect_env.get_torch_npu_version() == torch_npu.__version__
    assert os.path.join(collect_env.get_torch_npu_install_path(), "torch_npu") == torch_npu.__path__[0]
    collect_env.check_path_owner_consistent(str(tmp_path))
    assert not recwarn.list
    for owner, expected in ((0, 0), (7, 1), (os.geteuid(), 1)):
        monkeypatch.setattr(os, "stat", lambda path, owner=owner, **_: os.stat_result((0o40750, 0, 0, 0, owner, 0, 0, 0, 0, 0)))
        collect_env.check_path_owner_consistent(str(tmp_path))
        assert len(recwarn) == expected
    monkeypatch.undo()
    assert "another user's" in warned(recwarn)[0]
    with pytest.raises(RuntimeError, match="absent does not exist"):
        collect_env.check_path_owner_consistent(str(tmp_path / "absent"))


def test_the_environment_as_upstream_tells_it(monkeypatch):
    from torch.utils import collect_env as upstream

    found = upstream.SystemEnv(**{name: f"the {name}" for name in upstream.SystemEnv._fields})
    monkeypatch.setattr(upstream, "get_env_info", lambda: found)
    made = collect_env.get_env_info()
    assert made.torch_npu_version == torch_npu.__version__ and made.cann_version == collect_env.get_cann_version()
    assert made.torch_version == "the torch_version" and made.cpu_info == "the cpu_info"
    assert f"torch npu version: {torch_npu.__version__}" in collect_env.pretty_str(made).splitlines()
