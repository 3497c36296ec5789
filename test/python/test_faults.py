"""SOFTNPU_FAULT: each fault as a program meets it."""

import pytest

import torch_npu

pytestmark = pytest.mark.skipif(not torch_npu.is_softnpu(), reason="another provider than softnpu")

LAUNCH = """
x = torch.ones(4, device="npu")
torch.npu.synchronize()
for step in range(9):
    try:
        y = x + step
        torch.npu.synchronize()
    except RuntimeError as error:
        print(step, type(error).__name__, error)
"""


# The words of the first line are those of docs/errors.md, which the official client was seen to use.
@pytest.mark.parametrize(("fault", "words", "again"), [
    ("ecc@launch=4", "HBM MULTI BIT ECC ERROR.", False),
    ("link@launch=4", "HCCS LINK ERROR.", False),
    ("timeout@launch=4", "aclnnAdds did not end in time on card 0", False),
    ("lost@launch=4", "card 0 was lost at aclnnAdds", True),
])
@pytest.mark.parametrize("level", ["0", "2"])
def test_a_launch_meets_its_fault(check, fault, words, again, level):
    lines = check(LAUNCH, SOFTNPU_FAULT=fault, TASK_QUEUE_ENABLE=level)
    failures = [line for line in lines.splitlines() if line[:1].isdigit() and "Error" in line]
    assert words in lines and f"(SOFTNPU_FAULT={fault})" in lines, lines
    assert (len(failures) > 1) == again, lines


def test_only_the_named_card_fails(check):
    code = LAUNCH.replace('"npu"', '"npu:1"').replace("synchronize()", "synchronize(1)")
    assert check(code, SOFTNPU_FAULT="ecc@launch=4:card=0") == ""
    assert "HBM MULTI BIT ECC ERROR." in check(code, SOFTNPU_FAULT="ecc@launch=4:card=1")


def test_a_failed_allocation_is_an_OutOfMemoryError_that_a_program_can_catch(check):
    lines = check("""
kept = [torch.ones(1 << 20, device="npu")]
try:
    kept.append(torch.ones(8 << 20, device="npu"))
except torch.OutOfMemoryError as error:
    print(error)
    print(torch.ones(1 << 18, device="npu").sum().item())
""", SOFTNPU_FAULT="oom@allocation=2")
    assert lines.startswith("NPU out of memory. Tried to allocate 32.00 MiB.") and lines.endswith("262144.0")


def test_a_slow_link_delays_every_collective_from_the_named_one_on(check):
    lines = check("""
import time
import torch.distributed as dist
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(4, device="npu")
for _ in range(3):
    start = time.monotonic()
    dist.all_reduce(x)
    torch.npu.synchronize()
    print(time.monotonic() - start >= 0.4, x.tolist())
dist.destroy_process_group()
""", SOFTNPU_FAULT="slow@collective=2:ms=400")
    assert lines.splitlines()[1:] == ["True [1.0, 1.0, 1.0, 1.0]"] * 2


@pytest.mark.parametrize("fault", ["ecc", "ecc@launch=0", "smoke@launch=1", "ecc@launch=1;lost@launch=2"])
def test_what_makes_no_sense_is_refused_with_the_accepted_forms(check, fault):
    lines = check("try: torch.ones(1, device='npu')\nexcept RuntimeError as error: print(error)", SOFTNPU_FAULT=fault)
    assert f"SOFTNPU_FAULT='{fault}' makes no sense; expected entries KIND@PLACE=N separated by commas" in lines
    assert "'ecc@launch=100:card=1'" in lines
