"""env.sh and set_env.sh: choose CANN, else softnpu; one line; twice; under `set -eu`; in bash and zsh."""

import shutil
import subprocess

import pytest

SHELLS = [pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell), reason=f"{shell} is not installed"))
          for shell in ("bash", "zsh")]


@pytest.fixture
def tree(root, tmp_path):
    """A checkout with a built softnpu and, besides it, a CANN; both only as far as the scripts look."""
    checkout = tmp_path / "a checkout"
    (checkout / "cmake").mkdir(parents=True)
    shutil.copy(root / "env.sh", checkout)
    shutil.copy(root / "cmake/set_env.sh", checkout / "cmake")
    softnpu = checkout / "build/torch_npu/softnpu"
    (softnpu / "lib64").mkdir(parents=True)
    (softnpu / "lib64/libsoftnpu.so").touch()
    (softnpu / "lib64/libascendcl.so").touch()
    shutil.copy(root / "cmake/set_env.sh", softnpu)
    cann = tmp_path / "Ascend/ascend-toolkit/latest"
    (cann / "lib64").mkdir(parents=True)
    (cann / "lib64/libascendcl.so").touch()
    (cann / "set_env.sh").write_text(f'false\necho "$undefined" >/dev/null\nexport ASCEND_HOME_PATH="{cann}"\n')
    return tmp_path


def run(shell, script, home, **variables):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), **variables}
    return subprocess.run([shell, "-c", script], env=environment, capture_output=True, text=True, timeout=30)


def sourced(tree, name):
    return tree / "a checkout" / ("env.sh" if name == "env.sh" else "build/torch_npu/softnpu/set_env.sh")


def twice(tree, name):
    return f'set -eu; source "{sourced(tree, name)}"; source "{sourced(tree, name)}"; '


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["env.sh", "set_env.sh"])
def test_softnpu_is_chosen_without_cann_also_twice(tree, shell, name):
    result = run(shell, twice(tree, name) + 'echo "$LD_LIBRARY_PATH"; echo $-', home=tree / "nobody")
    softnpu = tree / "a checkout/build/torch_npu/softnpu"
    assert result.stderr == ""
    first, second, libraries, options = result.stdout.splitlines()
    assert first == second == f"torch_npu: using softnpu in {softnpu}"
    assert libraries == f"{softnpu}/lib64"
    assert "e" in options and "u" in options


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", ["env.sh", "set_env.sh"])
def test_cann_is_chosen_if_it_is_there(tree, shell, name):
    result = run(shell, twice(tree, name) + 'echo "$ASCEND_HOME_PATH"; echo $-', home=tree)
    cann = tree / "Ascend/ascend-toolkit/latest"
    assert result.stderr == ""
    first, second, home, options = result.stdout.splitlines()
    assert first == second == f"torch_npu: using CANN in {cann}"
    assert home == str(cann)
    assert "e" in options and "u" in options


@pytest.mark.parametrize("shell", SHELLS)
def test_cann_whose_script_was_sourced_already_is_kept(tree, shell):
    cann = tree / "Ascend/ascend-toolkit/latest"
    result = run(shell, f'source "{sourced(tree, "env.sh")}"', home=tree / "nobody", ASCEND_HOME_PATH=str(cann))
    assert result.stdout == f"torch_npu: using CANN in {cann}\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_runtime_can_be_forced(tree, shell):
    script = f'source "{sourced(tree, "env.sh")}"'
    assert "using softnpu" in run(shell, script, home=tree, TORCH_NPU_RUNTIME="soft").stdout
    missing = run(shell, script, home=tree / "nobody", TORCH_NPU_RUNTIME="cann")
    assert missing.returncode == 1 and "no CANN found" in missing.stderr
    wrong = run(shell, script, home=tree, TORCH_NPU_RUNTIME="gpu")
    assert wrong.returncode == 1 and "neither cann nor soft" in wrong.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_left_behind(tree, shell):
    script = f'source "{sourced(tree, "env.sh")}" >/dev/null; set; typeset -f'
    names = [line for line in run(shell, script, home=tree).stdout.splitlines() if line.startswith("_torch_npu")]
    assert names == []


@pytest.mark.parametrize("shell", SHELLS)
def test_neither_is_an_error_with_a_cure(tree, shell):
    (tree / "a checkout/build/torch_npu/softnpu/lib64/libsoftnpu.so").unlink()
    result = run(shell, f'source "{sourced(tree, "env.sh")}"', home=tree / "nobody", PATH="/usr/bin:/bin")
    assert result.returncode == 1
    assert "cure: bash ci/build.sh" in result.stderr
