"""The parts of python -m torch_npu.compare: which launches belong together, how far numbers are apart, the table, the picture."""

import json
import math
import random
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch

from torch_npu.compare import __main__, difference, folder, picture, replay
from torch_npu.compare.difference import Difference, Pair, aligned, of_statistics, of_tensors, of_values
from torch_npu.compare.folder import Launch, Tensor

INF, NAN = math.inf, math.nan


def launch(order, name, **more):
    usual = {"order": order, "step": 0, "operator": name, "aclnn": name, "scope": "", "line": "", "inputs": [], "outputs": []}
    return Launch(**usual | more)


# ---- Which launches belong together ----


def longest_common(a, b):
    """By the table that every textbook has."""
    row = [0] * (len(b) + 1)
    for one in a:
        before = row[:]
        for j, two in enumerate(b):
            row[j + 1] = before[j] + 1 if one == two else max(before[j + 1], row[j])
    return row[-1]


def together(a, b):
    """How many of the names are in both, after what holds for each alignment."""
    found = list(aligned([launch(i, name) for i, name in enumerate(a)], [launch(i, name) for i, name in enumerate(b)]))
    assert [one.order for one, _ in found if one] == list(range(len(a))) and [two.order for _, two in found if two] == list(range(len(b)))
    assert all(one.operator == two.operator for one, two in found if one and two) and (None, None) not in found
    return sum(bool(one and two) for one, two in found)


@pytest.mark.parametrize("seed", range(40))
def test_as_many_launches_as_can_be_are_paired(seed):
    drawn = random.Random(seed)
    a, b = ("".join(drawn.choice("abcd"[: 2 + seed % 3]) for _ in range(drawn.randrange(9))) for _ in range(2))
    for first, second in ((a, b), (a, a + b), (a + b, a), (a, b + a), (b + a, a), (a, ""), ("", b)):
        assert together(first, second) == longest_common(first, second), (first, second)


def test_matches_are_places_in_order():
    assert difference._matches(list("abcabba"), list("cbabac")) == [(2, 0), (3, 2), (4, 3), (6, 4)]
    assert difference._matches(list("ab"), list("ab")) == [(0, 0), (1, 1)] and difference._matches(list("a"), list("b")) == []
    assert difference._matches([], []) == [] == difference._matches(list("ab"), [])


def test_a_match_at_the_end_of_what_is_seen_is_not_believed(monkeypatch):
    monkeypatch.setattr(difference, "_NEAR", 4)
    monkeypatch.setattr(difference, "_FAR", 16)
    for a, b in (("qp", "zzzpqp"), ("qpqp", "zzzpqpqp")):
        assert together(a, b) == together(b, a) == len(a)


@pytest.mark.parametrize("seed", range(12))
def test_parts_of_long_dumps_are_looked_at_one_after_the_other(seed, monkeypatch):
    monkeypatch.setattr(difference, "_NEAR", 8)
    monkeypatch.setattr(difference, "_FAR", 32)
    drawn = random.Random(seed)
    a = [f"op{drawn.randrange(30)}" for _ in range(120)]
    b = list(a)
    changes = sorted(drawn.sample(range(0, 120, 12), 6), reverse=True)
    for k, place in enumerate(changes):  # one of each kind, far from the next
        b[place : place + k % 2] = ["new"] * (k % 3 + (k % 2 == 0))
    assert together(a, b) == longest_common(a, b)
    assert together(b, a) == longest_common(a, b)
    assert together(a, ["new"] * 100 + a) == 120 == together(["new"] * 100 + a, a)  # more than is looked at together


