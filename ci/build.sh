#!/usr/bin/env bash
# Builds dist/torch_npu-<version>-<python>-<platform>.whl. Usage: bash ci/build.sh [--python=3.11] [--softnpu]
# --softnpu: dist/softnpu-<version>-py3-none-<platform>.whl instead, from the same build folder.
# Environment: CXX, MAX_JOBS, _ABI_VERSION (-fabi-version), _GLIBCXX_USE_CXX11_ABI (must be torch's).
set -euo pipefail

fail() {
  echo "build: $1; cure: $2" >&2
  exit 1
}

version=""
distribution=torch_npu
for argument in "$@"; do
  case "$argument" in
    --python=[0-9]*.[0-9]*) version="${argument#--python=}" ;;
    --python=*) fail "'${argument#--python=}' is not a Python version" "bash ci/build.sh --python=3.11" ;;
    --softnpu) distribution=softnpu ;;
    -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    *) fail "unknown argument '$argument'" "bash ci/build.sh [--python=3.11] [--softnpu]" ;;
  esac
done

python=python3
[ -z "$version" ] || python="python$version"
command -v "$python" >/dev/null ||
  fail "$python is not on PATH" "apt-get install $python $python-venv $python-dev"

cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$python" ci/preflight.py
SECONDS=0
build='import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1], {"--global-option": ["--quiet"]})'
dist="$PWD/dist"
[ "$distribution" = torch_npu ] || cd softnpu/python
"$python" -c "$build" "$dist"
cd "$dist/.."
wheel=$(ls -t dist/$distribution-*.whl | head -n 1)
echo "built $wheel ($(du -m "$wheel" | cut -f1) MB) in $SECONDS s"
