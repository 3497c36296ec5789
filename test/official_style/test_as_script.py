"""A file with processes of its own, run as its author would."""


def test_two_ranks(run_script):
    process = run_script("test_hccl_all_reduce.py")
    assert process.returncode == 0, process.stderr
    assert "Ran 2 tests" in process.stderr and "OK (skipped=1)" in process.stderr
