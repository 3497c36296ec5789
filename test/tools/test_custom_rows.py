"""Rows of npu:: operators: what the generator makes of them, and what it refuses."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from codegen import aclnn, custom, ops, tables  # noqa: E402

RMS = """  - op: npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)
    acl: aclnnRmsNorm
    out: [like(input), "sized(kept(input, gamma.dim()), at::kFloat)"]
    grad: {"input, gamma": "npu_rms_norm_backward(grad, input, gamma, out1)"}
"""


@pytest.fixture(scope="module")
def generator():
    return ops.Generator(aclnn.load(ROOT / "abi"), *ops.load_upstream())


@pytest.fixture
def generated(generator, tmp_path):
    def run(rows: str) -> str:
        (tmp_path / "norm.yaml").write_text(f"custom:\n{rows}")
        table = ops.load_tables(tmp_path)["norm"]
        operators = [custom.Operator.read(row) for _, row in table.entries]
        return custom.emit(operators, {op.symbol: op for op in operators}, generator.call, tables.attributed)

    return run


def refusal(generated, rows: str) -> str:
    with pytest.raises(SystemExit) as error:
        generated(rows)
    return str(error.value).partition("norm.yaml:")[2]


def test_the_schema_is_registered_as_it_is_written(generated):
    schema = "npu_rms_norm(Tensor input, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)"
    assert f'm.def(R"({schema})", {{at::Tag::pt2_compliant_tag}});' in generated(RMS)


def test_a_node_keeps_what_the_gradient_uses_and_no_more(generated):
    node = generated(RMS).partition("struct NpuRmsNormBackward")[2].partition("};")[0]
    assert re.findall(r"SavedVariable (\w+);", node) == ["input_", "gamma_", "out1_"] and "epsilon" not in node


def test_an_operator_without_a_gradient_has_upstreams_refusal(generated):
    text = generated("".join(line + "\n" for line in RMS.splitlines() if "grad:" not in line))
    assert 'm.impl("npu_rms_norm", torch::autograd::autogradNotImplementedFallback());' in text


def test_an_in_place_operator_keeps_the_name_of_its_argument_and_counts_versions(generated):
    text = generated("  - {op: npu_silu_(Tensor(a!) input) -> Tensor(a!), acl: aclnnSilu, args: [input, input]}\n")
    assert "npu_silu__kernel(at::Tensor & input)" in text and "TORCH_LIBRARY_IMPL(npu, ADInplaceOrView, m)" in text


def test_the_older_operator_is_called_where_the_newer_is_absent(generated):
    older = "{acl: aclnnAbs, args: [x, out], when: dim == 0}"
    row = f"  - {{op: 'f(Tensor x, int dim) -> Tensor', acl: aclnnSwiGlu, out: like(x), older: {older}}}\n"
    assert 'if ((dim == 0) || !newest) { NPU_EXEC(aclnnAbs, x, out); } else { NPU_EXEC(aclnnSwiGlu, x, dim, out); }' in generated(row)


def test_of_several_older_operators_the_last_stands_in(generated):
    older = "[{acl: aclnnAbs, args: [x, out], when: dim == 0}, {acl: aclnnNeg, args: [x, out]}]"
    row = "  - {op: 'f(Tensor x, int dim) -> Tensor', acl: aclnnSwiGlu, out: like(x), older: %s}\n"
    chain = ("if ((dim == 0)) { NPU_EXEC(aclnnAbs, x, out); } else if (!newest) { NPU_EXEC(aclnnNeg, x, out); } "
             "else { NPU_EXEC(aclnnSwiGlu, x, dim, out); }")
    assert chain in generated(row % older)
    with pytest.raises(SystemExit, match="only the last of several older operators may lack `when`"):
        generated(row % "[{acl: aclnnAbs, args: [x, out]}, {acl: aclnnNeg, args: [x, out]}]")


def test_gradients_of_lists_come_from_one_expression(generated):
    text = generated("  - {op: 'f(Tensor x, Tensor[] w) -> Tensor', acl: aclnnAbs, args: [x, out], out: like(x), check: use(w), "
                     "grad: {'x, w': 'f_backward(grad, x, w)'}}\n")
    assert "store_all(result, f_backward(grad, x, w));" in text and "variable_list result(next_edges().size());" in text


@pytest.mark.parametrize("row, message", [
    ("{op: f(Tensor x -> Tensor, acl: aclnnAbs, out: like(x)}", "torchgen cannot read the schema"),
    ("{op: f(Tensor x) -> Tensor, acl: aclnnAbs}", "makes 1 tensors, rules given: []"),
    ("{op: f(Tensor x) -> Tensor, acl: aclnnNothing, out: like(x)}", "aclnnNothing has no line in abi/"),
    ("{op: 'f(Tensor x, bool flag) -> Tensor', acl: aclnnAbs, args: [x, out], out: like(x)}", "flag is not read; say under `unused` why"),
    ("{op: 'f(Tensor x, bool flag) -> Tensor', acl: aclnnAbs, args: [x, out], out: like(x), unused: {x: no, flag: no}}",
     "x is read, and listed under `unused`"),
    ("{op: 'f(Tensor x) -> (Tensor, int)', acl: aclnnAbs, out: like(x)}", "returns Tensor, int: say under `returns` what"),
    ("{op: f(int n) -> Tensor, acl: aclnnAbs, args: [n, out], out: 'none(at::kFloat)'}", "no argument says which card it runs on"),
    ("{op: f(Tensor x) -> Tensor, acl: aclnnAbs, out: like(x), grad: {y: grad * x}}", "has no argument y to differentiate"),
    ("{op: f(Tensor x) -> Tensor, acl: aclnnAbs, out: like(x), grad: {x: x * 2}}", "the gradient x * 2 does not depend on grad"),
    ("{op: 'f(Tensor x, Tensor[] w) -> Tensor', acl: aclnnAbs, args: [x, out], out: like(x), check: use(w), grad: {x: grad, w: g(grad)}}",
     "w has many gradients: one expression must give those of all inputs"),
    ("{op: f(Tensor x) -> Tensor, acl: aclnnAbs, out: like(x), older: {acl: aclnnNeg, unless: true}}", "unknown keys unless"),
])  # fmt: skip
def test_a_row_that_cannot_work_is_refused(generated, row, message):
    found = refusal(generated, f"  - {row}\n")
    assert found.startswith("2: ") and message in found


@pytest.mark.parametrize("row, message", [
    ("{op: npu_x(Tensor a) -> Tensor}", "npu_x"), ("{op: npu_x(Tensor a) -> Tensor, reason: It ends with a full stop.}", "full stop"),
])
def test_a_refused_operator_needs_a_sentence(tmp_path, row, message):
    (tmp_path / "unknown.yaml").write_text(f"refused:\n  - {row}\n")
    with pytest.raises(SystemExit, match=message):
        custom.emit_refused([row for _, row in ops.load_tables(tmp_path)["unknown"].entries])
