"""The stream sanitizer: races are found, with operators and streams, and programs that order their work are left alone."""

import atexit
from types import SimpleNamespace

import pytest
import torch

from torch_npu.npu import _gpu_trace, _sanitizer

START = """
from torch_npu.npu._sanitizer import NPUSanitizerErrors, enable_npu_sanitizer, npu_sanitizer
enable_npu_sanitizer()
side = torch.npu.Stream()
x = torch.ones(4, device="npu")
def racy(work):
    try: work()
    except NPUSanitizerErrors as error:
        both = [(e.current_access, e.previous_access) for e in error.errors]
        print("race", [(now.operator.name, now.type.name, old.operator.name, old.type.name, now.stream == side.npu_stream)
                       for now, old in both])
    else: print("fine")
"""


def told(check, code, **variables):
    return check(START + code, **variables)


@pytest.mark.parametrize("level", ["0", "2"])
def test_a_write_on_another_stream_without_order(check, level):
    assert told(check, "with torch.npu.stream(side): racy(lambda: x.add_(1))", TASK_QUEUE_ENABLE=level) == (
        "race [('aten::add_', 'WRITE', 'aten::ones', 'WRITE', True)]")


def test_a_read_of_what_another_stream_writes(check):
    assert told(check, """
side.wait_stream(torch.npu.current_stream())
with torch.npu.stream(side): x.mul_(2)
racy(lambda: x + 1)
""") == "race [('aten::add', 'READ', 'aten::mul_', 'WRITE', False)]"


@pytest.mark.parametrize("order", [
    "side.wait_stream(torch.npu.current_stream())", "torch.npu.synchronize()", "torch.npu.current_stream().synchronize()",
    "torch.npu.current_stream().record_event().wait(side)", "torch.npu.current_stream().record_event().synchronize()",
    "x.cpu()", "x.sum().item()", "x = x.nonzero()"])
def test_what_orders_two_streams(check, order):
    assert told(check, f"{order}\nwith torch.npu.stream(side): racy(lambda: x.add_(1))") == "fine"


def test_reads_beside_reads_views_and_new_memory_are_no_races(check):
    assert told(check, """
side.wait_stream(torch.npu.current_stream())
def beside():
    with torch.npu.stream(side):
        x + 1; x[:2]; x.view(2, 2); torch.empty_like(x).fill_(2); torch.zeros_like(x)
    x + 2
racy(beside)
for _ in range(3):                        # the same memory again, for another tensor
    y = torch.ones(4, device="npu")[1:] + 1
    with torch.npu.stream(side): z = torch.ones(4, device="npu")[1:] + 1
    torch.npu.synchronize()
    del y, z
racy(lambda: None)
""") == "fine\nfine"


def test_training_steps_are_no_race(check):
    assert told(check, """
def train():
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    optimizer = torch.optim.Adam(net.parameters(), fused=False)
    for _ in range(2):
        batch = torch.ones(3, 4).pin_memory().to("npu", non_blocking=True)
        net(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
racy(train)
""") == "fine"


def test_a_race_is_printed_with_streams_operators_and_lines(run):
    process = run("import torch\nx = torch.ones(4, device='npu')\n"
                  "with torch.npu.stream(torch.npu.Stream()):\n    x.add_(1)\nprint('not reached')", TORCH_NPU_SANITIZER="1")
    assert process.returncode == 1 and process.stdout == ""
    for words in ("CSAN detected a possible data race on tensor with data pointer", "Access by stream", "aten::add_.", "(Tensor(a!) self",
                  "writing to argument(s) self", "Previous access by stream", "aten::ones", 'File "<string>", line 4',
                  "detected 1 errors"):
        assert words in process.stderr, process.stderr


def test_it_ends(check):
    assert told(check, """
npu_sanitizer.disable()
with torch.npu.stream(side): racy(lambda: x.add_(1))
print(npu_sanitizer.enabled)
""") == "fine\nFalse"


# ---- Without a program: what one call reads and writes ----


def accesses(*added):
    found = _sanitizer._Accesses()
    for value, alias, name, only_metadata in added:
        found.add(value, alias, name, only_metadata)
    return found


def test_what_a_call_reads_and_writes():
    x, y = torch.ones(4, device="npu"), torch.ones(4, device="npu")
    a, b = x.data_ptr(), y.data_ptr()
    write, view = SimpleNamespace(is_write=True), SimpleNamespace(is_write=False)
    found = accesses(([x, (y,)], None, "tensors", False), (x[1:], write, "self", False))
    assert (found.read, found.written, found.outputs) == ({a, b}, {a + 4}, set()) and found.device == x.device
    assert found.names == {a: ["tensors"], b: ["tensors"], a + 4: ["self"]} and found.storages == {a: a, b: b, a + 4: a}
    found = accesses((x, view, "self", False), (y, None, "other", True))
    assert (found.read, found.written, found.outputs) == (set(), set(), set()) and found.names == {a: ["self"], b: ["other"]}
    found = accesses((x, None, None, False))
    assert (found.read, found.written, found.outputs, dict(found.names)) == (set(), {a}, {a}, {a: []})
    found = accesses((x, None, None, True))
    assert (found.written, found.outputs) == (set(), {a})
    found = accesses((torch.ones(2), None, "x", False), (torch.ones(0, device="npu"), None, "x", False), (3, None, "x", False),
                     (torch.eye(2, device="npu").to_sparse(), None, "x", False))
    assert found.device is None and not found.names and not found.storages


