"""npu tensors between processes: shared, and what is refused or copied."""

import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch

import torch_npu
from torch_npu.multiprocessing import reductions

LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Ones(Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return torch.full((2,), float(index), device="npu:1")

if __name__ == "__main__":
    batches = list(DataLoader(Ones(), num_workers=1, multiprocessing_context="spawn"))
    print([batch.device for batch in batches], torch.cat(batches).tolist())
"""


def test_a_spawned_worker_may_yield_npu_tensors(run, tmp_path):
    (tmp_path / "loader.py").write_text(LOADER)
    process = run("import runpy; runpy.run_path('loader.py', run_name='__main__')")
    assert process.returncode == 0, process.stderr
    device = "device(type='npu', index=1)"
    assert process.stdout == f"[{device}, {device}, {device}] [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]\n"


@pytest.mark.parametrize("make", [torch.Tensor.clone, lambda t: torch.nn.Parameter(t, requires_grad=False), torch.Tensor.to_sparse])
def test_kind_and_value_stay(make):
    sent = make(torch.arange(4.0, device="npu"))
    received = pickle.loads(ForkingPickler.dumps(sent))
    assert type(received) is type(sent) and received.device == sent.device and not received.requires_grad
    assert torch.equal(received.to_dense(), sent.to_dense())


def test_leaves_keep_their_gradient_flag_and_results_are_refused():
    leaf = torch.ones(2, device="npu", requires_grad=True)
    assert pickle.loads(ForkingPickler.dumps(leaf)).requires_grad
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(leaf * 2)


def test_a_reader_in_the_same_process_gets_the_same_memory():
    sent = torch.arange(6.0, device="npu")
    received = pickle.loads(ForkingPickler.dumps(sent[2:]))
    received.add_(10)
    assert sent.tolist() == [0, 1, 12, 13, 14, 15] and received.storage_offset() == 2
    assert torch_npu._C.collect_shared() == 0


SHARING = """
import gc, os, signal, sys, time
import torch, torch_npu
import torch.multiprocessing as mp
from multiprocessing.reduction import ForkingPickler

def add_one(given, back):
    tensor = given.get()
    tensor.add_(1)
    back.put(tensor.data_ptr())

def double(given, back):
    for tensor in iter(given.get, None):
        tensor.mul_(2)
        total = tensor.sum().item()
        del tensor  # before the sender goes on, which then finds it free
        back.put(total)

def hold(given, back):
    tensor = given.get()
    back.put(0)
    time.sleep(60)

def send(given, back):
    given.put(torch.arange(3.0, device="npu"))
    back.get()
    os.kill(os.getpid(), signal.SIGKILL)

def pickle_and_end(given, back):
    back.put(bytes(ForkingPickler.dumps(torch.ones(3, device="npu"))))

def free(given, back):
    tensor = given.get()
    for address in (tensor.data_ptr(), tensor.data_ptr() + 512, id(tensor)):
        try:
            torch.npu.caching_allocator_delete(address)
        except ValueError as error:
            back.put(str(error).startswith("invalid device pointer"))
    back.put(tensor.tolist())

def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))

if __name__ == "__main__":
    context = mp.get_context("spawn")
    given, back = context.SimpleQueue(), context.SimpleQueue()
    task = sys.argv[1]
    target = {"write": add_one, "trips": double, "holder": hold, "killed": send, "gone": pickle_and_end, "foreign": free}[task]
    child = context.Process(target=target, args=(given, back), daemon=True)
    child.start()
    if task == "write":
        tensor = torch.zeros(2, 4, device="npu:1")
        given.put(tensor.t()[1:])
        back.get()
        child.join()
        print(tensor.tolist(), torch_npu._C.collect_shared())
    elif task == "trips":
        for trip in range(int(sys.argv[2])):
            tensor = torch.ones(300, device="npu")
            given.put(tensor[5:15])
            assert back.get() == 20, trip
            del tensor
            if trip == 20:
                before = torch.npu.memory_allocated(), open_files("self"), open_files(child.pid)
        after = torch.npu.memory_allocated(), open_files("self"), open_files(child.pid)
        assert all(b >= a for b, a in zip(before, after)), (before, after)
        given.put(None)
        child.join()
        torch.npu.ipc_collect()
        print(torch_npu._C.collect_shared(), torch.npu.memory_allocated())
    elif task == "holder":
        given.put(torch.ones(3, device="npu"))
        back.get()
        torch.npu.ipc_collect()
        held = torch_npu._C.collect_shared(), torch.npu.memory_allocated()
        child.kill()
        child.join()
        torch.npu.ipc_collect()
        print(held, torch_npu._C.collect_shared(), torch.npu.memory_allocated())
    elif task == "killed":
        tensor = given.get()
        back.put(0)
        child.join()
        tensor.add_(1)
        print(child.exitcode, tensor.tolist())
    elif task == "gone":
        message = back.get()
        child.join()
        try:
            ForkingPickler.loads(message)
        except RuntimeError as error:
            print("has ended, and its memory with it" in str(error))
    elif task == "foreign":
        tensor = torch.ones(3, device="npu")
        given.put(tensor)
        print([back.get() for _ in range(4)])
        child.join()
    print([name for name in os.listdir("/dev/shm") if name.startswith(f"torch_npu-{os.getpid()}-")] == [] or "listed while it runs")
