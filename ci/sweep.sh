#!/usr/bin/env bash
# Longer checks that are not part of ci/test.sh. Usage: bash ci/sweep.sh SWEEP [arguments of its script]
#   asan, tsan  the C++ tests of abi/ and softnpu/ under AddressSanitizer or ThreadSanitizer
#   files       every C++ file compiled by itself, with warnings as errors: wheels compile groups of files, editable installs do not
#   fuzz        the C ABI called with whatever comes, seeded: [asan] [--seed N] [--calls N | --each N] [--threads N];
#               unless told a million mixed calls on 1 and 4 threads, then 500 of every function and operator by itself
#   stress      threads x streams x cards at random for a minute, in every mode of softnpu and the task queue
#   ops         torch's OpInfo database, every operator and type on npu against the CPU; tables in build/sweep
#   errors      its error inputs: the CPU's exception types, at every level of the task queue
#   types       types that the CPU refuses: its exceptions, at once at every level of the task queue
#   modules     torch's ModuleInfo database, forward and backward;  optim  its optimisers: loop, foreach, fused
#   random      elementwise operators and reductions on seeded random inputs, and inputs of more than 2^31 bytes; a failing row names its seed
#   trace       what operators copy between host and device, and wait for; nothing but what test/expect/waits.yaml lists
#   graphs      torch's graph cases, with list and counts; 10,000 captures, after which nothing may be left; [FILE: torch's test/test_cuda.py]
#   distributed collectives x types x reductions x sizes and training with 2, 4 and 8 ranks; faults; 200 rounds of init
#   generic     torch's own tests of process groups and DDP, on npu over hccl with 2 ranks; [-v] [TestHccl.test_NAME...]
#   upstream    torch's own test files, as Debian's source package of torch 2.6 has them, on npu: counts for each file; [FILE...]
#   calls       what the official client and this torch_npu send to the device for the same programs; [--types float32,float16] [--level N] [NAME...];
#               with ACLNN_CACHE_LIMIT=10000 how both use the executor cache
#   official    the checks of test/official that take long for CI: four ranks, every collective with every type, compilation, environments
#   official-opinfo  torch's OpInfo database through the official wheel against the CPU: counts, and every failure with its reason; [NAME...]
#   vocabulary  records the official client over all programs, types and tests, and writes tools/calls/vocabulary.json
#   vocabulary-suite  the tests (of operators and optimisers unless told) on a folder that looks like CANN; every form of a call is held against it
#   hostile     the tests on a softnpu that refuses what a card may not survive and changes what it leaves open (ci/hostile.sh)
#   mutants     small mistakes in torch_npu/ and the kernel tables, one at a time: their tests must fail; 165, --count N --seed S --paths ...
#   models      networks trained on CPU and npu side by side, libraries from PyPI, custom operators and contrib, memory over 2,000 steps
#   packages    packages from PyPI, each in an environment of its own; a table (docs/ecosystem.md); [--newest] [NAME...]
#   perfetto    profiles of a GPT step, read by Perfetto's trace processor in a browser without a window
#   alone       clean environments with the official wheel and softnpu by two pip commands: programs, and the recipes of docs/ci.md as written
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sweep=${1:-}
shift || true

sanitized() {
  cmake --preset "$1" -DPython_EXECUTABLE="$(command -v python3)"
  cmake --build --preset "$1" --parallel "${MAX_JOBS:-$(nproc)}" --target test/abi/all test/softnpu/runtime/all test/softnpu/comm/all
  ctest --test-dir "build-$1/test/abi" --output-on-failure --no-tests=error
  ctest --test-dir "build-$1/test/softnpu/runtime" --output-on-failure --no-tests=error
  ctest --test-dir "build-$1/test/softnpu/comm" --output-on-failure --no-tests=error
}

# The tests of what the adapter sends. test/python, test/profiler and test/distributed have questions that nobody has answered yet.
suite=(test/custom_ops test/ops test/optim test/contrib test/apex test/official_style test/test_network_ops)