def test_long_stretches_of_one_dump_are_passed_over(monkeypatch):
    monkeypatch.setattr(difference, "_NEAR", 2)
    monkeypatch.setattr(difference, "_FAR", 8)
    asked = []
    matches = difference._matches
    monkeypatch.setattr(difference, "_matches", lambda a, b: asked.append((len(a), len(b))) or matches(a, b))
    a = list("abcdefghij")
    assert together(a, list("z" * 30) + a) == 10
    assert asked == [(2, 2), (4, 4), (8, 8)]  # then all that is left
    steps = list("ab") * 150  # names that occur often are no junk
    assert together(steps, list("z" * 30) + steps) == 300
    asked.clear()
    assert together(list("ab"), list("cd")) == 0 and asked == [(2, 2)]  # nothing follows
    asked.clear()
    assert together(list("abcdx"), list("aXcdx")) == 4 and asked[0] == (2, 2) and asked[1] == (4, 4)


# ---- How far numbers are apart ----


@pytest.mark.parametrize("name", difference.TOLERANCES)
def test_tolerances_are_those_of_torch_testing(name):
    dtype = getattr(torch, name)
    if name.startswith("float8"):  # which torch.testing compares for equality: one step of the type here
        assert difference.tolerance(name, None, None) == (torch.finfo(dtype).eps, 1e-5)
    else:
        assert difference.tolerance(name, None, None) == torch.testing._comparison.default_tolerances(dtype)


def test_tolerances_that_are_asked_for_go_first():
    assert difference.tolerance("int64", None, None) == (0.0, 0.0)
    assert difference.tolerance("float32", 0.0, None) == (0.0, 1e-5) and difference.tolerance("float32", None, 0.0) == (1.3e-6, 0.0)
    assert difference.tolerance("bool", 0.5, 0.25) == (0.5, 0.25)


def values(a, b, rtol=0.0, atol=0.0, dtype=np.float64):
    return of_values(np.array(a, dtype), np.array(b, dtype), rtol, atol)


def test_errors_are_relative_to_the_first():
    found = values([3.0, 4.0], [3.0, 4.5])
    assert found == Difference(0.1, 0.5, True, "")
    assert values([0.0, 0.0], [3.0, 4.0]) == Difference(5.0, 4.0, True, "")  # there is nothing to be relative to
    assert values([INF, 3.0, 4.0], [INF, 3.0, 4.5]).relative == 0.1 and values([NAN, 3.0, 4.0], [NAN, 3.0, 4.5]).relative == 0.1
    assert values([], []) == Difference() == values([1.0], [1.0]) and not Difference().beyond
    assert values([3 + 4j], [3 + 4.5j], dtype=np.complex64) == Difference(0.1, 0.5, True, "")
    assert values([200], [100], dtype=np.uint8).largest == values([100], [200], dtype=np.uint8).largest == 100
    for a, b in (([INF], [1.0]), ([1.0], [INF]), ([NAN], [1.0]), ([INF], [-INF])):
        assert values(a, b, 1.0, 1.0) == Difference(INF, INF, True, "not finite in one of them")


def test_the_tolerance_itself_is_within():
    for a, b, rtol, atol, beyond in ((4.0, 4.5, 0.125, 0.0, False), (4.0, 4.5, 0.12, 0.0, True), (-4.0, -4.5, 0.125, 0.0, False),
                                     (4.0, 4.5, 0.0, 0.5, False), (4.0, 4.5, 0.0, 0.49, True), (4.0, 5.0, 0.125, 0.5, False)):
        assert values([a], [b], rtol, atol).beyond is beyond
        assert of_statistics(statistics(max=a), statistics(max=b), rtol, atol).beyond is beyond


def statistics(**more):
    return {"finite": 2, "nan": 0, "inf": 0} | more


def test_statistics_are_compared_one_by_one():
    for name in ("min", "max", "mean", "norm"):
        assert of_statistics(statistics(**{name: -2.0}), statistics(**{name: -3.0}), 0, 0) == Difference(0.5, 1.0, True)
        assert of_statistics(statistics(**{name: 0.0}), statistics(**{name: 3.0}), 0, 0) == Difference(3.0, 3.0, True)
    for name in ("finite", "nan", "inf"):
        assert of_statistics(statistics(), statistics(**{name: 1}), 9, 9) == Difference(INF, INF, True, "other numbers of nan or inf")
    worst = of_statistics(statistics(min=1.0, max=4.0, norm=2.0), statistics(min=2.0, max=4.5, norm=2.0), 0.6, 0.0)
    assert worst == Difference(1.0, 1.0, True)
    assert of_statistics(statistics(), statistics(), 0, 0) == Difference()


