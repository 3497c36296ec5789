"""How many threads a copy on the card and a kernel have, as torch and SOFTNPU_THREADS allow; what else a kernel has of its thread."""

import pytest

CODE = """
import ctypes
x = torch.zeros(8 << 20).npu()
y = torch.empty_like(x)
with open("/proc/self/maps") as maps:
    library = ctypes.CDLL(next(line.split()[-1] for line in maps if "libsoftnpu" in line))
library.softnpu_counter.restype = ctypes.c_uint64
def helpers():
    before = library.softnpu_counter(b"copy_helpers")
    y.copy_(x)
    y.cpu()
    torch.npu.synchronize()
    return library.softnpu_counter(b"copy_helpers") - before
counts = []
for threads in (1, 2):
    torch.set_num_threads(threads)
    counts.append(helpers())
print(counts[0], counts[1] > 0)
"""


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_copy_takes_as_many_threads_as_torch_has(check, level):
    assert check(CODE, SOFTNPU_THREADS="2", TASK_QUEUE_ENABLE=str(level)) == "0 True"


def test_a_card_with_one_thread_copies_with_one(check):
    assert check(CODE, SOFTNPU_THREADS="1") == "0 False"


KERNEL = """
import os
torch.set_num_threads(2)
x, before = torch.rand(1 << 20).npu(), len(os.listdir("/proc/self/task"))
torch.sin(x)
torch.npu.synchronize()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_kernel_takes_as_many_threads_as_the_card_has(check, threads):
    """The threads that OpenMP starts for it."""
    assert check(KERNEL, SOFTNPU_THREADS=str(threads), TASK_QUEUE_ENABLE="0", SOFTNPU_ASYNC="0") == str(threads - 1)


FLUSHING = """
tiny = torch.full((16,), 1e-39)
on_card = tiny.npu()
for turn in range(3):  # a call is kept from its second time on
    pairs = []
    for flush in (True, False, True):
        assert torch.set_flush_denormal(flush)
        for function in (lambda x: x * 1.0, lambda x: x.sum(), lambda x: x.view(4, 4) @ torch.eye(4, device=x.device)):
            pairs.append((function(tiny), function(on_card)))
    torch.npu.synchronize()
    torch.set_flush_denormal(False)
    print([bool((cpu != 0).any()) for cpu, _ in pairs] == [bool((npu.cpu() != 0).any()) for _, npu in pairs], end=" ")
print(sorted({bool((cpu != 0).any()) for cpu, _ in pairs}))
"""


@pytest.mark.parametrize("asynchronous", [0, 1])
def test_a_kernel_flushes_denormal_numbers_as_the_thread_that_launched_it(check, asynchronous):
    output = check(FLUSHING, SOFTNPU_ASYNC=str(asynchronous), TASK_QUEUE_ENABLE="0")
    assert output == "True True True [False, True]"
