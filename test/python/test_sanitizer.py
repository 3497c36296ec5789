"""The stream sanitizer: races are found, with operators and streams, and programs that order their work are left alone."""

import pytest

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
