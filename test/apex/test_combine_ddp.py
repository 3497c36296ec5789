"""combine_ddp: two ranks with halves of a batch get the gradient of the whole batch. Run as a script, this file is a rank."""

import os
import subprocess
import sys
from pathlib import Path

import torch

FOLDER = str(Path(__file__).resolve().parents[2] / "apex")
BATCH = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


def make():
    torch.manual_seed(1)
    return torch.nn.Linear(3, 2)


def rank(index, folder):
    sys.path.insert(0, FOLDER)
    from apex import amp

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=index, world_size=2)
    model = make()
    if index == 1:
        torch.nn.init.zeros_(model.weight)  # rank 0's parameters count
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O0", loss_scale=4.0, combine_grad=True, combine_ddp=True,
                                      ddp_replica_count=3, verbosity=0)
    with amp.scale_loss(model(BATCH[4 * index : 4 * index + 4]).square().mean(), optimizer) as loss:
        loss.backward()
    optimizer.step()
    torch.save(model.state_dict(), f"{folder}/{index}.pt")
    torch.distributed.destroy_process_group()


def test_ranks_average_their_gradients(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, __file__, str(index), str(tmp_path)], env=environment) for index in range(2)]
    assert [process.wait() for process in ranks] == [0, 0]
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(BATCH).square().mean().backward()
    optimizer.step()
    for index in range(2):
        for name, value in torch.load(tmp_path / f"{index}.pt").items():
            torch.testing.assert_close(value, model.state_dict()[name])


if __name__ == "__main__":
    rank(int(sys.argv[1]), sys.argv[2])
