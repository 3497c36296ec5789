"""torch_npu.testing.common_utils, decorator and common_distributed: tensors in pairs, reasons to skip, tests made of types and formats."""

import json
import unittest

import numpy
import pytest
import torch

import torch_npu
from torch_npu import npu
from torch_npu.testing import common_distributed, common_utils, decorator


def ran(decorated, *args):
    """The answer, or why it was skipped."""
    try:
        return decorated(*args)
    except unittest.SkipTest as skipped:
        return str(skipped)


def test_random_numbers_of_the_block_are_put_back():
    torch.manual_seed(3)
    expected = torch.rand(2), torch.rand(2, device="npu").cpu()
    torch.manual_seed(3)
    with common_utils.freeze_rng_state():
        torch.rand(5), torch.rand(5, device="npu")
    assert torch.equal(torch.rand(2), expected[0]) and torch.equal(torch.rand(2, device="npu").cpu(), expected[1])


def test_indices_of_all_elements():
    assert list(common_utils.iter_indices(torch.ones(3))) == [0, 1, 2] and list(common_utils.iter_indices(torch.tensor(1.0))) == []
    assert list(common_utils.iter_indices(torch.ones(2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert common_utils.is_iterable([]) and common_utils.is_iterable("a") and not common_utils.is_iterable(1)


def test_the_card_of_the_environment(monkeypatch):
    monkeypatch.delenv("SET_NPU_DEVICE", raising=False)
    assert common_utils.get_npu_device() == common_utils.set_npu_device() == "npu:0"
    monkeypatch.setenv("SET_NPU_DEVICE", "1")
    assert common_utils.get_npu_device() == "npu:1"
    asked = []
    monkeypatch.setattr(npu, "set_device", asked.append)
    assert common_utils.set_npu_device() == "npu:1" and asked == ["npu:1"]


@pytest.mark.parametrize("dtype, number", [(numpy.float32, -1), (numpy.float16, 29), (numpy.int32, -1), (numpy.float32, 2)])
def test_pairs_of_equal_numbers(dtype, number):
    numpy.random.seed(0)
    on_cpu, on_npu = common_utils.create_common_tensor((dtype, number, (32, 48)), 5, 25)
    assert on_cpu.numpy().dtype == dtype and on_npu.is_npu and on_cpu.shape == (32, 48) and torch.equal(on_npu.cpu(), on_cpu)
    assert 5 <= on_cpu.min() < 7 and 23 < on_cpu.max() <= 25
    assert torch_npu.get_npu_format(on_npu) == (2 if number == -1 else number)
    one, other = common_utils.create_common_tensor((dtype, -1, 3), 0, 9, "cpu")
    assert other.device.type == "cpu" and torch.equal(one, other) and one.data_ptr() != other.data_ptr()


@pytest.mark.parametrize("dtype, expected", [(torch.bool, torch.bool), (torch.half, torch.half), (torch.float, torch.float),
                                             (torch.int64, torch.int32)])  # fmt: skip
def test_pairs_of_a_torch_type(dtype, expected):
    numpy.random.seed(0)
    on_cpu, on_npu = common_utils.create_dtype_tensor((40, 50), dtype)
    assert on_cpu.dtype == on_npu.dtype == expected and torch.equal(on_npu.cpu(), on_cpu) and on_cpu.shape == (40, 50)
    least, most = (0, 1) if dtype == torch.bool else (-5, 5)
    assert least <= on_cpu.float().min() < least + 0.1 and most - 0.1 < on_cpu.float().max() <= most
    if not dtype.is_floating_point:
        assert bool((on_cpu == 0).any()) and not bool((common_utils.create_dtype_tensor((40, 50), dtype, no_zero=True)[0] == 0).any())
    in_format = common_utils.create_dtype_tensor((32, 32), dtype, 29, 2, 3)[1]
    assert torch_npu.get_npu_format(in_format) == (29 if dtype.is_floating_point else 2)
    if dtype != torch.bool:
        assert in_format.cpu().min() >= 2 and in_format.cpu().max() <= 3
    assert common_utils.create_dtype_tensor((2,), dtype, device="cpu")[1].device.type == "cpu"


def test_results_of_shapes_that_broadcast():
    shapes = []

    def subtract(x, y):
        shapes.append((tuple(x.shape), tuple(y.shape), x.device.type, y.device.type))
        return x - y

    results = common_utils.test_2args_broadcast(subtract)
    assert shapes == [((2, 3, 4, 5), other, kind, kind) for other in ((1, 1, 1), (4, 5)) for kind in ("cpu", "npu")]
    for on_cpu, on_npu in results:
        numpy.testing.assert_allclose(on_npu, on_cpu)


def test_operators_of_a_profile():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(2).add(1)
    check = common_utils.check_operators_in_prof
    assert check(["aten::add"], profile) and check(["aten::add"], profile, ["aten::mm"])
    assert not check(["aten::mm"], profile) and not check(["aten::add", "aten::mm"], profile) and not check([], profile, ["aten::add"])


@pytest.mark.parametrize("name, family", [("Ascend910B3", "Ascend910B"), ("Ascend910_9392", "Ascend910_93"), ("Ascend950PR_958b",
                                                                                                              "Ascend950"),
                                          ("Ascend310P3", "Ascend310P")])  # fmt: skip
def test_skipped_on_other_chips(monkeypatch, name, family):
    monkeypatch.setattr(npu, "get_device_name", lambda device: name if device == 0 else "")
    assert ran(common_utils.SupportedDevices([family, "another"])(lambda x: x), 5) == 5
    assert ran(common_utils.SupportedDevices(["one", "another"])(lambda x: x), 5) == f"runs on one, another; this is {name}"


def test_skipped_with_older_versions(monkeypatch):
    asked = []
    monkeypatch.setattr(npu.utils, "_is_gte_cann_version", lambda version, module: asked.append((version, module)) or version < "8.3")
    monkeypatch.setattr(npu.utils, "get_cann_version", lambda module: "8.2" if module == "CANN" else "")
    assert ran(common_utils.SkipIfNotGteCANNVersion("8.1")(lambda x: x), 5) == 5
    assert ran(common_utils.SkipIfNotGteCANNVersion("8.4")(lambda x: x), 5) == "needs CANN 8.4 or later; this is 8.2"
    assert ran(common_utils.SkipIfNotGteCANNVersion("8.4", "OPP")(lambda x: x),
               5) == "needs OPP 8.4 or later; this is of an unknown version"
    assert asked == [("8.1", "CANN"), ("8.4", "CANN"), ("8.4", "OPP")]


def test_skipped_without_a_part_of_torch(monkeypatch):
    assert common_utils.SkipIfNoLapack()(lambda: 5)() == 5
    monkeypatch.setattr(torch._C, "has_lapack", False)
    assert "LAPACK" in ran(common_utils.SkipIfNoLapack()(lambda: 5))
    assert "mine" in ran(common_utils.SkipIfNotRegistered()("mine")(lambda: 5))


def test_numbers_of_earlier_runs(tmp_path):
    file = tmp_path / "numbers.json"
    first = common_utils.Baseline(str(file))
    assert first.get_baseline("a") is None
    first.set_baseline("a", 2.5)
    first.save_baseline()
    assert json.loads(file.read_text()) == {"a": 2.5} and file.stat().st_mode & 0o777 == 0o600
    second = common_utils.Baseline(str(file))
    assert second.get_baseline("a") == 2.5
    second.set_baseline("a", 1)
    second.save_baseline()
    assert json.loads(file.read_text()) == {"a": 1}


@pytest.mark.parametrize("value, expected", [("on", True), ("1", True), ("0", False), (None, False)])
def test_numbers_are_written_if_asked_for(run, tmp_path, value, expected):
    file = tmp_path / "numbers.json"
    given = {"PERF_BASELINE_FILE": str(file), **({"PERF_TEST_ENABLE": value} if value else {})}
    process = run("from torch_npu.testing import common_utils; common_utils.PerfBaseline.set_baseline('a', 3)", **given)
    assert process.returncode == 0, process.stderr
    assert file.exists() is expected and (not expected or json.loads(file.read_text()) == {"a": 3})


# ---- decorator ----


def test_a_test_for_each_type_and_format():
    calls = []

    @decorator.instantiate_tests
    class Tests:
        @decorator.Dtypes(torch.half, torch.float)
        @decorator.Formats(0, 29)
        def test_both(self, device, the_dtype, npu_format):
            calls.append((device, the_dtype, npu_format))

        @decorator.Dtypes(torch.int8)
        def test_type(self, dtype):
            calls.append(dtype)

        def test_plain(self):
            calls.append("plain")

    names = sorted(name for name in vars(Tests) if name.startswith("test_"))
    assert names == ["test_both_float16_0", "test_both_float16_29", "test_both_float32_0", "test_both_float32_29", "test_plain",
                     "test_type_int8"]
    for name in names:
        assert getattr(Tests, name).__name__ == name
        getattr(Tests(), name)()
    assert calls == [*[("npu", dtype, number) for dtype in (torch.half, torch.float) for number in (0, 29)], "plain", torch.int8]


@pytest.mark.parametrize("make, expected", [
    (decorator.Dtypes, "needs a type"), (lambda: decorator.Dtypes(torch.half, 3), "got 3"), (decorator.Formats, "needs the number"),
])  # fmt: skip
def test_wrong_choices_are_named(make, expected):
    with pytest.raises(RuntimeError, match=expected):
        make()


@pytest.mark.parametrize("function, expected", [(lambda self: None, r"\[\]"), (lambda self, dtype, dtype2: None, "'dtype', 'dtype2'")])
def test_a_test_needs_one_argument_of_the_name(function, expected):
    with pytest.raises(RuntimeError, match=expected):
        decorator.instantiate_tests(type("Tests", (), {"test_x": decorator.Dtypes(torch.half)(function)}))


class Operator:
    name, dtypesIfNPU, formats = "add", (torch.half, torch.float), (0, 2)

    def __init__(self):
        self.asked = []

    def get_decorators(self, *asked):
        self.asked.append(asked)
        return []


def test_a_test_for_each_operator():
    add, calls = Operator(), []

    class Tests:
        def test_it(self, op, dtype, npu_format):
            calls.append((op, dtype, npu_format))

        def test_variant_consistency_eager(self, op, dtype, npu_format):
            calls.append((dtype, npu_format))

        @decorator.Dtypes(torch.int8)
        @decorator.Formats(29)
        def test_own(self, op, dtype, npu_format):
            calls.append((dtype, npu_format))

        def other(self):
            pass

    decorator.instantiate_ops_tests([add])(Tests)
    names = sorted(name for name in dir(Tests) if name.startswith("test_"))
    assert names == ["test_it_add_float16_0", "test_it_add_float16_2", "test_it_add_float32_0", "test_it_add_float32_2",
                     "test_own_add_int8_29",
                     "test_variant_consistency_eager_add_float32_0", "test_variant_consistency_eager_add_float32_2"]
    for name in names:
        getattr(Tests(), name)()
    assert calls == [*[(add, dtype, number) for dtype in (torch.half, torch.float) for number in (0, 2)], (torch.int8, 29),
                     (torch.float32, 0), (torch.float32, 2)]
    assert add.asked[0] == ("Tests", "test_it", "cpu", torch.half, {})
    add.dtypesIfNPU = (torch.half, torch.int32)
    assert decorator.gen_op_input("test_variant_consistency_eager", lambda: None, add)["dtype"] == {torch.int32}


# ---- common_distributed ----


def test_exit_codes():
    """Those of the official plugin's tests: what a rank ends with says why it skipped."""
    skips = common_distributed.TEST_SKIPS
    cards = {name: skip for name, skip in skips.items() if name.startswith("multi-npu")}
    assert {skip.exit_code for skip in cards.values()} == {75} and (skips["hccl"].exit_code, skips["known_issues"].exit_code) == (76, 77)
    assert cards.keys() == {"multi-npu", *(f"multi-npu-{count}" for count in (1, 2, 3, 4, 5, 6, 7, 8))}
    assert "4 npu cards" in cards["multi-npu-4"].message


def test_skipped_with_fewer_cards(monkeypatch):
    monkeypatch.setattr(npu, "device_count", lambda: 3)
    assert ran(common_distributed.skipIfUnsupportMultiNPU(3)(lambda x: x), 5) == 5
    assert ran(common_distributed.skipIfUnsupportMultiNPU(4)(lambda x: x), 5) == "4 npu cards are needed; there are 3"


@pytest.mark.parametrize("cards, expected", [(1, "gloo"), (2, "hccl"), (3, "hccl")])
def test_groups(monkeypatch, cards, expected):
    calls = []
    monkeypatch.setattr(npu, "device_count", lambda: cards)
    monkeypatch.setattr(npu, "set_device", lambda card: calls.append(("card", card)))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda backend, **given: calls.append((backend, given)))

    class Tests:
        world_size, rank, file_name = 2, 1, "/x"

        @common_distributed.with_comms
        def test_it(self, x, y):
            calls.append((x, y, torch.initial_seed()))

        def destroy_pg(self):
            calls.append("end")

    Tests().test_it(3, y=4)
    given = (expected, {"init_method": "file:///x", "world_size": 2, "rank": 1})
    assert calls == [*([("card", 1)] if expected == "hccl" else []), given, (3, 4, 0), "end"]
    calls.clear()
    common_distributed.init_pg("gloo", file_name="file:///x")
    assert calls == [("gloo", {"init_method": "file:///x", "world_size": 1, "rank": 0})]
    with pytest.raises(RuntimeError, match="4 npu cards are needed"):
        common_distributed.init_pg("hccl", 4)
    with pytest.raises(RuntimeError, match="'nccl'"):
        common_distributed.init_pg("nccl")
    with pytest.raises(RuntimeError, match="None"):
        common_distributed.with_comms(None)


def test_a_version_of_two_parts_is_its_first_release(monkeypatch):
    monkeypatch.setattr(npu.utils, "get_cann_version", lambda module: "8.3.RC1")
    assert all(map(npu.utils._is_gte_cann_version, ("8.2", "8.3", "8.3.RC1")))
    assert not any(map(npu.utils._is_gte_cann_version, ("8.3.0", "8.4", "9.0")))
    with pytest.raises(ValueError, match="version must be a version"):
        npu.utils._is_gte_cann_version("new")