def test_the_worse_of_two_differences():
    within, beyond = Difference(0.9, 9.0), Difference(0.1, 1.0, True)
    assert within.worse(beyond) is beyond is beyond.worse(within) and within.worse(Difference(0.95)).relative == 0.95


def of(array, file=None, dtype=None, statistics=None):
    return Tensor(list(array.shape), dtype or str(array.dtype), file, statistics or {})


def test_the_worst_tensor_counts(tmp_path):
    files = []
    for number, array in enumerate((np.array([1.0], np.float32), np.array([1.5], np.float32), np.array([8.0], np.float32))):
        np.save(tmp_path / f"{number}.npy", array)
        files.append(of(array, tmp_path / f"{number}.npy"))
    one, half, eight = files
    assert of_tensors([one, eight], [half, eight], None, None) == Difference(0.5, 0.5, True)
    assert of_tensors([eight, one], [eight, half], 0.5, None) == Difference(0.5, 0.5, False)
    assert of_tensors([one], [half], None, 0.5) == Difference(0.5, 0.5, False) and of_tensors([], [], None, None) == Difference()
    other = Difference(INF, INF, True, "other shapes or types")
    assert of_tensors([one], [one, one], None, None) == other == of_tensors([one], [of(np.ones(2, np.float32))], None, None)
    assert of_tensors([one], [Tensor([1], "float16", one.file, {})], None, None) == other
    numbers = Tensor([1], "float32", None, statistics(max=2.0))
    for a, b in ((numbers, Tensor([1], "float32", one.file, statistics(max=3.0))), (Tensor([1], "float32", one.file, statistics(max=2.0)),
                                                                                   Tensor([1], "float32", None, statistics(max=3.0)))):
        assert of_tensors([a], [b], None, None) == Difference(0.5, 1.0, True)  # one of them has no more


# ---- The table, and the folder of a dump ----