case "$sweep" in
  errors | types)
    for queue in 0 1 2; do
      echo "== TASK_QUEUE_ENABLE=$queue"
      TASK_QUEUE_ENABLE=$queue python3 test/ops/sweep.py "$sweep" --out "build/sweep/$sweep$queue" "$@"
    done ;;
  ops | modules | optim | random | trace)
    python3 test/ops/sweep.py "$sweep" --out "build/sweep/$sweep" "$@" ;;
  graphs)
    failed=0
    python3 test/python/test_cuda_graph_cases.py || failed=1
    python3 test/stress/captures.py 10000 || failed=1
    [ $# -eq 0 ] || python3 test/generic/graph_cases.py "$@" || failed=1
    exit $failed ;;
  generic)
    SOFTNPU_DEVICES=2 python3 test/generic/distributed_cases.py "$@" ;;
  upstream)
    python3 test/generic/upstream.py "$@" ;;
  asan)
    # The suppressions name torch's libraries only.
    export LSAN_OPTIONS="suppressions=$PWD/ci/lsan.supp:print_suppressions=0"
    sanitized asan ;;
  tsan)
    # A process reserves address space for every rank's memory; under ThreadSanitizer there is room for three.
    export GTEST_FILTER='-*works_between_processes/*_4'
    export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp:second_deadlock_stack=1:halt_on_error=0"
    sanitized tsan ;;
  files)
    cmake --preset debug -DPython_EXECUTABLE="$(command -v python3)"
    cmake --build --preset debug --parallel "${MAX_JOBS:-$(nproc)}" ;;
  fuzz)
    build=build
    if [ "${1:-}" = asan ]; then
      shift
      build=build-asan
      cmake --preset asan -DPython_EXECUTABLE="$(command -v python3)"
      export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096:handle_segv=0:handle_abort=0"
    else
      cmake -S . -B build -DNPU_TESTS=ON
    fi
    cmake --build "$build" --parallel "${MAX_JOBS:-$(nproc)}" --target fuzz
    fuzz=$PWD/$build/test/fuzz/fuzz
    folder=$(mktemp -d)  # some functions write files
    trap 'rm -rf "$folder"' EXIT
    cd "$folder"
    if [ $# -gt 0 ]; then
      case " $* " in *" --calls "* | *" --each "*) ;; *) set -- --calls 1000000 "$@" ;; esac
      "$fuzz" "$@" 2>/dev/null
    else
      failed=0
      "$fuzz" --calls 500000 --threads 1 2>/dev/null || failed=1
      "$fuzz" --seed 10001 --calls 500000 --threads 4 2>/dev/null || failed=1
      "$fuzz" --seed 20001 --each 500 2>/dev/null || failed=1
      exit $failed
    fi ;;
  stress)
    for async in 0 1; do
      for queue in 0 1 2; do
        echo "== SOFTNPU_ASYNC=$async TASK_QUEUE_ENABLE=$queue"
        SOFTNPU_ASYNC=$async TASK_QUEUE_ENABLE=$queue python3 test/stress/stress.py "$@"
      done
    done
    echo "== SOFTNPU_WORKSPACE=all"
    SOFTNPU_WORKSPACE=all python3 test/stress/stress.py "$@" ;;
  distributed)
    python3 test/distributed/sweep.py "$@"
    NPU_TEST_ROUNDS=200 python3 -m pytest -q test/distributed/test_faults.py test/distributed/test_init.py ;;
  calls)
    bash ci/calls.sh build/sweep/calls "$@" ;;
  official)
    bash ci/official.sh --long "$@" ;;
  official-opinfo)
    bash ci/official.sh --opinfo "$@" ;;
  vocabulary)
    CALLS_CLIENTS=official CALLS_SAMPLES=40 SOFTNPU_RECORD_ONCE=1 bash ci/calls.sh build/sweep/vocabulary --kinds all --types all "$@"
    CALLS_CLIENTS=official SOFTNPU_RECORD_ONCE=1 bash ci/calls.sh build/sweep/vocabulary/tests --kinds test
    python3 tools/calls/vocabulary.py make build/sweep/vocabulary/{,tests/}official.jsonl ;;
  vocabulary-suite)
    [ $# -gt 0 ] || set -- "${suite[@]}"
    failed=0
    CALLS_CLIENTS=suite bash ci/calls.sh build/sweep/vocabulary "$@" || failed=1
    python3 tools/calls/vocabulary.py check --forms build/sweep/vocabulary/suite/*.jsonl || failed=1
    exit $failed ;;
  hostile)
    bash ci/hostile.sh all "$@" ;;
  mutants)
    python3 test/mutation/run.py "$@" ;;
  models)
    python3 -c "import transformers" 2>/dev/null || python3 -m pip install --quiet -r test/models/requirements.txt
    # Its requirement is torch for CUDA.
    python3 -m pip show --quiet torchvision 2>/dev/null || python3 -m pip install --quiet --no-deps torchvision==0.28.0
    failed=0
    python3 test/models/sweep.py "$@" || failed=1
    python3 test/models/libraries.py || failed=1
    python3 -m pytest -q test/python/test_transfer_compile.py -k trainer || failed=1
    python3 -m pytest -q -m sweep || failed=1
    python3 test/custom_ops/table.py || failed=1
    python3 test/models/flatness.py || failed=1
    exit $failed ;;
  packages)
    python3 test/packages/sweep.py "$@" ;;
  perfetto)
    python3 test/profiler/perfetto.py "$@" ;;
  alone)
    python3 test/softnpu_dist/alone.py "$@" ;;
  *)
    sed -n '2,29s/^# //p' "$0" >&2
    exit 1 ;;
esac
