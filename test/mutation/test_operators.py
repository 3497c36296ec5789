"""The mistakes that test/mutation makes: each kind, valid Python, always the same."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import operators  # noqa: E402
import tests_of  # noqa: E402


@pytest.mark.parametrize("before, after", [
    ("x == 1", "(x != 1)"), ("x < y", "(x <= y)"), ("x is None", "(x is not None)"), ("x not in y", "(x in y)"),
    ("x + y", "(x - y)"), ("x / y", "(x * y)"), ("not x", "(x)"), ("-x", "(x)"), ("x and y", "((x) or (y))"),
    ("f(x, y, z)", "f(y, x, z)"), ("3", "4"), ("True", "False"), ("a if x else b", "a if (not (x)) else b"),
])  # fmt: skip
def test_expressions(before, after):
    assert f"z = {after}\n" in [mutant.text for mutant in operators.mutants(f"z = {before}\n")]


@pytest.mark.parametrize("before, after", [
    ("if x:\n  f()", "if (not (x)):\n  f()"), ("f()", "pass"), ("x += y", "pass"), ("raise x", "pass"), ("return x", "return None"),
])  # fmt: skip
def test_statements(before, after):
    assert after in [mutant.text for mutant in operators.mutants(before)]


def test_what_only_readers_see_is_left_alone():
    text = '"""Doc 1."""\nimport x\n\n\ndef f(a: int | None) -> "int | None":\n    """Doc."""\n    yield f"{a} + 1"\n'
    assert operators.mutants(text) == []


def test_mutants_know_their_function_and_text():
    mutant, = operators.mutants("def f(x):\n    y = 'ä', not x\n")
    assert (mutant.function, mutant.line, mutant.before, mutant.after) == ("f", 2, "not x", "(x)")
    assert mutant.text == "def f(x):\n    y = 'ä', (x)\n" and operators.is_valid(mutant)


def test_a_custom_operator_is_given_to_its_cases():
    assert tests_of.tests_of("custom_ops/norm.py", "npu_deep_norm") == ["test/custom_ops/test_custom_ops.py", "-k", "npu_deep_norm"]
    assert "npu_moe_gating_top_k_softmax" in tests_of.tests_of("custom_ops/moe.py", "_rows_of_choices")[-1]
    assert tests_of.tests_of("custom_ops/schemas.py", "") is None


def test_test_files_exist():
    for tests in [*tests_of.TESTS.values(), *tests_of.FAMILIES.values()]:
        for name in tests:
            assert not name.endswith(".py") or (tests_of.ROOT / name).is_file(), name
