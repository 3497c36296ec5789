"""softnpu conformance: reports, and what becomes of tests that crash or hang."""

import subprocess
import sys

import pytest

from softnpu import conformance, place

# Speaks as a GoogleTest program; knows the filter that conformance gives it.
PROGRAM = f"""#!{sys.executable}
import os, sys, time
names = ["A.passes", "A.fails", "A.is_skipped", "A.crashes", "Handle.is_ours", "A.hangs", "B/Each.one/0", "B/Each.one/1"]
if "--gtest_list_tests" in sys.argv:
    if "unusable" in os.environ["ASCEND_TEST_LIBRARY"]:
        print("no such library", file=sys.stderr)
        sys.exit(1)
    print("A.\\n  passes\\n  fails\\n  is_skipped\\n  crashes\\n  hangs\\nHandle.\\n  is_ours")
    print("B/Each.\\n  one/0  # GetParam() = 0\\n  one/1")
    sys.exit()
chosen = sys.argv[1].partition("=")[2].split(":")
for name in names:
    if name not in chosen:
        continue
    print(f"[ RUN      ] {{name}}", flush=True)
    if name == "A.crashes":
        os.abort()
    if name == "A.hangs":
        time.sleep(60)
    if name == "A.fails":
        print('(test::symbol<decltype(aclInit)>("aclInit"))(nullptr) is 7, not 0')
        print("[  FAILED  ] A.fails (0 ms)", flush=True)
    elif name == "A.is_skipped":
        print("no second card\\n[  SKIPPED ] A.is_skipped (0 ms)", flush=True)
    elif name.endswith("/1"):
        print(f"[  FAILED  ] {{name}}, where GetParam() = 1 (0 ms)", flush=True)
    else:
        print(f"[       OK ] {{name}} (0 ms)", flush=True)
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    file = tmp_path / "program"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    monkeypatch.setattr(place, "conformance_program", lambda: file)
    return file


def test_each_test_has_an_outcome_whatever_the_others_do(program, tmp_path):
    library = tmp_path / "libascendcl.so"
    names = conformance.names(library)
    assert "Handle.is_ours" not in names  # CANN takes any address for a handle
    tests = list(conformance.run(library, names, seconds=1.0))
    assert {test.name: test.status for test in tests} == {
        "A.passes": "ok", "A.fails": "failed", "A.is_skipped": "skipped", "A.crashes": "crash", "A.hangs": "hang",
        "B/Each.one/0": "ok", "B/Each.one/1": "failed"}
    text = conformance.text(library, tests)
    assert text.splitlines()[:2] == [f"CANN: {library}", "2 ok, 2 failed, 1 crash, 1 hang, 1 skipped"]
    assert "    aclInit(nullptr) is 7, not 0" in text and "A.passes" not in text
    assert "A.crashes: crash\n    the program ended with status -6" in text


def test_a_library_that_cannot_be_opened_is_told(program, tmp_path):
    with pytest.raises(conformance.Unusable, match="unusable/libascendcl.so cannot be used: no such library"):
        conformance.names(tmp_path / "unusable/libascendcl.so")


def test_softnpu_passes(softnpu):
    """Some of the tests by the command's own way; ctest runs all of them."""
    if not place.conformance_program().exists():
        pytest.skip("built without GoogleTest")
    library = place.library_folder() / "libascendcl.so"
    names = conformance.names(library)
    assert len(names) > 100 and any(name.startswith("Handle.") for name in names)
    chosen = [name for name in names if name.startswith(("Event", "Handle."))]
    tests = list(conformance.run(library, chosen))
    assert [test.name for test in tests if test.status != "ok"] == [] and len(tests) == len(chosen) > 10


def test_another_library_is_tested(tmp_path):
    """One without the functions: nothing passes, and it is said why."""
    if not place.conformance_program().exists():
        pytest.skip("built without GoogleTest")
    (tmp_path / "a.c").write_text("int nothing;\n")
    for name in ("libascendcl.so", "libnnopbase.so"):
        subprocess.run(["cc", "-shared", "-o", tmp_path / name, tmp_path / "a.c"], check=True)
    with pytest.raises(conformance.Unusable, match="aclInit"):
        list(conformance.run(tmp_path / "libascendcl.so", conformance.names(tmp_path / "libascendcl.so")))
