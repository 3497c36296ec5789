"""tools/calls/vocabulary.py: what was seen is contained, in other sizes and ranks too; what was not is named."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/calls"))
import vocabulary  # noqa: E402
from recording import Call  # noqa: E402
from vocabulary import Vocabulary  # noqa: E402


def tensor(sizes, dtype=0, strides=None, format=None):
    if strides is None:
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * sizes[i + 1]
    format = vocabulary.BY_RANK.get(len(sizes), 2) if format is None else format
    return {"t": sizes, "s": strides, "o": 0, "d": dtype, "m": format, "n": [99], "p": 0}


def call(self, weight=None, number=1, scalar=3, name="aclnnExample"):
    return Call(name, [["self", self], ["weight", weight], ["reduction", number], ["value", {"S": scalar, "v": 1}], ["out", self]])


@pytest.fixture
def seen(tmp_path):
    """As it is read from the file."""
    made = Vocabulary()
    made.add(call(tensor([2, 3])))
    made.add(call(tensor([2, 3], dtype=1), weight=tensor([3], dtype=1), number=2, scalar=9))
    made.add(Call("aclnnForeach", [["x", [tensor([2]), tensor([3])]]]))
    made.write(tmp_path / "vocabulary.json")
    return Vocabulary(json.loads((tmp_path / "vocabulary.json").read_text()))


@pytest.mark.parametrize("other", [
    call(tensor([7, 8])), call(tensor([1, 2, 3, 4])), call(tensor([])),  # sizes and ranks, with their formats
    call(tensor([2, 3]), number=2, scalar=9),  # seen apart
    call(tensor([1, 3], strides=[99, 1])), call(tensor([0, 3], strides=[5, 7])),  # strides that mean nothing
])
def test_contains_what_the_client_does_not_look_at(seen, other):
    assert seen.misses(other) == []


@pytest.mark.parametrize("other, what", [
    (call(tensor([2, 3]), name="aclnnOther"), "name"),
    (call(tensor([2, 3], dtype=27)), "types bf16 - bf16"),
    (call(tensor([2, 3]), weight=tensor([3])), "types f32 f32 f32"),
    (call(tensor([3, 2], strides=[1, 3])), "self strided True"),
    (call(tensor([1, 2, 3, 4], format=2)), "self formats 2"),
    (call(tensor([2, 3]), number=0), "reduction number 0"),
    (call(tensor([2, 3]), scalar=11), "value scalar f64"),
    (Call("aclnnForeach", [["x", [tensor([1])] * 3]]), "x length 3"),
])
def test_names_what_was_not_seen(seen, other, what):
    assert what in seen.misses(other)


def test_numbers_other_than_enumerations_are_free(seen):
    assert seen.misses(Call("aclnnForeach", [["x", [tensor([2])]], ["dim", 10**6]])) == []


def recording(file, *calls, code=0):
    file.write_text("".join(json.dumps({"f": c.name, "a": c.arguments, "rc": code, "thread": 1}) + "\n" for c in calls))
    return file


def test_check_fails_on_a_question_and_passes_with_an_addition(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(vocabulary, "FILE", tmp_path / "vocabulary.json")
    monkeypatch.setattr(vocabulary, "ADDITIONS", tmp_path / "additions.yaml")
    vocabulary.ADDITIONS.write_text("")
    known, unknown = call(tensor([2])), call(tensor([2], dtype=27))
    assert vocabulary.make([recording(tmp_path / "official.jsonl", known)], Vocabulary()) == 0
    assert vocabulary.check([recording(tmp_path / "a.jsonl", known)], False) == 0
    assert vocabulary.check([recording(tmp_path / "b.jsonl", known, unknown)], False) == 1
    assert "aclnnExample: types bf16 - bf16" in capsys.readouterr().out
    vocabulary.ADDITIONS.write_text("- {name: aclnnNone aclnnExam*, what: types bf16*, why: the operator takes it}\n")
    assert vocabulary.check([tmp_path / "b.jsonl"], False) == 0
    assert vocabulary.check([recording(tmp_path / "c.jsonl", unknown, code=161002)], False) == 1  # nothing to check
    vocabulary.check([tmp_path / "a.jsonl"], True)
    assert "is not sent any more" in capsys.readouterr().out


def test_a_question_names_the_test_that_asked_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(vocabulary, "FILE", tmp_path / "vocabulary.json")
    monkeypatch.setattr(vocabulary, "ADDITIONS", tmp_path / "additions.yaml")
    vocabulary.ADDITIONS.write_text("")
    vocabulary.make([recording(tmp_path / "official.jsonl", call(tensor([2])))], Vocabulary())
    parts = [f'{{"mark": "test_{name}.py::test_it"}}\n' + recording(tmp_path / name, call(tensor([2], dtype=dtype))).read_text()
             for name, dtype in (("first", 0), ("second", 27), ("third", 27))]
    (tmp_path / "suite.jsonl").write_text("".join(parts))
    assert vocabulary.check([tmp_path / "suite.jsonl"], False) == 1
    assert "aclnnExample: types bf16 - bf16  (2 x, test_second.py::test_it)" in capsys.readouterr().out


def test_numbers_are_left_out_where_only_forms_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(vocabulary, "FILE", tmp_path / "vocabulary.json")
    monkeypatch.setattr(vocabulary, "ADDITIONS", tmp_path / "additions.yaml")
    vocabulary.ADDITIONS.write_text("")
    vocabulary.make([recording(tmp_path / "official.jsonl", call(tensor([2])))], Vocabulary())
    file = recording(tmp_path / "ours.jsonl", call(tensor([2]), number=7))
    assert (vocabulary.check([file], False), vocabulary.check([file], False, forms_only=True)) == (1, 0)
    assert vocabulary.check([recording(tmp_path / "types.jsonl", call(tensor([2], dtype=1), number=7))], False, forms_only=True) == 1


def test_further_programs_extend_what_was_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(vocabulary, "FILE", tmp_path / "vocabulary.json")
    first, further = call(tensor([2])), call(tensor([2], dtype=27), number=5)
    lists = [Call("aclnnForeach", [["x", [tensor([2])] * length]]) for length in (4, 3)]
    files = [recording(tmp_path / "first.jsonl", first, lists[0]), recording(tmp_path / "further.jsonl", further, lists[1])]
    vocabulary.make(files, Vocabulary())
    at_once = vocabulary.FILE.read_text()
    vocabulary.make(files[:1], Vocabulary())
    assert Vocabulary.read().misses(further)
    vocabulary.make(files[1:], Vocabulary.read())
    assert vocabulary.FILE.read_text() == at_once and not Vocabulary.read().misses(further)