"""


@pytest.mark.parametrize("level", ["0", "2"])
@pytest.mark.parametrize("task, output", [
    ("write", "[[0.0, 1.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]] 0\n"),
    ("trips 1000", "0 0\n"),
    ("holder", "(1, 512) 0 0\n"),
    ("killed", "-9 [1.0, 2.0, 3.0]\n"),
    ("gone", "True\n"),
    ("foreign", "[True, True, True, [1.0, 1.0, 1.0]]\n"),
])  # fmt: skip
def test_memory_is_shared(run, tmp_path, task, output, level):
    (tmp_path / "sharing.py").write_text(SHARING)
    code = f"import runpy, sys; sys.argv = 'sharing.py {task}'.split(); runpy.run_path('sharing.py', run_name='__main__')"
    process = run(code, TASK_QUEUE_ENABLE=level)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith(output)
    assert "Warning" not in process.stderr


def take_apart(tensor):
    function, arguments = reductions.reduce_tensor(tensor)
    assert function is reductions.rebuild_npu_tensor
    reductions._sent.clear()  # as another process would see it
    return list(arguments)


KEY, SIZE, OFFSET, LEDGER, CELL = 7, 8, 9, 11, 12  # places in the arguments


def message_of(arguments):
    return int(arguments[KEY].split(b"|")[2])


@pytest.mark.parametrize("place, value, error, words", [
    (KEY, b"nothing", ValueError, "storage_handle is not one"),
    (KEY, b"softnpu-ipc-0000000000000000|2097152", ValueError, "storage_handle is not one"),
    (KEY, b"softnpu-ipc-0000000000000000|2097152|1", RuntimeError, "no process of this user shares anything under this key"),
    (SIZE, 1 << 40, ValueError, "are not inside the shared memory"),
    (OFFSET, -4, ValueError, "are not inside the shared memory"),
    (LEDGER, "../../etc/passwd", ValueError, "not the name of a list of shared npu tensors"),
    (LEDGER, "torch_npu-1-1-0123456789abcdef", RuntimeError, "has ended, and its memory with it"),
    (CELL, 1 << 20, ValueError, "has no number 1048576"),
    (CELL, 60000, RuntimeError, "with another process, or its sender has taken it back"),
    (6, 99, RuntimeError, "invalid device ordinal|Invalid device|device"),
    (13, b"x", ValueError, "come from another plugin"),
])  # fmt: skip
def test_bad_handles_are_refused(place, value, error, words):
    tensor = torch.ones(4, device="npu")
    arguments = take_apart(tensor)
    good = list(arguments)
    arguments[place] = value
    with pytest.raises(error, match=words):
        reductions.rebuild_npu_tensor(*arguments)
    torch_npu._C.decline_storage(good[LEDGER], good[CELL], message_of(good))
    assert torch_npu._C.collect_shared() == 0


def test_a_message_may_be_received_again_while_the_sender_has_the_tensor():
    tensor = torch.ones(4, device="npu")
    arguments = take_apart(tensor)
    first = reductions.rebuild_npu_tensor(*arguments)
    again = reductions.rebuild_npu_tensor(*arguments)
    second = reductions.rebuild_npu_tensor(*take_apart(tensor))  # another message about the same memory
    second.add_(1)
    assert first.tolist() == again.tolist() == second.tolist() == tensor.tolist() == [2, 2, 2, 2]
    assert first.data_ptr() == again.data_ptr()
    for _ in range(3):
        del first, again
        assert torch_npu._C.collect_shared() == 1
        first = again = reductions.rebuild_npu_tensor(*arguments).add_(1)
    assert tensor.tolist() == [5, 5, 5, 5]
    del first, again, second, tensor
    assert torch_npu._C.collect_shared() == 0
    with pytest.raises(RuntimeError, match="with another process, or its sender has taken it back"):
        reductions.rebuild_npu_tensor(*arguments)


def test_a_tensor_that_is_sent_again_needs_no_more_room():
    tensor = torch.ones(4, device="npu")
    cells = set()
    for _ in range(5):
        arguments = take_apart(tensor)
        cells.add(arguments[CELL])
        reductions.rebuild_npu_tensor(*arguments)
    assert len(cells) == 1
    two = [take_apart(tensor), take_apart(tensor)]  # both on their way
    assert two[0][CELL] != two[1][CELL]
    for arguments in two:
        torch_npu._C.decline_storage(arguments[LEDGER], arguments[CELL], message_of(arguments))


def test_the_message_of_a_freed_tensor_is_not_that_of_the_next():
    old = take_apart(torch.ones(4, device="npu"))
    torch_npu._C.decline_storage(old[LEDGER], old[CELL], message_of(old))
    assert torch_npu._C.collect_shared() == 0
    new = take_apart(torch.zeros(4, device="npu"))
    new[CELL], kept = old[CELL], new[CELL]
    with pytest.raises(RuntimeError, match="its sender has taken it back"):
        reductions.rebuild_npu_tensor(*old)
    new[CELL] = kept
    torch_npu._C.decline_storage(new[LEDGER], new[CELL], message_of(new))


def test_torchs_own_name_takes_npu_tensors_apart():
    function, arguments = torch.multiprocessing.reductions.reduce_tensor(torch.ones(4, device="npu")[1:])
    assert function is reductions.rebuild_npu_tensor and arguments[6] == 0
    assert function(*arguments).tolist() == [1, 1, 1]
    assert torch.multiprocessing.reductions.reduce_tensor(torch.ones(2))[0] is torch.multiprocessing.reductions.rebuild_tensor


PACKED = """
import torch, torch_npu
import torch.multiprocessing as mp
from torch.multiprocessing.reductions import reduce_tensor

