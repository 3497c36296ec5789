#!/usr/bin/env bash
# Runs test/official with the unmodified official torch-npu wheel, a client of the CANN ABI written by others, on softnpu.
# Arguments choose modules or checks; without any, the client's calls are compared with the adapter's too. `--long` runs the
# checks that are left to the sweep, `--opinfo` torch's database of operators (test/official/database.py). Skips, with a
# message, only if the wheel cannot be downloaded. Environment:
#   OFFICIAL_VENV    the client's virtual environment, made on the first run (default build/official)
#   SOFTNPU_PREFIX   a folder with lib64/libsoftnpu.so (default that of build/, else of the installed torch_npu)
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${OFFICIAL_VENV:-$here/build/official}"
wheel="torch-npu==2.13.0"

softnpu="${SOFTNPU_PREFIX:-$here/build/torch_npu/softnpu}"
if [ -z "${SOFTNPU_PREFIX:-}" ] && [ ! -e "$softnpu/lib64/libsoftnpu.so" ]; then
  # From "/", because the folder torch_npu of this checkout would be found first.
  softnpu="$(cd / && python3 -c 'import importlib.util as u; print(u.find_spec("torch_npu").submodule_search_locations[0])')/softnpu" ||
    softnpu=""
fi
if [ ! -e "$softnpu/lib64/libopapi.so" ]; then
  echo "official: no softnpu in '$softnpu'; cure: bash ci/build.sh, or set SOFTNPU_PREFIX" >&2
  exit 1
fi

complete() {
  [ -x "$venv/bin/python" ] && "$venv/bin/python" - <<'END'
import importlib.metadata as packages
import sys
versions = {package.name.lower().replace("_", "-"): package.version for package in packages.distributions()}
sys.exit(not (versions.get("torch-npu") == "2.13.0" and {"torch", "numpy", "pyyaml", "expecttest"} <= versions.keys()))
END
}
if ! complete; then
  python3 -m venv "$venv"
  pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
  if ! "${pip[@]}" download --no-deps --dest "$venv/wheel" "$wheel"; then
    echo "official: SKIPPED, $wheel cannot be downloaded here"
    exit 0
  fi
  # The wheel imports numpy and yaml without declaring them, torch's databases of operators and optimisers expecttest.
  "${pip[@]}" install --no-compile torch==2.13.0 numpy pyyaml expecttest
  "${pip[@]}" install --no-deps "$venv"/wheel/*.whl
fi

unset ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME
TORCH_NPU_RUNTIME=soft
# shellcheck source=/dev/null
. "$softnpu/set_env.sh"
if [ "${1:-}" = --opinfo ]; then
  shift
  exec env -u PYTHONPATH "$venv/bin/python" "$here/test/official/database.py" --out "$here/build/sweep/official-opinfo.json" "$@"
fi
status=0
env -u PYTHONPATH "$venv/bin/python" "$here/test/official/run.py" "$@" || status=1  # not the torch_npu of a checkout
# What its libraries link and look up is in abi/symbols.txt, if this is the checkout's softnpu.
if [ $# -eq 0 ] && [ "$softnpu" = "$here/build/torch_npu/softnpu" ]; then
  python3 "$here/tools/client_symbols.py" "$venv"/lib/python3*/site-packages/torch_npu || status=1
fi
# The same calls from this project's torch_npu, if python3 has it.
if [ $# -eq 0 ] && (cd / && python3 -c 'import torch_npu') 2>/dev/null; then
  python3 "$here/test/official/calls.py" "$venv/bin/python" || status=1
fi
exit $status