def test_arguments_by_place_and_by_name():
    schema = torch.ops.aten.add.Tensor._schema
    assert [(argument.name, value) for argument, value in _sanitizer._arguments(schema, (1, 2), {"alpha": 3})] == [
        ("self", 1), ("other", 2), ("alpha", 3)]
    assert [(argument.name, value) for argument, value in _sanitizer._arguments(schema, (1,), {"other": 2})] == [("self", 1), ("other", 2)]


@pytest.fixture
def mode(monkeypatch):
    """Without torch's own hooks, which stay for the rest of a process and lose the exceptions of others."""
    monkeypatch.setattr(torch._C, "_activate_gpu_trace", lambda: None)
    made = _sanitizer.NPUSanitizerMode()
    yield made
    made.end()


def test_callbacks_are_taken_back(mode):
    counts = {registry: len(registry.callback_list) for registry, _ in mode.callbacks}
    assert len(mode.callbacks) == 12 and all(callback in registry.callback_list for registry, callback in mode.callbacks)
    other = _sanitizer.NPUSanitizerMode()
    other.end()
    assert {registry: len(registry.callback_list) for registry in counts} == counts
    mode._count_wait(3)
    mode._count_wait()
    assert mode.waited == 2
    names = {name for name in vars(_gpu_trace) if name.endswith("Callbacks")}
    assert {registry.name for registry, _ in mode.callbacks} <= {getattr(_gpu_trace, name).name for name in names}


def test_memory_that_goes_back_is_forgotten_with_what_lay_in_it(mode, monkeypatch):
    forgotten = []
    monkeypatch.setattr(mode.handler, "_handle_memory_deallocation", forgotten.append)
    mode.inside[64] = {72, 80}
    mode._forget(64)
    assert sorted(forgotten) == [64, 72, 80] and 64 not in mode.inside
    mode._forget(128)
    assert forgotten[3:] == [128]


def test_launches_are_judged_and_errors_are_raised(mode, monkeypatch, capsys):
    asked, x = [], torch.ones(4, device="npu")
    address, answer = x.data_ptr(), []
    monkeypatch.setattr(mode.handler, "_handle_kernel_launch", lambda *given: asked.append(given) or answer)
    mode._launch("schema", _sanitizer._Accesses())
    assert asked == []
    found = accesses((x, None, "x", False), (x, SimpleNamespace(is_write=True), "out", False), (x[1:], None, "y", False))
    mode._launch("schema", found)
    assert asked == [(torch.npu.current_stream().npu_stream, {address + 4}, {address}, set(), "schema", found.names)]
    assert mode.inside == {address: {address + 4}}
    answer += ["one", "two"]
    with pytest.raises(_sanitizer.NPUSanitizerErrors, match="^detected 2 errors$") as raised:
        mode._launch("schema", found)
    assert raised.value.errors == ["one", "two"] and capsys.readouterr().err == "one\ntwo\n"


def test_what_is_asked_about_each_operator(mode, monkeypatch):
    asked, waits = [], []
    monkeypatch.setattr(mode.handler, "_handle_kernel_launch", lambda stream, read, written, outputs, schema, names: asked.append(
        (schema.name.partition("::")[2], len(read), len(written), len(outputs))) and [])
    monkeypatch.setattr(mode.handler, "_handle_stream_synchronization", waits.append)
    x, y = torch.ones(4, device="npu"), torch.ones(4, device="npu")
    with mode:
        for work, told in ((lambda: x + y, [("add", 2, 0, 0), ("add", 0, 1, 1)]), (lambda: x.add_(y), [("add_", 1, 1, 0)]),
                           (lambda: x.view(2, 2), [("view", 0, 0, 0)]), (lambda: torch.empty_like(x), [("empty_like", 0, 0, 0),
                                                                                                      ("empty_like", 0, 0, 1)]),
                           (lambda: torch.zeros_like(x), [("zeros_like", 0, 0, 0), ("zeros_like", 0, 1, 1)]),
                           (lambda: x.new_ones(3), [("new_ones", 0, 0, 0), ("new_ones", 0, 1, 1)]),
                           (lambda: x.new_empty(3), [("new_empty", 0, 0, 0), ("new_empty", 0, 0, 1)]),
                           (lambda: torch.max(x, 0), [("max", 1, 0, 0), ("max", 0, 2, 2)]),
                           (lambda: x.record_stream(torch.npu.current_stream()), []), (lambda: torch.ones(2) + 1, [])):
            asked.clear()
            work()
            assert asked == told
        assert waits == []


def test_it_is_switched_on_and_off_once(monkeypatch):
    done = []

    class Mode:
        def __enter__(self):
            done.append("enter")

        def __exit__(self, *error):
            done.append(("exit", *error))

        def end(self):
            done.append("end")

    monkeypatch.setattr(_sanitizer, "NPUSanitizerMode", Mode)
    monkeypatch.setattr(atexit, "register", lambda function: done.append("register"))
    monkeypatch.setattr(atexit, "unregister", lambda function: done.append("unregister"))
    monkeypatch.setattr(_sanitizer, "npu_sanitizer", made := _sanitizer.NPUSanitizer())
    assert made.enabled is False and made.mode is None
    made.disable()
    _sanitizer.enable_npu_sanitizer()
    _sanitizer.enable_npu_sanitizer()
    assert made.enabled is True and done == ["enter", "register"]
    made.disable()
    made.disable()
    assert made.enabled is False and done[2:] == [("exit", None, None, None), "end", "unregister"]
