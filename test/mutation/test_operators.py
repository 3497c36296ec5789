"""The mistakes that test/mutation makes: each kind, valid code, always the same; and every file has tests that they are given to."""

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
import kernel_tests  # noqa: E402
import operators  # noqa: E402
import run  # noqa: E402
import schemata  # noqa: E402
import tables  # noqa: E402
import tests_of  # noqa: E402
from codegen import aclnn  # noqa: E402

TENSORS = aclnn.parse("aclnnX", "(Tensor self, Tensor other, bool flag, Scalar? most, double p, Tensor! out)")


@pytest.mark.parametrize("before, after", [
    ("x == 1", "(x != 1)"), ("x < y", "(x <= y)"), ("x is None", "(x is not None)"), ("x not in y", "(x in y)"),
    ("x + y", "(x - y)"), ("x / y", "(x * y)"), ("not x", "(x)"), ("-x", "(x)"), ("x and y", "((x) or (y))"),
    ("(x + y) * (z)", "((x + y) / (z))"), ("(x) is  not y", "((x) is y)"),
    ("f(x, y, z)", "f(y, x, z)"), ("3", "4"), ("True", "False"), ("a if x else b", "a if (not (x)) else b"),
])  # fmt: skip
def test_expressions(before, after):
    assert f"z = {after}\n" in [mutant.text for mutant in operators.mutants(f"z = {before}\n")]


@pytest.mark.parametrize("before, after", [
    ("if x:\n  f()", "if (not (x)):\n  f()"), ("f()", "pass"), ("x += y", "pass"), ("raise x", "pass"), ("return x", "return None"),
])  # fmt: skip
def test_statements(before, after):
    assert after in [mutant.text for mutant in operators.mutants(before)]


@pytest.mark.parametrize("call", ["max(x, y)", "torch.minimum(x, y)", "x.transpose(y, z)", "torch.equal(x, y)"])
def test_arguments_that_are_alike_are_not_exchanged(call):
    assert operators.mutants(f"z = {call}\n") == [] != operators.mutants(f"z = {call.replace('(', '_of(')}\n")


def test_what_only_readers_see_is_left_alone():
    text = '"""Doc 1."""\nimport x\n\n\ndef f(a: int | None) -> "int | None":\n    """Doc."""\n    yield f"{a} + 1"\n'
    assert operators.mutants(text) == []


def test_mutants_know_their_function_and_text():
    mutant, = operators.mutants("def f(x):\n    y = 'ä', not x\n")
    assert (mutant.function, mutant.line, mutant.before, mutant.after) == ("f", 2, "not x", "(x)")
    assert mutant.text == "def f(x):\n    y = 'ä', (x)\n" and operators.is_valid(mutant)


@pytest.mark.parametrize("before, after", [
    ("f(out, self, 2)", "f(out, self, 3)"),
    ("f(out, self, true)", "f(out, self, false)"),
    ("f(out, self.size(0) * p)", "f(out, self.size(0) / p)"),
    ("f(p < 2)", "f(p <= 2)"),
    ("x_stub(out, self; -p)", "x_stub(out, self; p)"),
    ("at::cpu::cummin_out(out, self)", "at::cpu::cummax_out(out, self)"),
    ("lt_stub(out, self, other)", "le_stub(out, self, other)"),
    ("f(out, self, other)", "f(out, other, self)"),
    ("f(out, self, other)", "f(out, self, self)"),
    ("f(out, flag)", "f(out, true)"),
    ("f(out, most)", "f(out, std::optional<at::Scalar>())"),
])  # fmt: skip
def test_rows_of_tables(before, after):
    assert after in tables.changes(before, TENSORS)


@pytest.mark.parametrize("code", ['f(out, "true + 1 < 2")', "max_pool2d(out, x.self)", "f(out, self)", "other::f(out)"])
def test_what_is_no_mistake_in_a_row(code):
    """Texts, parts of names, and a swap of what is read with what is written."""
    assert list(tables.changes(code, TENSORS)) == []


def test_tables_take_turns_and_the_seed_decides():
    first = tables.choose(3, [])
    count = len({mutant.table for mutant in first})
    assert len({mutant.table for mutant in first[:count]}) == count
    assert {mutant.table for mutant in first} ^ set(tables.NOT_MUTATED) == {file.stem for file in tables.KERNELS.glob("*.yaml")}
    assert first == tables.choose(3, []) != tables.choose(4, [])
    assert {mutant.table for mutant in tables.choose(3, ["kernels/fft"])} == {"fft"}


