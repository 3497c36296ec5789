"""npu tensors between processes: copied through the host."""

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

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
