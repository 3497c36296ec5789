#!/usr/bin/env bash
# Builds the wheel and installs it into the active Python, replacing an older build of the same version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash ci/build.sh
tag=$(python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
wheel=$(ls -t dist/torch_npu-*-"$tag"-linux_*.whl | head -n 1)
python3 -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
