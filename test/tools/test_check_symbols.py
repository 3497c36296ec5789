"""tools/check_symbols.py knows from the sources what is refused, what the adapter calls and what has a test by its name."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import check_symbols  # noqa: E402


def test_what_the_sources_refuse_or_ignore_is_a_stub():
    refused = {
        "aclprofInit",
        "aclprofCreateConfig",
        "acltdtGetDatasetSize",
        "acltdtGetDataTypeFromItem",
        "HcclCommRegister",
        "LcclAllReduce",
    }
    assert refused | {"MsprofReportApi", "MsprofRegisterCallback"} <= check_symbols.stubs()


def test_what_softnpu_does_is_no_stub():
    done = {"HcclAllReduce", "HcclCommInitRootInfo", "HcclSend", "aclrtMalloc", "MsprofSysCycleTime", "aclopSetAttrInt"}
    assert not done & check_symbols.stubs()


def test_a_name_in_a_comment_is_not_called(tmp_path, monkeypatch):
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc/a.cpp").write_text("// aclnnAbs\nNPU_EXEC(aclnnNeg, self, out);\n")
    (tmp_path / "csrc/b.yaml").write_text("# aclnnAcos\n- {op: sqrt, acl: aclnnSqrt}\n")
    monkeypatch.setattr(check_symbols, "ROOT", tmp_path)
    assert check_symbols.called() == {"aclnnNeg", "aclnnSqrt"}


def test_cases_by_name_are_of_operators_that_softnpu_has():
    kernels = "\n".join(file.read_text() for file in (ROOT / "softnpu/kernels/tables").glob("*.yaml"))
    cases = check_symbols.cases()
    assert len(cases) > 60 and cases <= check_symbols.operators()
    assert all(f"  {name}:" in kernels for name in cases)


def test_every_kernel_has_a_checked_result():
    kernels = "\n".join(file.read_text() for file in (ROOT / "softnpu/kernels/tables").glob("*.yaml"))
    implemented = {name for name in check_symbols.operators() - set(check_symbols.extension_names()) if f"\n  {name}:" in kernels}
    assert len(implemented) > 700
    assert not implemented - check_symbols.called() - check_symbols.cases()
