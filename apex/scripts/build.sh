#!/usr/bin/env bash
# Builds the apex wheel into apex/dist. Usage: bash apex/scripts/build.sh [--python=3.x]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=python3
for argument in "$@"; do
  case "$argument" in
    --python=*) python=python${argument#--python=} ;;
    *)
      echo "build.sh: unknown argument $argument; usage: bash apex/scripts/build.sh [--python=3.x]" >&2
      exit 1 ;;
  esac
done
if ! command -v "$python" >/dev/null; then
  echo "build.sh: $python was not found; install it or name another with --python=3.x" >&2
  exit 1
fi
rm -rf dist
isolation=""
"$python" -c "import setuptools, wheel" 2>/dev/null && isolation=--no-build-isolation   # nothing to download then
"$python" -m pip wheel --quiet --no-deps $isolation --wheel-dir dist .
rm -rf build ./*.egg-info
ls dist/apex-0.1+ascend*.whl
