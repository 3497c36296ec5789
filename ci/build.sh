#!/usr/bin/env bash
# Builds dist/torch_npu-<version>-<python>-<platform>.whl. Usage: bash ci/build.sh [--python=3.11]
# Environment: CXX, MAX_JOBS, _ABI_VERSION (-fabi-version), _GLIBCXX_USE_CXX11_ABI (must be torch's).
set -euo pipefail

fail() {
  echo "build: $1; cure: $2" >&2
  exit 1
}

version=""
for argument in "$@"; do
  case "$argument" in
    --python=[0-9]*.[0-9]*) version="${argument#--python=}" ;;
    --python=*) fail "'${argument#--python=}' is not a Python version" "bash ci/build.sh --python=3.11" ;;
    -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$argument'" "bash ci/build.sh [--python=3.11]" ;;
  esac
done

python=python3
[ -z "$version" ] || python="python$version"
command -v "$python" >/dev/null ||
  fail "$python is not on PATH" "apt-get install $python $python-venv $python-dev"

cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$python" ci/preflight.py
SECONDS=0
"$python" -c 'from setuptools.build_meta import build_wheel; build_wheel("dist", {"--global-option": ["--quiet"]})'
wheel=$(ls -t dist/torch_npu-*.whl | head -n 1)
echo "built $wheel ($(du -m "$wheel" | cut -f1) MB) in $SECONDS s"
