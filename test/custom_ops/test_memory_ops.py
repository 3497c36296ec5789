"""Tensors in memory of the host, exchanged memory, and what looks at tensors from inside of a model."""

import gc
import os
import re
import subprocess
import sys

import pytest
import torch

import torch_npu


def test_swapped_memory_is_the_hosts_and_takes_nothing_of_the_card():
    """More of it than the card has."""
    code = """
import torch, torch_npu
t = torch_npu.empty_with_swapped_memory([1024, 1024, 24], dtype=torch.float32, device="npu")
assert (t.shape, t.dtype, t.device.type, t.is_contiguous()) == ((1024, 1024, 24), torch.float32, "npu", True)
t.fill_(3.0)
assert t[::64].sum(dtype=torch.float64).item() == 3.0 * t[::64].numel()
try:
    torch.empty(1024, 1024, 24, device="npu")
except torch.OutOfMemoryError:
    print("full")
"""
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, "SOFTNPU_MEMORY": "64M"}, capture_output=True, text=True)
    assert run.stdout == "full\n", run.stderr


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32], ids=str)
def test_operators_read_and_write_swapped_memory(dtype):
    t = torch_npu.empty_with_swapped_memory([5, 7], dtype=dtype)
    t.copy_(torch.arange(35).view(5, 7))
    out = torch.ones_like(t).mul_(t)
    t.mul_(2)
    expected = torch.arange(35).view(5, 7).to(dtype)
    assert torch.equal(out.cpu(), expected)
    assert torch.equal(t.cpu(), expected * 2)
    assert torch.equal(
        (t.t() @ t).cpu() if dtype.is_floating_point else t.cpu(),
        (expected * 2).t() @ (expected * 2) if dtype.is_floating_point else expected * 2,
    )


def test_an_optimiser_keeps_its_state_in_swapped_memory():
    """What such memory is for: read and written once a step."""
    w = torch.nn.Parameter(torch.ones(40, 3, device="npu"))
    reference = torch.nn.Parameter(torch.ones(40, 3))
    swapped, plain = torch.optim.Adam([w], lr=0.1), torch.optim.Adam([reference], lr=0.1)
    for _ in range(4):
        for optimizer, p in ((swapped, w), (plain, reference)):
            optimizer.zero_grad()
            p.square().sum().backward()
            optimizer.step()
            if p is w:
                for name in ("exp_avg", "exp_avg_sq"):
                    state = optimizer.state[p]
                    if state[name].untyped_storage().resizable():
                        state[name] = torch_npu.empty_with_swapped_memory(state[name].shape, dtype=torch.float32).copy_(state[name])
    torch.testing.assert_close(w.detach().cpu(), reference.detach())


def test_swapped_memory_is_freed():
    for _ in range(3):
        t = torch_npu.empty_with_swapped_memory([1 << 20], dtype=torch.uint8)
        t.fill_(1)
        view = t[10:20]
        del t
        assert torch.equal(view.cpu(), torch.ones(10, dtype=torch.uint8))
        del view
        gc.collect()
    assert torch_npu.empty_with_swapped_memory([0]).shape == (0,)


def test_swapped_memory_is_of_an_npu():
    with pytest.raises(ValueError, match="device must be an npu"):
        torch_npu.empty_with_swapped_memory([2], device="cpu")


def test_a_tensor_moves_into_the_memory_of_another():
    room, t = torch.arange(20.0, device="npu"), torch.zeros(2, 3, device="npu")
    assert torch_npu.npu_change_data_ptr(t, room, 4) == 0
    assert torch.equal(t.cpu(), torch.arange(4.0, 10.0).view(2, 3))
    t.add_(100)
    assert torch.equal(room.cpu()[4:10], torch.arange(104.0, 110.0))
    del room
    gc.collect()
    assert torch.equal(t.cpu(), torch.arange(104.0, 110.0).view(2, 3))  # lives on


@pytest.mark.parametrize(
    "index, dtype, words",
    [
        (-1, torch.float32, "index must not be negative"),
        (15, torch.float32, "too few from index 15"),
        (1 << 62, torch.float32, "too few"),
        (0, torch.float16, "of one type"),
    ],
)
def test_memory_that_does_not_fit_is_refused(index, dtype, words):
    with pytest.raises(RuntimeError, match=words):
        torch_npu.npu_change_data_ptr(torch.zeros(2, 3, device="npu", dtype=dtype), torch.zeros(20, device="npu"), index)
    integers = torch.zeros(3, dtype=torch.int32, device="npu")
    with pytest.raises(RuntimeError, match="float32, float16 or bfloat16"):
        torch_npu.npu_change_data_ptr(integers, integers, 0)


def test_printing(capsys):
    torch_npu.print_npugraph_tensor(torch.ones(2, device="npu"), tensor_name="x")
    torch_npu.print_npugraph_tensor(torch.ones(1, device="npu", dtype=torch.float16))
    assert (
        capsys.readouterr().out
        == "x=tensor([1., 1.]), shape=(2,), dtype=torch.float32\ntensor([1.], dtype=torch.float16), shape=(1,), dtype=torch.float16\n"
    )


