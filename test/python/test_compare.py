"""python -m torch_npu.compare: the first operator in which two dumps differ, and operators repeated from their inputs."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

import torch_npu
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
    for wrong in ([folder], [folder, folder, "--rtol", "-1"], [folder, folder, "--rows", "-1"], ["--replay", folder],
                  [folder, folder, "--replay", folder, "--order", "0"]):
        with pytest.raises(SystemExit):
            main(wrong)


def test_damaged_dumps_are_named(dumped, tmp_path, capsys):
    folder = Path(dumped("one", lambda: torch.ones(3, device="npu") + 1))
    index, file = folder / "index.jsonl", read(folder)[-1].outputs[0].file
    before, numbers = index.read_text(), file.read_bytes()
    for content in (b"", b"what is this", numbers[:-1]):
        file.write_bytes(content)
        assert main([str(folder), str(folder)]) == 2 and f"{file} is damaged" in capsys.readouterr().err
    file.write_bytes(numbers)
    for line in ('{"order": 7}', '{"order": 7, "inputs": 5}'):
        index.write_text(f"{before}{line}\n")
        assert main([str(folder), str(folder)]) == 2 and "is no line of a dump" in capsys.readouterr().err
    index.write_text(f"{before}[1]\n5\n")
    assert main([str(folder), str(folder)]) == 0


def test_an_operator_that_a_device_lacks_is_repeated_on_the_other(dumped, capsys):
    x, weight = torch.randn(2, 16).npu(), torch.ones(16).npu()
    folder = dumped("one", lambda: torch_npu.npu_rms_norm(x, weight))
    assert main(["--replay", folder, "--order", "0"]) == 0
    text = capsys.readouterr().out
    assert "cpu: cannot repeat it: " in text and "output 0: npu and the dump: equal" in text


def test_random_operators_are_not_repeated(dumped, capsys):
    x = torch.ones(2, 16, device="npu")
    folder = dumped("one", lambda: (x.normal_(), torch.dropout(x, 0.5, True)))
    for launch in read(folder):
        assert main(["--replay", folder, "--order", str(launch.order)]) == 2 and "random numbers" in capsys.readouterr().err


def test_operators_of_another_program_and_dumps_without_outputs_are_refused(dumped, capsys, monkeypatch):
    folder = Path(dumped("one", lambda: torch.ones(3, device="npu") + 1, ",mode=input"))
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert main(["--replay", str(folder), "--order", "1"]) == 2 and "nothing of launch 1 could be compared" in capsys.readouterr().err
    index = folder / "index.jsonl"
    index.write_text(index.read_text().replace("aten::add", "another::add"))
    assert main(["--replay", str(folder), "--order", "1"]) == 2 and "does not know" in capsys.readouterr().err


def launch(order, name):
    return Launch(order, 0, name, name, "", "", [], [])


def test_launches_that_one_dump_lacks_do_not_shift_the_others():
    a = [launch(i, name) for i, name in enumerate("abcd")]
    b = [launch(i, name) for i, name in enumerate("axbcd")]
    names = [(one and one.operator, two and two.operator) for one, two in aligned(a, b)]
    assert names == [("a", "a"), (None, "x"), ("b", "b"), ("c", "c"), ("d", "d")]


def test_long_dumps_with_many_differences_are_aligned_in_time():
    step = "abcbcbdaceabcbcbdace"
    a, b = [], []
    for number in range(1500):
        a += step + "f" * (number % 5 == 1)
        b += step[:7] + "g" * (number % 3 == 0) + step[7:]
    pairs = list(aligned([launch(i, name) for i, name in enumerate(a)], [launch(i, name) for i, name in enumerate(b)]))
    assert [one.operator for one, _ in pairs if one] == a and [two.operator for _, two in pairs if two] == b
    alone = [one.operator if one else two.operator for one, two in pairs if not (one and two)]
    assert all(one.operator == two.operator for one, two in pairs if one and two)
    assert sorted(set(alone)) == ["f", "g"] and len(alone) == 800


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