def receive(pipe):
    from torch_npu.multiprocessing.reductions import rebuild_npu_tensor
    arguments = list(pipe.recv())
    arguments[6] = 0  # the card as this process counts
    for _ in range(3):
        pipe.send(rebuild_npu_tensor(*arguments).tolist())
        pipe.recv()

if __name__ == "__main__":
    ours, theirs = mp.get_context("spawn").Pipe()
    child = mp.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
    child.start()
    buffer = torch.zeros(2, device="npu")
    ours.send(reduce_tensor(buffer)[1])
    for chunk in range(3):
        assert ours.recv() == [chunk] * 2, chunk
        buffer.fill_(chunk + 1)
        torch.npu.synchronize()
        ours.send(None)
    child.join()
    print(child.exitcode)
"""


def test_one_buffer_carries_many_rounds(run, tmp_path):
    (tmp_path / "packed.py").write_text(PACKED)
    process = run("import runpy; runpy.run_path('packed.py', run_name='__main__')")
    assert process.stdout == "0\n", process.stderr


def test_what_cannot_be_mapped_is_copied_with_a_warning(run):
    code = (
        "import torch, torch_npu, pickle, warnings\n"
        "from multiprocessing.reduction import ForkingPickler\n"
        "x = torch.ones(3, device='npu')\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    y = pickle.loads(ForkingPickler.dumps(x)); y = pickle.loads(ForkingPickler.dumps(x))\n"
        "y.add_(1)\n"
        "print(x.tolist(), len(caught), 'are copied' in str(caught[0].message))"
    )
    process = run(code, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    assert process.stdout == "[1.0, 1.0, 1.0] 1 True\n", process.stderr


def test_the_example_of_the_page_runs(run, tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs/sharing.md").read_text()
    (tmp_path / "example.py").write_text(page.partition("```py\n")[2].partition("```")[0])
    process = run("import runpy; runpy.run_path('example.py', run_name='__main__')")
    assert process.stdout == "[1.0, 1.0]\n", process.stderr
