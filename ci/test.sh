#!/usr/bin/env bash
# The test command: builds and installs the wheel, then runs every check and test. All stages run; one failure fails it.
# Arguments go to pytest, for example -k stream. About 28 minutes on 2 cores from a clean clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. ci/environment.sh requirements-test.txt
export NPU_WERROR=ON  # warnings are errors here, not for users with another compiler
# Before the build: with GoogleTest the wheel has the tests of the C ABI as a program.
if [ ! -e /usr/include/gtest/gtest.h ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && apt-get install -y -qq libgtest-dev
fi
bash ci/install.sh

failed=""
stage() {
  local name=$1 start=$SECONDS
  shift
  echo
  echo "== $name: $*"
  "$@" || failed="$failed $name"
  echo "== $name: $((SECONDS - start)) s"
}

formatted() {
  find abi csrc softnpu test -name '*.cpp' -o -name '*.h' | xargs clang-format --dry-run --Werror
}

cpp_tests() {
  cmake -S . -B build -DNPU_TESTS=ON >/dev/null && cmake --build build --parallel "$(nproc)" &&
    ctest --test-dir build --parallel "$(nproc)" --output-on-failure --no-tests=error
}

stage layers python tools/check_layers.py build
stage symbols python tools/check_symbols.py build
stage lint ruff check --quiet .
stage format formatted
stage types mypy
stage aarch64 bash ci/cross_compile.sh
stage c++ cpp_tests
stage softnpu bash ci/build.sh --softnpu
stage fuzz bash ci/sweep.sh fuzz --calls 60000 --threads 2
stage official bash ci/official.sh
# Every form of a call that a folder like CANN's gets is compared with those of the official client.
rm -rf build/calls
mkdir -p build/calls
stage calls env CALLS_CLIENTS=ours SOFTNPU_RECORD_ONCE=1 bash ci/calls.sh build/calls --kinds all
stage cann-like env SOFTNPU_RECORD_ONCE=1 SOFTNPU_RECORD="$PWD/build/calls/cann_like.jsonl" bash ci/cann_like.sh
stage vocabulary python tools/calls/vocabulary.py check build/calls/{ours,cann_like}.jsonl
# So are those of the tests: an eighth of these here, all of them and the other folders in ci/sweep.sh vocabulary-suite.
stage suite bash ci/sweep.sh vocabulary-suite --part 1/8 test/{custom_ops,ops,optim,contrib,apex,official_style,test_network_ops} \
  --ignore=test/ops/test_opinfo.py
stage hostile bash ci/hostile.sh
stage python pytest -n "${TEST_JOBS:-auto}" --dist worksteal --durations 12 "$@"

if [ -n "$failed" ]; then
  echo "FAILED stages:$failed"
  exit 1
fi
echo "all stages passed"