def dump(place, launches):
    """A folder as a dump leaves it; of each launch (operator, inputs, outputs, more)."""
    place.mkdir()
    lines = []
    for order, (operator, inputs, outputs, more) in enumerate(launches):
        entry = {"order": order, "step": 3, "operator": operator, "aclnn": "acl" + operator, "scope": "", "line": ""} | more
        for name, arrays in (("inputs", inputs), ("outputs", outputs)):
            entry[name] = []
            for number, array in enumerate(arrays):
                file = f"{order}_{name}_{number}.npy"
                np.save(place / file, array)
                entry[name].append({"shape": list(array.shape), "dtype": str(array.dtype), "file": file, "statistics": {}})
        lines.append(json.dumps(entry))
    (place / "index.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    return str(place)


@pytest.fixture
def two(tmp_path):
    """Dumps whose third launch is the first that differs; the fourth has other inputs already, the fifth is in the second alone."""
    x, scalar = np.array([3.0, 4.0], np.float32), np.array(2, np.int64)
    where = {"line": "/home/me/train.py:7 in step", "scope": "module a (Net) > module a.b (Linear)"}

    def made(name, y, z, more):
        return dump(tmp_path / name, [("one", [], [x], {}), ("near", [x], [x * (1 + y / 1e6), x, x], {}), ("off", [x], [z, scalar], where),
                                      ("after", [z], [z.reshape(2, 1)], {"line": "other.py:1 in f"}), *more, ("last", [x], [], {})])

    return made("a", np.float32(0), x, []), made("b", np.float32(1), np.array([3.0, 4.5], np.float32), [("more", [], [x], {})])


TABLE = """\
order  step  operator  aclnn     shape     dtype    largest  relative  inputs   outputs  line        module
2      3     off       acloff    2 scalar  float32  0.5      0.1       equal    differs  train.py:7  a.b (Linear)
3      3     after     aclafter  2x1       float32  0.5      0.1       differs  differs  other.py:1
"""


def test_the_table_begins_with_the_first_difference(two, capsys):
    assert __main__.main([*two, "--rows", "2"]) == 1
    head, table = capsys.readouterr().out.split("\n\n")
    assert head == ("5 launches compared, 2 differ beyond the tolerance; 1 are in one dump only.\nThe first is launch 2, off (acloff) at "
                    "/home/me/train.py:7 in step, module a.b (Linear); its inputs agree: the difference begins here.")
    assert table == TABLE
    assert __main__.main([*two, "--rows", "0"]) == 1 and capsys.readouterr().out.splitlines()[-1].startswith("order  step")
    assert __main__.main([*two]) == 1
    rows = capsys.readouterr().out.splitlines()[4:]
    assert [row.split()[0] for row in rows] == ["2", "3", "4"]
    assert rows[-1].split() == ["4", "3", "last", "acllast", "0", "0", "equal", "equal"]
    assert __main__.main([*two, "--rtol", "0.2"]) == 0
    words = capsys.readouterr().out.splitlines()
    assert words[0].startswith("5 launches compared, 0 differ") and len(words) == 7
    assert words[3].split()[4:8] == ["2", "2", "...", "float32"]
    assert words[3].split()[-2:] == ["equal", "close"] and words[2].split()[-2:] == ["equal", "equal"]


def test_ten_rows_unless_told(tmp_path, capsys):
    folder = dump(tmp_path / "a", [("one", [], [np.ones(1)], {})] * 12)
    assert __main__.main([folder, folder]) == 0 and len(capsys.readouterr().out.splitlines()) == 2 + 10
    other = dump(tmp_path / "b", [("two", [], [], {})])
    assert __main__.main([folder, other]) == 2 and capsys.readouterr().out == "The dumps have no operator in common.\n"


def test_inputs_that_differ_are_the_cause(tmp_path, capsys):
    a, b = (dump(tmp_path / name, [("one", [x], [x], {"scope": "a thread"})]) for name, x in (("a", np.ones(1)), ("b", np.zeros(1))))
    assert __main__.main([a, b]) == 1
    assert "The first is launch 0, one (aclone) at a thread; its inputs differ already.\n" in capsys.readouterr().out
    c = dump(tmp_path / "c", [("one", [np.ones(1)], [np.ones(2)], {})])
    assert __main__.main([a, c]) == 1 and "other shapes or types" in capsys.readouterr().out.splitlines()[-1]


def test_launches_know_where_they_were():
    assert launch(0, "x").place == "an unknown place" and launch(0, "x", scope="s").place == "s" and launch(0, "x").module == ""
    assert launch(0, "x", scope="module a (A) > f > module b (B) > g", line="l").place == "l, module b (B)"


@pytest.mark.parametrize("arguments", [["a"], ["a", "b", "c"], [], ["--replay", "a", "b", "--order", "1"], ["--replay", "a"]])
def test_questions_of_another_form_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        __main__.main(arguments)
    words = "--replay takes one dump and --order N" if "--replay" in arguments else "name two dumps, or --replay FOLDER --order N"
    assert ended.value.code == 2 and words in capsys.readouterr().err


def test_numbers_begin_with_zero(capsys):
    options = __main__._arguments(["a", "b", "--rtol", "0", "--atol", "0.5", "--rows", "0"])
    assert (options.rtol, options.atol, options.rows) == (0.0, 0.5, 0)
    options = __main__._arguments(["--replay", "a", "--order", "0"])
    assert (options.replay, options.order, options.rtol, options.atol, options.rows) == ("a", 0, None, None, 10)
    for wrong in (["--rtol", "-0.1"], ["--atol", "nan"], ["--rows", "1.5"]):
        with pytest.raises(SystemExit):
            __main__._arguments(["a", "b", *wrong])
        assert f"invalid number from 0 on value: '{wrong[1]}'" in capsys.readouterr().err


def test_files_of_objects_are_not_loaded(tmp_path, capsys):
    """They could run a program."""
    place = dump(tmp_path / "a", [("one", [], [np.ones(1)], {})])
    np.save(tmp_path / "a/0_outputs_0.npy", np.array([{}], dtype=object))
    assert __main__.main([place, place]) == 2 and "0_outputs_0.npy is damaged: Object arrays cannot be loaded" in capsys.readouterr().err


def test_lines_that_were_cut_off_are_left_out(tmp_path, capsys):
    place = dump(tmp_path / "a", [("one", [], [np.ones(1)], {}), ("two", [], [], {"failed": True, "overload": "out"})])
    index = tmp_path / "a/index.jsonl"
    index.write_text(index.read_text() + '{"order": 2, "st')
    one, two = folder.read(place)
    assert (one.operator, one.failed, one.overload, two.operator, two.failed, two.overload) == ("one", False, "", "two", True, "out")
    assert capsys.readouterr().out == f"{index}:3 is not complete and left out\n" and one.key == ("one", "aclone")


# ---- The picture ----


def pair(order, relative, beyond=False, **more):
    return Pair(launch(order, "<op>", **more), launch(order, "<op>"), Difference(), Difference(relative, relative, beyond))


def shapes(svg, tag):
    return [each for each in ElementTree.fromstring(svg).iter() if each.tag.rpartition("}")[2] == tag]


def texts(svg):
    return {each.text: (float(each.get("x")), float(each.get("y")), each.get("text-anchor")) for each in shapes(svg, "text")}


def test_words_have_sizes_and_colors():
    svg = picture.draw([pair(0, 1.0, True)], 0, ("a", "b"))
    sizes = {words.text.partition(":")[0]: (words.get("font-size"), words.get("fill")) for words in shapes(svg, "text")}
    assert sizes["a and b"] == ("15", "#24292f") and sizes["1e-16"] == sizes["launch 0"] == ("11", "#57606a")
    assert sizes["equal"] == ("12", "#24292f") and sizes["first"] == ("12", shapes(svg, "rect")[-1].get("fill"))


def test_bars_are_logarithms():
    heights = [picture._height(10.0**power) for power in (-20, -16, -7, 2, 9)]
    assert heights == pytest.approx([3, 3, 131.5, 260, 260]) and picture._height(INF) == 260
    assert picture._height(0.0) == picture._height(-1.0) == 3.0


def test_the_picture_has_a_bar_for_each_launch():
    svg = picture.draw([pair(5, 0.0), pair(6, 1e-7), pair(7, 0.01, True, line="t.py:1"), pair(8, INF, True)], 2, ("right & wrong", "b"))
    background, *bars = shapes(svg, "rect")
    bars, legend = bars[:4], bars[4:]
    assert (background.get("width"), background.get("height")) == ("960", "382")
    assert [float(bar.get("x")) for bar in bars] == [70, 285, 500, 715] and {bar.get("width") for bar in bars} == {"172.00"}
    assert [float(bar.get("height")) + float(bar.get("y")) for bar in bars] == pytest.approx([324] * 4, abs=0.11)
    assert [float(bar.get("height")) for bar in bars] == pytest.approx([picture._height(e) for e in (0, 1e-7, 0.01, INF)], abs=0.06)
    colors = [bar.get("fill") for bar in bars]
    names = ["equal", "within the tolerance", "the first beyond it", "beyond it"]
    meanings = dict(zip([words.text for words in shapes(svg, "text")][-4:], [box.get("fill") for box in legend], strict=True))
    assert colors == [meanings[name] for name in names] and len(set(colors)) == 4
    assert [title.text for title in shapes(svg, "title")] == ["5 <op>: 0", "6 <op>: 1e-07", "7 <op>: 0.01", "8 <op>: inf"]
    words = texts(svg)
    assert words["right & wrong and b: relative error of each operator's outputs"] == (70, 22, "start")
    assert words["launch 5"] == (70, 344, "start") and words["launch 8"] == (930, 344, "end")
    assert words["first: #7 <op>, t.py:1"] == (586, 48, "end")
    *grid, marker = shapes(svg, "line")
    assert (marker.get("x1"), marker.get("x2"), marker.get("y1"), marker.get("y2")) == ("586.0", "586.0", "54", "324")
    assert [text for text in words if re.fullmatch(r"1e-?\d+", text)] == ["1e-16", "1e-13", "1e-10", "1e-7", "1e-4", "1e-1", "1e2"]
    for line, power in zip(grid, range(-16, 3, 3), strict=True):
        y = 324 - picture._height(10.0**power)
        assert float(line.get("y1")) == float(line.get("y2")) == pytest.approx(y, abs=0.06)
        assert (line.get("x1"), line.get("x2")) == ("70", "930") and words[f"1e{power}"] == (62, pytest.approx(y + 4, abs=0.06), "end")


def test_the_legend_is_spread_and_the_label_stays_inside():
    svg = picture.draw([pair(0, 1.0, True, scope="s"), pair(1, 0.0)], 0, ("a", "b"))
    boxes, words = shapes(svg, "rect")[-4:], texts(svg)
    assert [float(box.get("x")) for box in boxes] == [70, 145, 325, 428] and {box.get("y") for box in boxes} == {"358"}
    assert words["equal"] == (88, 368, "start") and words["the first beyond it"] == (446, 368, "start")
    assert words["first: #0 <op>, s"][2] == "start"
    many = picture.draw([pair(n, 0.0) for n in range(2000)], None, ("a", "b"))
    assert {bar.get("width") for bar in shapes(many, "rect")[1:-4]} == {"0.80"} and len(shapes(many, "line")) == 7
    empty = texts(picture.draw([], None, ("a", "b")))
    assert empty["launch 0"][:2] == (930, 344)


# ---- One operator again ----


def repeated(operator, inputs, outputs, arguments, **more):
    return launch(4, operator, aclnn="aclnnX", inputs=inputs, outputs=outputs, arguments=arguments, **more)


@pytest.fixture
def saved(tmp_path):
    def save(array, dtype=None):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(file, array)
        return of(array, file, dtype)

    return save


def test_arguments_of_every_form(saved):
    x = saved(np.array([1.0, 2.0], np.float32))
    made = repeated("aten::add", [x, x], [], [{"tensor": 0}, {"tensor": 1}, {"number": "inf"}], overload="Tensor", tensors=[0, 1])
    assert [t.tolist() for t in replay.run(made, "cpu")] == [[INF, INF]]
    made = repeated("aten::full", [], [], [[2, 1], {"complex": [1.0, -2.0]}, None, None, {"device": "npu:3"}, False], tensors=[])
    (full,) = replay.run(made, "npu")
    assert full.is_npu and full.tolist() == [[1 - 2j], [1 - 2j]]
    made = repeated("aten::max", [x], [], [{"tensor": 0}, 0, False], overload="dim", tensors=[0])
    assert [t.tolist() for t in replay.run(made, "cpu")] == [2.0, 1]
    made = repeated("aten::_foreach_add_", [x], [], [[{"tensor": 0}], {"number": 1}], overload="Scalar", tensors=[0])
    assert [t.tolist() for t in replay.run(made, "cpu")] == [[2.0, 3.0]]
    made = repeated("aten::add_", [x], [], [{"tensor": 0}, {"tensor": 0}, 1], overload="Tensor", tensors=[0])
    assert replay.run(made, "cpu")[0].tolist() == [2.0, 4.0]  # one tensor twice


@pytest.mark.parametrize(("change", "words"), [
    ({"operator": ""}, "launch 4 (aclnnX) was not made by an operator of the dispatcher"),
    ({"arguments": []}, "was not made by an operator of the dispatcher"),
    ({"operator": "aten::no_such"}, "is one of aten::no_such, which this process does not know"),
    ({"tensors": [None]}, "did not read every tensor of aten::relu"), ({"tensors": [1]}, "did not read every tensor of aten::relu"),
    ({"arguments": [{"unsupported": "a storage"}]}, "aten::relu cannot be repeated: an argument is a storage"),
    ({"operator": "aten::bernoulli"}, "aten::bernoulli draws random numbers"),
])
def test_what_cannot_be_repeated(saved, change, words):
    given = {"operator": "aten::relu", "inputs": [saved(np.ones(2))], "outputs": [], "arguments": [{"tensor": 0}], "tensors": [0]} | change
    with pytest.raises(ValueError, match=re.escape(words)):
        replay.run(repeated(**given), "cpu")


def test_tensors_take_their_type_back(saved):
    wide = saved(np.array([1.5], np.float32), "bfloat16")
    assert replay.tensor(wide, "cpu").dtype == torch.bfloat16 and replay.tensor(wide, "npu").is_npu
    for wrong in (saved(np.ones(2), "uint48"), Tensor([3], "float32", wide.file, {})):
        with pytest.raises(ValueError, match=f"has the bytes of {wrong.dtype}, which torch cannot make a tensor of"):
            replay.tensor(wrong, "cpu")
    for dtype, kind in ((torch.bfloat16, np.float32), (torch.float8_e5m2, np.float32), (torch.float8_e8m0fnu, np.float32),
                        (torch.complex32, np.complex64), (torch.int8, np.int8), (torch.float64, np.float64)):
        assert replay._numbers(torch.ones(2).to(dtype)).dtype == kind


def test_results_are_compared_with_each_other_and_with_the_dump(saved):
    x, y, z = saved(np.array([-1.0, 2.0])), saved(np.array([0.0, 2.5])), saved(np.ones(3))
    given = {"operator": "aten::relu", "inputs": [x], "arguments": [{"tensor": 0}], "tensors": [0]}
    found = list(replay.differences(repeated(outputs=[y], **given), None, None))
    assert found == [("output 0: cpu and npu", Difference()), ("output 0: cpu and the dump", Difference(0.25, 0.5, True)),
                     ("output 0: npu and the dump", Difference(0.25, 0.5, True))]
    assert [d.beyond for _, d in replay.differences(repeated(outputs=[y], **given), 0.25, 0.0)] == [False] * 3
    assert [d.beyond for _, d in replay.differences(repeated(outputs=[y], **given), 0.0, 0.5)] == [False] * 3
    for outputs in ([z], [], [Tensor([2], "float64", None, {})]):
        assert [what for what, _ in replay.differences(repeated(outputs=outputs, **given), None, None)] == ["output 0: cpu and npu"]


def test_a_device_that_cannot_is_named(saved, monkeypatch):
    x = saved(np.ones(2))
    made = repeated("aten::relu", [x], [x], [{"tensor": 0}], tensors=[0])
    run = replay.run

    def refuse(launch, device):
        if device == "npu":
            raise NotImplementedError("  no kernel\nmore")
        return run(launch, device)

    monkeypatch.setattr(replay, "run", refuse)
    answers = list(replay.differences(made, None, None))
    assert answers == [("npu", "cannot repeat it: no kernel"), ("output 0: cpu and the dump", Difference())]
    monkeypatch.setattr(replay, "run", lambda launch, device: (_ for _ in ()).throw(RuntimeError))
    with pytest.raises(ValueError, match="nothing of launch 4 could be compared"):
        assert list(replay.differences(made, None, None)) == [(device, "cannot repeat it: RuntimeError") for device in ("cpu", "npu")]