def test_a_row_with_mutants_has_a_name_for_each_and_the_row():
    def mutant(part, after):
        return tables.TableMutant("kernels/x.yaml", 1, "aclnnX", "", after, part)

    mutants = {7: mutant(0, "g(out)"), 9: mutant(1, "f_stub(out, self; 1)")}
    lines = schemata.rows(["f(out, self)", "f_stub(out, self; p)"], mutants).splitlines()
    loop = "if (auto* loop = call.iterator(out, self)) return at::native::f_stub(at::kCPU, *loop, {});"
    assert [line.strip() for line in lines[::2]] == ['#line 1 "mutant 7"', '#line 1 "mutant 9"', '#line 1 "row"']
    assert '== "7")' in lines[1] and lines[1].endswith(f"{{ {loop.format('p')} g(out); return; }}")
    assert '== "9")' in lines[3] and lines[3].endswith(f"{{ {loop.format('1')} f(out, self); return; }}")
    assert lines[5].strip() == f"{loop.format('p')} f(out, self)"


def test_the_compiler_names_the_mutants_that_it_refuses():
    assert schemata.refused('mutant 12: In function f:\nmutant 12:1:5: error: no f\nrow:1:1: note: here\nx.h:3:1: error: mutant 13') == {12}


@pytest.mark.parametrize("of_tables", ["generated/fft_entries.cpp.o", "Unity/unity_entries_0_cxx.cxx.o"])
def test_the_library_is_linked_with_other_objects_of_its_tables(of_tables):
    folder = "softnpu/kernels/CMakeFiles/opapi.dir"
    command = f"c++ -o {schemata.LIBRARY} {folder}/{of_tables} {folder}/Unity/unity_engine_0_cxx.cxx.o {folder}/engine/plan.cpp.o -lm"
    expected = f"c++ -o new.so fft.o {folder}/Unity/unity_engine_0_cxx.cxx.o {folder}/engine/plan.cpp.o -lm"
    assert schemata.linked(command, "new.so", ["fft.o"]) == expected


def test_a_row_is_given_to_the_operators_that_launch_it(monkeypatch):
    def programs(row, table="elementwise"):
        return [(s.program, s.arguments[:1]) for s in kernel_tests.stages(tables.TableMutant(f"kernels/{table}.yaml", 1, row, "", "", 0))]

    monkeypatch.setattr(kernel_tests, "launching", lambda: {"aclnnAdd": ["add"]})
    options = kernel_tests.OPTIONS
    assert programs("aclnnAdd", "fft") == [("pytest", (file,)) for file in (options, "test/ops/test_opinfo.py::test_equals_the_cpu[add]")]
    rnn = (options, "test/python/test_rnn.py", "test/custom_ops/test_gradients.py", "test/custom_ops/test_custom_ops.py")
    assert programs("softnpuLstmLayer", "rnn") == [("pytest", (file,)) for file in rnn]
    assert programs("aclnnSleep", "fft") == [("pytest", kernel_tests.OTHERS[:1]), ("official", ("operators.check_unary",))]
    assert programs("aclnnMhcPre", "mhc")[-1] == ("pytest", (kernel_tests.OLDER,))


def test_a_custom_operator_is_given_to_its_cases():
    def cases(path, function):
        return tests_of.stages(path, function)[0].arguments

    assert cases("custom_ops/norm.py", "npu_deep_norm") == (*tests_of.CUSTOM_OPS, "-k", "npu_deep_norm")
    assert cases("custom_ops/cast.py", "npu_format_cast__acl_format")[-1] == "npu_format_cast_"
    assert tests_of.stages("custom_ops/schemas.py", "") == []


def test_every_file_has_tests_or_a_reason():
    files = tests_of.files()
    assert len(files) > 100 and set(tests_of.NOT_MUTATED) <= set(files)
    assert [name for name in files if name not in tests_of.NOT_MUTATED and not tests_of.stages(name, "")] == []
    assert [key for key in tests_of.TESTS if not any(name == key or name.startswith(key) for name in files)] == []


def test_equivalent_mutants_exist_and_have_a_reason():
    """A row that the code has left behind would hide a mutant that is new."""
    rows = yaml.safe_load(run.EQUIVALENT.read_text())
    names = {row.partition(": ")[0] for row in rows}
    cases = [run.Case(name, m, []) for name in names if name.endswith(".py") for m in operators.mutants((run.PACKAGE / name).read_text())]
    cases += [run.Case(m.name, m, []) for column in tables.mutants().values() for m in column]
    assert set(rows) <= {case.label for case in cases} and all(isinstance(reason, str) for reason in rows.values())


def test_test_files_exist():
    for tests in [*tests_of.TESTS.values(), *tests_of.BESIDE.values(), *kernel_tests.TESTS.values()]:
        for name in tests:
            assert not name.endswith(".py") or (tests_of.ROOT / name).is_file(), name
