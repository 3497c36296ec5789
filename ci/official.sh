#!/usr/bin/env bash
# Runs the unmodified official torch-npu wheel, a client of the CANN ABI written by others, on the softnpu of build/.
# Needs a finished build (ci/build.sh). Skips only if the wheel cannot be had. Its environment is build/official.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=build/official
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)

if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  if ! "${pip[@]}" download --no-deps --dest "$venv/wheel" torch-npu==2.13.0; then
    echo "official: SKIPPED, the wheel torch-npu==2.13.0 cannot be downloaded here"
    exit 0
  fi
  # The wheel imports numpy and yaml without declaring them.
  "${pip[@]}" install torch==2.13.0 numpy pyyaml "$venv"/wheel/*.whl
  touch "$venv/complete"
fi

export TORCH_NPU_RUNTIME=soft
unset ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME
source build/torch_npu/softnpu/set_env.sh
exec "$venv/bin/python" ci/official_run.py
