"""python -m torch_npu.compare: the first operator in which two dumps differ, and operators repeated from their inputs."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from torch_npu.compare.__main__ import main
from torch_npu.compare.difference import aligned, of_statistics, of_values
from torch_npu.compare.folder import Launch, read

DEEP = 6


class Layer(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.linear, self.factor = torch.nn.Linear(8, 8), factor

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.factor


@pytest.fixture
def dumped(tmp_path, monkeypatch):
    """dumped(name, body): the folder of a dump of body()."""

    def run(name, body, settings=""):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("TORCH_NPU_DUMP", f"path={tmp_path / name}{settings}")
        torch.npu.init_dump()
        try:
            body()
        finally:
            torch.npu.finalize_dump()
        (folder,) = (tmp_path / name).iterdir()
        return str(folder)

    return run


def network(wrong_layer=None):
    def body():
        torch.manual_seed(0)
        net = torch.nn.Sequential(*(Layer(1.01 if i == wrong_layer else 1.0) for i in range(DEEP))).npu()
        net(torch.randn(4, 8).npu()).sum().backward()

    return body


@pytest.mark.parametrize("settings", ["", ",data=stats"])
def test_the_layer_with_the_error_is_named(dumped, tmp_path, capsys, settings):
    right, wrong = dumped("right", network(), settings), dumped("wrong", network(3), settings)
    picture = tmp_path / "error.svg"
    assert main([right, wrong, "--picture", str(picture)]) == 1
    text = capsys.readouterr().out
    assert "The first is launch 11, aten::mul (aclnnMuls)" in text and "module 3 (Layer); its inputs agree" in text
    bars = [bar for bar in ElementTree.parse(picture).iter() if bar.tag.endswith("title")]
    assert len(bars) == len(read(right))
    assert main([right, right]) == 0 and main([right, wrong, "--rtol", "1", "--atol", "1"]) == 0


def calculate():
    x = torch.randn(3, 4, device="npu", dtype=torch.bfloat16)
    _ = x.softmax(-1)
    _ = torch.cat([x, x], 1)
    x.clamp_(min=-0.5)
    _ = x * 2.5
    _ = x.sum(1, keepdim=True, dtype=torch.float32)


def test_operators_are_repeated_from_their_inputs(dumped, capsys):
    folder = dumped("one", calculate)
    repeated = [launch for launch in read(folder) if launch.operator != "aten::normal_"]
    assert len(repeated) == 5
    for launch in repeated:
        assert main(["--replay", folder, "--order", str(launch.order)]) == 0
        text = capsys.readouterr().out
        assert all(f"output 0: {what}: equal" in text or f"output 0: {what}: close" in text
                   for what in ("cpu and npu", "cpu and the dump", "npu and the dump"))


def test_a_result_that_was_wrong_shows_when_it_is_repeated(dumped, capsys):
    folder = dumped("one", lambda: torch.ones(3, device="npu").mul_(2))
    launch = read(folder)[-1]
    np.save(launch.outputs[0].file, np.full(3, 2.5, np.float32))
    assert main(["--replay", folder, "--order", str(launch.order)]) == 1
    assert "cpu and the dump: differs, largest 0.5" in capsys.readouterr().out


def test_what_cannot_be_answered(dumped, tmp_path, capsys):
    folder = dumped("one", lambda: torch.randn(3, device="npu"))
    assert main([folder, str(tmp_path)]) == 2 and "is no dump" in capsys.readouterr().err
    assert main(["--replay", folder, "--order", "99"]) == 2 and "has no launch 99" in capsys.readouterr().err
    for wrong in ([folder], ["--replay", folder], [folder, folder, "--replay", folder, "--order", "0"]):
        with pytest.raises(SystemExit):
            main(wrong)


def launch(order, name):
    return Launch(order, 0, name, name, "", "", [], [])


def test_launches_that_one_dump_lacks_do_not_shift_the_others():
    a = [launch(i, name) for i, name in enumerate("abcd")]
    b = [launch(i, name) for i, name in enumerate("axbcd")]
    names = [(one and one.operator, two and two.operator) for one, two in aligned(a, b)]
    assert names == [("a", "a"), (None, "x"), ("b", "b"), ("c", "c"), ("d", "d")]


def test_what_counts_as_a_difference():
    inf, nan = np.inf, np.nan
    assert of_values(np.array([1.0, nan, inf]), np.array([1.0, nan, inf]), 0, 0).relative == 0
    assert of_values(np.array([1.0]), np.array([nan]), 1, 1).beyond
    near = of_values(np.array([1.0, 2.0]), np.array([1.0, 2.001]), 1e-2, 0)
    assert not near.beyond and near.largest == pytest.approx(1e-3) and near.relative == pytest.approx(1e-3 / 5**0.5)
    assert of_values(np.array([True]), np.array([False]), 0, 0).beyond
    counts = {"finite": 1, "nan": 0, "inf": 0, "min": 1.0, "max": 1.0, "mean": 1.0, "norm": 1.0}
    assert not of_statistics(counts, counts, 0, 0).beyond
    assert of_statistics(counts, {**counts, "norm": 1.1}, 1e-2, 0).beyond and of_statistics(counts, {**counts, "nan": 1}, 1, 1).beyond
