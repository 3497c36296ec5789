"""DataLoaders that pin memory, and tensors of the card in other processes."""

import torch
import torch.multiprocessing
from rows import each
from torch.utils.data import DataLoader, TensorDataset

import torch_npu  # noqa: F401

IN_MODES = ("queue 1",)
DATA = TensorDataset(torch.arange(40.0).view(10, 4), torch.arange(10))


class Pair:
    def __init__(self, x):
        self.x = x

    def pin_memory(self):
        return Pair(self.x.pin_memory())


LOADERS = {
    "in this process": {},
    "shuffled": {"shuffle": True},
    "last dropped": {"drop_last": True, "batch_size": 3},
    "with workers": {"num_workers": 1, "multiprocessing_context": "fork"},
    "device named": {"pin_memory_device": "npu"},
}


@each(LOADERS)
def check_batches_are_pinned(arguments):
    seen = []
    for x, y in DataLoader(DATA, **{"batch_size": 2, "pin_memory": True, **arguments}):
        assert x.is_pinned() and y.is_pinned()
        device = x.to("npu", non_blocking=True)
        seen += y.npu(non_blocking=True).tolist()
        assert torch.equal(device.cpu(), x)
    assert sorted(seen) == list(range(9 if "drop_last" in arguments else 10))


def check_batches_of_ones_own_type_are_pinned():
    (batch,) = DataLoader([torch.ones(3)], batch_size=1, pin_memory=True, collate_fn=lambda items: Pair(items[0]))
    assert batch.x.is_pinned()


@each({"dictionary": lambda x: {"a": x}, "nested": lambda x: [x, {"b": (x, 3)}], "with texts": lambda x: {"a": x, "b": "text"}})
def check_batches_of_a_structure_are_pinned(shape):
    (batch,) = DataLoader([shape(torch.ones(3))], batch_size=None, pin_memory=True)
    assert all(leaf.is_pinned() for leaf in torch.utils._pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor))


# Tensors that other processes see: what the child does with them.


def add(queue, answers):
    x = queue.get()
    x.add_(1)
    torch.npu.synchronize()
    answers.put(x.cpu().tolist())
    queue.get()


def send_back(queue, answers):
    for _ in range(3):
        x = torch.full((4,), 5.0, device="npu")
        answers.put(x)
    queue.get()


def in_child(target, *given):
    context = torch.multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    child = context.Process(target=target, args=(queue, answers))
    child.start()
    for each_given in given:
        queue.put(each_given)
    return child, queue, answers


SHARED = {
    "tensor": lambda: torch.zeros(4).npu(),
    "slice": lambda: torch.zeros(10).npu()[3:7],
    "half": lambda: torch.zeros(4).half().npu(),
    "integers": lambda: torch.zeros(4, dtype=torch.int64).npu(),
}


@each(SHARED)
def check_a_tensor_is_shared_with_a_child(make):
    torch.npu.set_device(0)
    x = make()
    child, queue, answers = in_child(add, x)
    assert answers.get(timeout=120) == [1] * 4
    assert x.tolist() == [1] * 4
    queue.put(None)
    child.join()


def check_a_childs_tensors_come_here():
    torch.npu.set_device(0)
    child, queue, answers = in_child(send_back)
    for _ in range(3):
        x = answers.get(timeout=120)
        assert x.device == torch.device("npu:0") and x.tolist() == [5] * 4
    queue.put(None)
    child.join()
    del x
    torch.npu.ipc_collect()


def check_a_sent_storage_is_described():
    from torch.multiprocessing.reductions import reduce_tensor

    rebuild, arguments = reduce_tensor(torch.ones(4).npu())
    assert callable(rebuild) and any(isinstance(each, bytes) for each in arguments)
