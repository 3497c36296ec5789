"""torch.save and torch.load: plain torch files, any map_location, readable where this plugin is absent."""

import io

import pytest
import torch

two_cards = pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two cards")


def saved(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("weights_only", [True, False])
def test_round_trip(weights_only):
    x = torch.arange(6.0).reshape(2, 3).npu()
    y = torch.load(saved({"x": x, "view": x[1]}), weights_only=weights_only)
    assert y["x"].device == torch.device("npu:0")
    assert torch.equal(y["x"].cpu(), x.cpu())
    assert y["view"].data_ptr() == y["x"][1].data_ptr()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.complex64])
def test_dtypes(dtype):
    x = torch.tensor([1, 0, 1]).to(dtype)
    assert torch.equal(torch.load(saved(x.npu())).cpu(), x)


LOCATIONS = [
    ("npu", "npu:0"),
    ("npu:0", "npu:0"),
    (torch.device("npu"), "npu:0"),
    (torch.device("npu", 0), "npu:0"),
    ("cpu", "cpu"),
    (torch.device("cpu"), "cpu"),
    ({"npu:0": "cpu"}, "cpu"),
    ({"cpu": "npu:0"}, "npu:0"),
    (lambda storage, location: storage, "cpu"),
    (lambda storage, location: storage.npu(0), "npu:0"),
]


@pytest.mark.parametrize(("location", "expected"), LOCATIONS)
def test_map_location(location, expected):
    source = torch.arange(4.0)
    if location != {"cpu": "npu:0"}:
        source = source.npu()
    y = torch.load(saved(source), map_location=location)
    assert y.device == torch.device(expected)
    assert torch.equal(y.cpu(), torch.arange(4.0))


@two_cards
def test_map_location_to_another_card():
    x = torch.arange(4.0).npu(0)
    for location in ("npu:1", torch.device("npu:1"), {"npu:0": "npu:1"}):
        assert torch.load(saved(x), map_location=location).device == torch.device("npu:1")
    with torch.npu.device(1):
        assert torch.load(saved(x), map_location="npu").device == torch.device("npu:1")
        assert torch.load(saved(x)).device == torch.device("npu:0")


def test_unknown_card_is_explained():
    with pytest.raises(RuntimeError, match=r"map_location"):
        torch.load(saved(torch.ones(2, device="npu")), map_location="npu:99")


def test_module_and_optimizer_state():
    model = torch.nn.Linear(3, 2).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 3, device="npu")).sum().backward()
    optimizer.step()
    state = torch.load(saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), map_location="cpu")
    assert all(tensor.device.type == "cpu" for tensor in state["model"].values())
    fresh = torch.nn.Linear(3, 2)
    fresh.load_state_dict(state["model"])
    assert torch.equal(fresh.weight, model.weight.cpu())


@pytest.mark.parametrize("legacy", [False, True])
def test_files_load_without_this_plugin(run, tmp_path, legacy):
    path = tmp_path / "tensors.pt"
    x = torch.arange(4.0).npu()
    things = {"tensor": x, "parameter": torch.nn.Parameter(x), "view": x[1:3]}
    torch.save(things, path, _use_new_zipfile_serialization=not legacy)
    code = f"""
import sys; sys.modules["torch_npu"] = None  # cannot be imported
import torch
things = torch.load({str(path)!r}, map_location="cpu", weights_only=True)
assert things["tensor"].tolist() == [0, 1, 2, 3] and things["view"].tolist() == [1, 2], things
assert isinstance(things["parameter"], torch.nn.Parameter)
assert not hasattr(torch, "npu")
"""
    process = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert process.returncode == 0, process.stderr


def test_cpu_files_load_to_the_npu(tmp_path):
    torch.save(torch.arange(4.0), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location="npu").is_npu
    assert torch.load(tmp_path / "x.pt", map_location="npu", mmap=True).tolist() == [0, 1, 2, 3]


def test_a_checkpoint_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    from torch_npu.utils import save_async

    (tmp_path / "x.pt").write_bytes(b"the old one")
    with pytest.warns(RuntimeWarning, match="was not written"):
        save_async({"x": torch.ones(2, device="npu"), "function": lambda: None}, tmp_path / "x.pt").join()
    assert [path.name for path in tmp_path.iterdir()] == ["x.pt"]
    assert (tmp_path / "x.pt").read_bytes() == b"the old one"
