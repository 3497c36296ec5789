"""The generators refuse what a table gets wrong, naming file and line, and tell the compiler which row its code comes from."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from codegen import aclnn, entries, ops, tables  # noqa: E402


@pytest.fixture(scope="module")
def signatures():
    return aclnn.load(ROOT / "abi")


@pytest.fixture(scope="module")
def generator(signatures):
    return ops.Generator(signatures, *ops.load_upstream())


def write(folder: Path, text: str, name: str = "nn.yaml") -> Path:
    (folder / name).write_text(text)
    return folder


def wrappers(generator, folder: Path) -> list[ops.Wrapper]:
    make = {"structured": generator.structured, "functions": generator.function, "foreach": generator.foreach}
    return [w for table in ops.load_tables(folder).values() for section, row in table.entries for w in make[section](row)]


def refusal(function, *arguments) -> str:
    with pytest.raises(SystemExit) as error:
        function(*arguments)
    return str(error.value)


def test_a_key_that_is_written_twice_is_refused(tmp_path):
    write(tmp_path, "kernels:\n  aclnnAbs: f(out, self)\n  aclnnNeg: f(out, self)\n  aclnnAbs: g(out, self)\n")
    assert refusal(tables.read, tmp_path / "nn.yaml") == f"{tmp_path}/nn.yaml:4: aclnnAbs is written twice, first in line 2"


def test_a_file_that_is_no_yaml_is_named(tmp_path):
    write(tmp_path, "kernels: [a\n")
    assert refusal(tables.read, tmp_path / "nn.yaml").startswith(f"{tmp_path}/nn.yaml: ")


def test_rows_know_their_lines_and_those_of_their_keys(tmp_path):
    write(tmp_path, "structured:\n  - {op: mm, acl: aclnnMm,\n     args: [self]}\n")
    row = tables.read(tmp_path / "nn.yaml")["structured"][0]
    assert (row.line, row.lines) == (2, {"op": 2, "acl": 2, "args": 3})
    assert str(row.fail("no", "args")).endswith("nn.yaml:3: mm: no")
    assert tables.read(write(tmp_path, "# nothing\n") / "nn.yaml") == {}


@pytest.mark.parametrize("text, message", [
    ("structure:\n  - {op: mm, acl: aclnnMm}\n", "nn.yaml:1: unknown section structure"),
    ("structured:\n  - {op: mm, acl: aclnnMm}\n  - {op: abs, acl: aclnnAbs, fats: unary}\n", "nn.yaml:3: abs: unknown keys fats"),
])  # fmt: skip
def test_a_section_or_key_that_nobody_reads_is_refused(tmp_path, text, message):
    assert refusal(ops.load_tables, write(tmp_path, text)).endswith(message)


@pytest.mark.parametrize("row, message", [
    ("{op: mm, acl: aclnnMn}", "mm: aclnnMn has no line in abi/"),
    ("{op: mm, acl: aclnnMm, args: [self, out]}",
     "mm: aclnnMm takes 4 arguments (self, mat2, out, cube_math_type), got ['self', 'out']"),
    ("{op: where.self, acl: aclnnSWhere}", "where.self: is not a structured operator; put it under functions:"),
])  # fmt: skip
def test_a_row_that_does_not_fit_the_abi_or_upstream_is_refused(tmp_path, generator, row, message):
    found = refusal(wrappers, generator, write(tmp_path, f"structured:\n\n  - {row}\n"))
    assert re.sub(r"cube\w+", "cube_math_type", found) == f"{tmp_path}/nn.yaml:3: {message}"


@pytest.mark.parametrize("row, message", [
    ("{op: nothing, acl: aclnnAbs}", "nothing: is not in native_functions.yaml"),
    ("{op: mm, acl: aclnnMm}", "mm: is structured; put it under structured:"),
    ("{op: matmul, acl: aclnnMatmul}", "matmul: is CompositeImplicitAutograd: registering it would lose its autograd formula"),
    ("{op: _prelu_kernel_backward, acl: aclnnPreluBackward, out: like(self)}",
     "_prelu_kernel_backward: has 2 outputs, rules given: like(self)"),
])  # fmt: skip
def test_a_function_that_does_not_fit_upstream_is_refused(tmp_path, generator, row, message):
    assert refusal(wrappers, generator, write(tmp_path, f"functions:\n  - {row}\n")) == f"{tmp_path}/nn.yaml:2: {message}"


@pytest.mark.parametrize("text, message", [
    ("kernels:\n  aclnnAbx: f(out)\n", "2: aclnnAbx has no signature in abi/"),
    ("kernel:\n  aclnnAbs: f(out)\n", "1: unknown section kernel"),
    ("wide: [aclnnNeg]\nkernels:\n  aclnnAbs: f(out)\n", "1: aclnnNeg has no kernel in this table"),
    ("require:\n  aclnnAbs: g(out)\n  aclnnNeg: g(out)\nkernels:\n  aclnnAbs: f(out)\n", "3: aclnnNeg has no kernel in this table"),
    ("kernels:\n  aclnnAbs: [f(out), abs_stub]\n", "2: cannot read loop 'abs_stub'"),
])  # fmt: skip
def test_a_kernel_that_cannot_be_generated_is_refused(tmp_path, signatures, text, message):
    assert refusal(entries.load_tables, write(tmp_path, text), signatures) == f"{tmp_path}/nn.yaml:{message}"


@pytest.mark.parametrize("row, message", [
    ('"(Tensor x, int axis, Tensor! y)"', "Swish: y comes too late: inputs, outputs, attributes"),
    ('"(Tensor[] x, Tensor[] z, Tensor! y)"', "Swish has two lists of inputs"),
    ('"(Tensor x=1, Tensor! y)"', "Swish: cannot read 'Tensor x=1'"),
    ('"(Tensor x, Tensor! y, Scalar scale)"', "Swish: cannot read 'Scalar scale'"),
    ('"(Tensor x, Tensor! y, int[] axes=1)"', "a default of int[] cannot be '1'"),
    ('"(Tensor x, Tensor! y) shape=any"', "Swish: shape=any is not one of ('free', 'same', 'broadcast', 'matmul')"),
])  # fmt: skip
def test_a_signature_of_the_older_interface_that_cannot_be_read_is_refused(tmp_path, signatures, row, message):
    write(tmp_path, f"operators:\n  Swish: {row}\nkernels:\n  Swish: f(y)\n")
    assert refusal(entries.load_tables, tmp_path, signatures) == f"{tmp_path}/nn.yaml:2: {message}"


def test_an_operator_of_the_older_interface_registers_itself(tmp_path, signatures):
    signature = "(Tensor x, Tensor? z, Tensor! y, float scale=1.5, str mode, int[] axes=[])"
    write(tmp_path, f'operators:\n  Swish: "{signature}"\nkernels:\n  Swish: f(y, x)\n')
    code = entries.emit(entries.load_tables(tmp_path, signatures)[0].kernels[0])
    kinds = re.findall(r"Kind::(\w+), (Value\(.*?\)+)", code)
    assert kinds == [("input", "Value()"), ("optional", "Value()"), ("output", "Value()"), ("real", "Value(double{1.5})"),
                     ("text", "Value()"), ("ints", "Value(std::vector<int64_t>())")]
    assert "ENTRY" not in code and "4ull, 2ull" in code and "7ull" in code  # y is written, z optional, all may be in private formats


def test_an_operator_of_the_older_interface_has_a_kernel(tmp_path, signatures):
    write(tmp_path, 'operators:\n  Swish: "(Tensor x, Tensor! y)"\nkernels: {}\n')
    assert refusal(entries.load_tables, tmp_path, signatures) == f"{tmp_path}/nn.yaml:2: Swish has no kernel in this table"


def test_a_kernel_in_two_tables_names_both(tmp_path, signatures):
    write(tmp_path, "kernels:\n  aclnnAbs: f(out, self)\n", "a.yaml")
    write(tmp_path, "kernels:\n  aclnnAbs: f(out, self)\n", "b.yaml")
    message = f"{tmp_path}/b.yaml:2: aclnnAbs has a kernel already, in {tmp_path}/a.yaml:2"
    assert refusal(entries.load_tables, tmp_path, signatures) == message


def test_an_operator_is_computed_or_refused(tmp_path, signatures):
    write(tmp_path, "kernels:\n  aclnnAbs: f(out, self)\nrefused:\n  aclnnAbs: nobody knows\n")
    message = f"{tmp_path}/nn.yaml:4: aclnnAbs has a kernel already, in {tmp_path}/nn.yaml:2"
    assert refusal(entries.load_tables, tmp_path, signatures) == message
    write(tmp_path, "refused:\n  aclnnAbs: nobody knows\n")
    (table,) = entries.load_tables(tmp_path, signatures)
    assert not table.kernels and '"nobody knows"' in table.refused[0].emit()


def test_messages_of_the_compiler_name_the_row(tmp_path, signatures):
    rows = "  aclnnAbs: f(out, self)\n  aclnnNeg: |-\n    f(out,\n      self)\n"
    write(tmp_path, f"require:\n  aclnnAbs: like(out, self)\nkernels:\n\n{rows}")
    abs_, neg = entries.load_tables(tmp_path, signatures)[0].kernels
    code = entries.emit(abs_)
    assert f'#line 5 "{tmp_path}/nn.yaml"\n  f(out, self);\n' in code and f'#line 2 "{tmp_path}/nn.yaml"\n  like(out, self);\n' in code
    assert "#line" not in entries.emit(neg)  # several lines keep the generated file's own


@pytest.mark.parametrize("section, row, operators", [
    ("structured", "{op: neg, cpu: is_odd(self), acl: aclnnNeg}",
     ['"aten::neg", "", self', '"aten::neg_", "", self', '"aten::neg", "out", self, out']),
    ("functions", "{op: where.self, cpu: is_odd(self), acl: aclnnSWhere, out: like(self)}",
     ['"aten::where", "self", condition, self, other', '"aten::where", "self_out", condition, self, other, out']),
])  # fmt: skip
def test_a_condition_leaves_every_form_of_a_row_to_the_cpu(tmp_path, generator, section, row, operators):
    found = wrappers(generator, write(tmp_path, f"{section}:\n  - {row}\n"))
    calls = [re.search(r"^static [^\n]*{\n  if \(is_odd\(self\)\) return on_cpu\(&(\w+), (.*)\);$", w.code, re.MULTILINE) for w in found]
    assert [call and call[1] for call in calls] == [w.symbol for w in found]
    assert {call[2] for call in calls} == set(operators)



def test_a_signature_that_cannot_be_read_names_its_line(tmp_path):
    write(tmp_path, "aclnnAbs: (Tensor self, Tensor! out)\naclnnNeg: (Tensr self)\n", "aclnn.yaml")
    write(tmp_path, "", "extension.yaml")
    assert refusal(aclnn.load, tmp_path) == f"{tmp_path}/aclnn.yaml:2: aclnnNeg: unknown type 'Tensr' of argument 'self'"


def test_an_operator_has_the_same_family_on_both_sides():
    kernels = {name: file.stem for file in (ROOT / "softnpu/kernels/tables").glob("*.yaml") for section in ("kernels", "refused")
               for name in tables.read(file).get(section, {})}
    callers: dict[str, set[str]] = {}
    for family, table in ops.load_tables(ROOT / "csrc/ops/tables").items():
        for _, row in table.entries:
            for name in (row[key] for key in ("acl", "scalar", "inplace", "inplace_scalar", "number_first") if key in row):
                callers.setdefault(name, set()).add(family)
    elsewhere = {name: families for name, families in callers.items() if name in kernels and kernels[name] not in families}
    assert not elsewhere, {name: f"softnpu's table {kernels[name]}, the adapter's {families}" for name, families in elsewhere.items()}