def test_saving(tmp_path):
    t = torch.arange(3.0, device="npu")
    save = torch.ops.npu.save_npugraph_tensor
    save(t, save_path=str(tmp_path / "x.pt"))
    save(t + 1, save_path=str(tmp_path / "x.pt"))
    save(t, save_path=str(tmp_path / "y"), overwrite=True)
    save([t, t + 2], save_path=str(tmp_path / "z.bin"), overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x_device_0_0.pt", "x_device_0_1.pt", "y_device_0.pt", "z_device_0.bin"]
    assert torch.equal(torch.load(tmp_path / "x_device_0_1.pt"), torch.arange(1.0, 4.0))
    assert torch.equal(torch.load(tmp_path / "z_device_0.bin")[1], torch.arange(2.0, 5.0))
    with pytest.raises(ValueError, match="must name a file"):
        save(t, save_path=f"{tmp_path}/")
    with pytest.raises(ValueError, match="is empty"):
        torch.ops.npu.save_npugraph_tensor.tensor_list([])


def test_saving_without_a_name_and_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save, x = torch.ops.npu.save_npugraph_tensor, torch.ones(2, requires_grad=True)
    save(x.npu())
    (made,) = tmp_path.iterdir()
    assert re.fullmatch(r"tensor_\d{8}_\d{6}_\d{6}_device_0_0\.pt", made.name) and not torch.load(made).requires_grad
    made.unlink()
    save(x, save_path="x.pt")
    save(x, save_path="x.pt")
    save([x, x], save_path="x.pt", overwrite=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.pt", "x_0.pt", "x_1.pt"]
    assert [t.requires_grad for t in torch.load(tmp_path / "x.pt")] == [False, False]
    with pytest.raises(ValueError, match="the tensors must be on one device"):
        save([x, x.npu()], save_path="y.pt")
    with pytest.raises(ValueError, match=r"must name a file, got '/'"):
        save(x, save_path="/")


def test_printing_tensors_of_the_cpu_and_with_gradients(capsys):
    torch_npu.print_npugraph_tensor(torch.ones(1, requires_grad=True), tensor_name="")
    torch_npu.print_npugraph_tensor(torch.zeros(1, 0, device="npu").requires_grad_())
    assert capsys.readouterr().out == (
        "=tensor([1.]), shape=(1,), dtype=torch.float32\ntensor([], size=(1, 0)), shape=(1, 0), dtype=torch.float32\n")


def test_swapped_memory_has_the_default_type_and_the_card_that_is_asked_for():
    assert torch_npu.empty_with_swapped_memory([2]).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        made = torch_npu.empty_with_swapped_memory([2, 3], device="npu:1")
        assert made.dtype == torch.float64 and made.device == torch.device("npu:1") and made.shape == (2, 3)
    finally:
        torch.set_default_dtype(torch.float32)


def test_seeds_of_random_choices():
    """Each of the two decides; without one the generator of the card does, which is left alone otherwise."""
    mask = torch.ones(200, dtype=torch.bool, device="npu")

    def draw(*seeds):
        return torch_npu.npu_random_choice_with_mask(mask, 20, *seeds)[0].flatten().tolist()

    drawn = [draw(*seeds) for seeds in ((0, 5), (5, 0), (5, 5), (3, 4), (4, 3))]
    assert drawn == [draw(*seeds) for seeds in ((0, 5), (5, 0), (5, 5), (3, 4), (4, 3))] and len(set(map(tuple, drawn))) == 5
    torch.npu.manual_seed(7)
    first = draw()
    assert draw() != first
    torch.npu.manual_seed(7)
    draw(3, 4)
    assert draw() == first


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
def test_random_choices_of_nothing(shape):
    places, valid = torch_npu.npu_random_choice_with_mask(torch.ones(shape, dtype=torch.bool, device="npu"), 4)
    assert places.shape == (4, len(shape)) and places.dtype == torch.int32 and not places.any() and not valid.any()


def test_the_time_of_an_operator():
    assert torch.ops.npu.set_op_timeout_ms(60_000) is None
    with pytest.raises(ValueError, match="must not be negative"):
        torch.ops.npu.set_op_timeout_ms(-1)


def test_random_choices():
    mask = torch.rand(6, 7, 2, device="npu") > 0.5
    places, valid = torch_npu.npu_random_choice_with_mask(mask, 30)
    count = int(valid.sum())
    assert (places.shape, places.dtype, valid.shape, valid.dtype) == ((30, 3), torch.int32, (30,), torch.bool)
    assert count == min(30, int(mask.sum()))
    rows = places[valid].cpu().tolist()
    assert len({tuple(row) for row in rows}) == count and all(mask[tuple(row)] for row in rows)
    assert not places[~valid].any()
    again = [torch_npu.npu_random_choice_with_mask(mask, 5, 3, 4)[0].cpu() for _ in range(2)]
    assert torch.equal(*again)
    draws = torch.stack(
        [torch_npu.npu_random_choice_with_mask(torch.ones(8, dtype=torch.bool, device="npu"), 1)[0].cpu() for _ in range(400)]
    )
    assert draws.unique().numel() == 8
    with pytest.raises(TypeError, match="must be a bool tensor"):
        torch_npu.npu_random_choice_with_mask(torch.ones(3, device="npu"))


@pytest.mark.parametrize("positives, negatives", [(2, 6), (5, 5), (8, 1), (0, 9), (0, 0)])
def test_samples_of_labels(positives, negatives):
    labels = torch.tensor([1] * positives + [0] * negatives + [-1] * 3, dtype=torch.int32)[torch.randperm(positives + negatives + 3)].npu()
    sample = torch_npu.npu_sub_sample(labels, 5, 0.6)
    kept = min(positives, 3)
    assert int((sample == 1).sum()) == kept and int((sample == 0).sum()) == min(negatives, 5 - kept)
    assert sample.dtype == torch.int32 and bool(((sample == labels) | (sample == -1)).all())
